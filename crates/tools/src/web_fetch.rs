//! `WebFetch`: a web page as readable text.

use std::sync::{Arc, atomic::AtomicBool};

use async_trait::async_trait;
use bytes::Bytes;
use drawloom_contract::{
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
    files::until_dropped,
    http::with_agent,
    page::{self, Page},
};

/// Most bytes of text that one call returns.
pub(crate) const MOST_TEXT: usize = 256 * 1024;

/// Most bytes of a page that are fetched: markup is longer than its text.
pub(crate) const MOST_BYTES: usize = 4 * 1024 * 1024;

pub(crate) const BUILT_IN: BuiltIn =
    BuiltIn::switched("WebFetch", fetch::SWITCH, |shared| Arc::new(WebFetch(shared.outbound.clone()))).gated(HOSTS);

pub(crate) struct WebFetch(pub(crate) Arc<Outbound>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The URL, http or https.
    url: String,
    /// Byte offset in the text; default 0. The notice at the end of a truncated result says where to continue.
    #[serde(default)]
    offset: usize,
}

#[async_trait]
impl Tool for WebFetch {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "WebFetch",
            "Fetch a web page from an allowed host and return its text with headings, lists and links. Other text \
             formats are returned unchanged. At most 256 KiB per call; a truncated result ends with a notice \
             on how to continue.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        fetch::card_for(card, gates)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let address = Address::parse(&input.url).map_err(|error| explain(&error))?;
        let headers = vec![("accept".into(), "text/html, application/xhtml+xml, text/*;q=0.9, */*;q=0.5".into())];
        let request = Request { method: Method::Get, address, headers: with_agent(headers), body: Bytes::new() };
        let fetched = self.0.fetch(context, request, MOST_BYTES).await?;
        let redactor = context.redactor.clone();
        until_dropped(move |stop| said(&fetched, input.offset, &redactor, &stop)).await.map(Step::done)
    }
}

fn said(fetched: &Fetched, offset: usize, redactor: &Redactor, stop: &AtomicBool) -> Result<String, ToolError> {
    let address = &fetched.address;
    if !(200..300).contains(&fetched.status) {
        return Err(ToolError::Failed(format!("{address} returned status {}", fetched.status)));
    }
    if let Some(encoding) = fetched.header("content-encoding").filter(|encoding| *encoding != "identity") {
        return Err(ToolError::Failed(format!("{address} is encoded as {encoding}, which was not requested")));
    }
    let kind = fetched.header("content-type").unwrap_or("text/html").to_ascii_lowercase();
    let name = kind.split(';').next().unwrap_or_default().trim();
    let not_text = || ToolError::Failed(format!("{address} is {name}, not text; use HTTP to see its headers"));
    if !page::is_text(name) {
        return Err(not_text());
    }
    let text = page::decode(&fetched.body, &kind).ok_or_else(not_text)?;
    let Page { title, text, cut } = match page::is_html(name) {
        true => page::readable(&text, address, stop),
        false => Page { title: None, text, cut: false },
    };
    let sure = if cut || fetched.cut { redactor.sure(&text, redactor.reach()) } else { text.len() };
    let text = &text[..sure];
    let mut lines = fetched.notices.clone();
    lines.push(address.to_string());
    lines.extend(title.map(|title| format!("Title: {title}")));
    lines.push(String::new());
    lines.push(part(text, offset, redactor));
    if cut {
        lines.push(format!(
            "[truncated: the page has more than {} KiB of text; the rest is omitted]",
            page::MOST_TEXT / 1024
        ));
    }
    if fetched.cut {
        lines.push(format!("[truncated: only the first {} KiB of the page were fetched]", MOST_BYTES / 1024));
    }
    Ok(lines.join("\n"))
}

/// The text from `offset` on, within the limit.
fn part(text: &str, offset: usize, redactor: &Redactor) -> String {
    let from = text.floor_char_boundary(offset);
    let end = text.floor_char_boundary(from.saturating_add(MOST_TEXT));
    let masked = redactor.mask_part(text, from..end);
    match masked.as_str() {
        "" if text.is_empty() => "[the page has no text]".into(),
        "" => format!("[offset {offset} is out of range: the text has {} bytes]", text.len()),
        part if end < text.len() => {
            format!("{part}\n[truncated: bytes {from} to {end} of {}; continue with offset={end}]", text.len())
        }
        part => part.to_owned(),
    }
}
