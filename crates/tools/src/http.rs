//! `HTTP`: one request to a host that the gates allow.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    VERSION,
    gate::HOSTS,
    redact::Redactor,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use drawloom_net::{
    Method,
    guarded::{Address, Request},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    builtin::BuiltIn,
    fetch::{self, Fetched, Outbound, explain},
    page::decode,
};

/// Most bytes of a body, each way.
pub(crate) const MOST_BYTES: usize = 256 * 1024;

/// Most bytes of one header that are shown.
pub(crate) const LONGEST_HEADER: usize = 1000;

/// Most headers that can be sent.
pub(crate) const MOST_HEADERS: usize = 50;

pub(crate) const BUILT_IN: BuiltIn =
    BuiltIn::switched("HTTP", fetch::SWITCH, |shared| Arc::new(Http(shared.outbound.clone()))).gated(HOSTS);

pub(crate) struct Http(pub(crate) Arc<Outbound>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The method; default GET.
    #[serde(default)]
    method: Verb,
    /// The URL, http or https.
    url: String,
    /// Headers by name.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body, at most 256 KiB.
    #[serde(default)]
    body: String,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl From<Verb> for Method {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::Get,
            Verb::Head => Self::Head,
            Verb::Post => Self::Post,
            Verb::Put => Self::Put,
            Verb::Patch => Self::Patch,
            Verb::Delete => Self::Delete,
        }
    }
}

#[async_trait]
impl Tool for Http {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "HTTP",
            "Send an HTTP request to an allowed host and return status, headers and body. At most 256 KiB each way and 30 \
             seconds; up to 5 redirects are followed, without credentials when the host changes.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        fetch::card_for(card, gates)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Never
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        if input.body.len() > MOST_BYTES {
            return Err(ToolError::Invalid(format!("body has {} bytes; the limit is {MOST_BYTES}", input.body.len())));
        }
        if input.headers.len() > MOST_HEADERS {
            return Err(ToolError::Invalid(format!("{} headers; the limit is {MOST_HEADERS}", input.headers.len())));
        }
        let address = Address::parse(&input.url).map_err(|error| explain(&error))?;
        let headers = with_agent(input.headers.into_iter().collect());
        let request = Request { method: input.method.into(), address, headers, body: input.body.into() };
        let fetched = self.0.fetch(context, request, MOST_BYTES).await?;
        Ok(Step::done(said(fetched, &context.redactor)))
    }
}

/// The headers, saying who asks where the call does not.
pub(crate) fn with_agent(mut headers: Vec<(String, String)>) -> Vec<(String, String)> {
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        headers.push(("user-agent".into(), format!("drawloom/{VERSION}")));
    }
    headers
}

fn said(fetched: Fetched, redactor: &Redactor) -> String {
    let mut lines = fetched.notices.clone();
    lines.push(format!("HTTP {} from {}", fetched.status, fetched.address));
    for (name, value) in &fetched.headers {
        let (short, mark) = match value.len() > LONGEST_HEADER {
            true => (redactor.mask_part(value, 0..value.floor_char_boundary(LONGEST_HEADER)), "… [truncated]"),
            false => (value.clone(), ""),
        };
        lines.push(format!("{name}: {short}{mark}"));
    }
    lines.push(String::new());
    let mut body = body(&fetched);
    if fetched.cut {
        // The rest of a secret that goes on behind the cut is not known.
        body.truncate(redactor.sure(&body, redactor.reach()));
    }
    lines.push(body);
    if fetched.cut {
        let whole = fetched.header("content-length").map(|length| format!(" of {length}")).unwrap_or_default();
        lines.push(format!("[truncated: the first {} bytes{whole} of the body]", fetched.body.len()));
    }
    lines.join("\n")
}

fn body(fetched: &Fetched) -> String {
    let kind = fetched.header("content-type").unwrap_or("unknown type");
    if fetched.body.is_empty() {
        return "[no body]".into();
    }
    if let Some(encoding) = fetched.header("content-encoding").filter(|encoding| *encoding != "identity") {
        return format!("[{} bytes of {kind}, encoded as {encoding}, not shown]", fetched.body.len());
    }
    match decode(&fetched.body, kind) {
        Some(text) => text,
        None => format!("[{} bytes of {kind}, not text]", fetched.body.len()),
    }
}
