//! Fetching for `HTTP` and `WebFetch`: one request, its redirects past the same gate, within time and size.

use std::{error::Error as _, sync::Arc, time::Duration};

use bytes::Bytes;
use drawloom_contract::{
    failure::{Explain, FailureKind},
    gate::HOSTS,
    time::Clock,
    tool::{Gates, ToolCard, ToolContext, ToolError},
};
use drawloom_net::{
    Guarded, Method,
    guarded::{Address, Error, Request, Response},
};
use tracing::Instrument as _;

use crate::{builtin::Switch, hosts::AllowedHosts};

/// What turns fetching on.
pub(crate) const SWITCH: Switch =
    Switch { turn_on: "add hosts under tools.http.hosts", is_on: |config| !config.http.hosts.is_empty() };

/// Most redirects that are followed.
pub(crate) const MOST_REDIRECTS: usize = 5;

/// How long all of it may take.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Headers that may follow to another host. Whatever else a call sets may be a credential.
const HARMLESS: &[&str] = &["accept", "accept-language", "content-type", "user-agent"];

/// The way out, shared by the tools that use it.
pub(crate) struct Outbound {
    pub(crate) client: Guarded,
    pub(crate) gate: AllowedHosts,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What came back.
pub(crate) struct Fetched {
    /// Where the answer came from in the end.
    pub(crate) address: Address,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether there was more than was asked for.
    pub(crate) cut: bool,
    /// What happened on the way.
    pub(crate) notices: Vec<String>,
}

/// The card of a tool that reaches hosts. Without a host it is not offered.
pub(crate) fn card_for(card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
    HOSTS.check(&card.name, gates)?;
    match gates.hosts {
        hosts if hosts.iter().any(|host| host == "*") => Ok(card.clone()),
        hosts => {
            let description = format!("{} Allowed hosts: {}.", card.description, hosts.join(", "));
            Ok(ToolCard { description, ..card.clone() })
        }
    }
}

impl Fetched {
    /// A header's value.
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }
}

impl Outbound {
    /// Fetches with at most `most` bytes of body, from hosts that the call may reach.
    pub(crate) async fn fetch(
        &self,
        context: &ToolContext,
        request: Request,
        most: usize,
    ) -> Result<Fetched, ToolError> {
        let over = self.clock.sleep_awake_until(self.clock.awake().after(TIME_LIMIT));
        let (host, method) = (request.address.host().to_owned(), request.method);
        let span = tracing::debug_span!(
            "http_request",
            run = %context.run.run,
            call = context.call,
            method = method.as_str(),
            host,
        );
        let fetched = tokio::select! {
            fetched = self.follow(&context.hosts, request, most).instrument(span.clone()) => fetched,
            () = over => {
                let error = ToolError::Failed(format!("{host}: timed out after {} s", TIME_LIMIT.as_secs()));
                Err(after_sending(method, error))
            }
        };
        match &fetched {
            Ok(fetched) => tracing::debug!(parent: &span, status = fetched.status, "http request ended"),
            Err(error) => tracing::debug!(parent: &span, %error, "http request failed"),
        }
        fetched
    }

    async fn follow(&self, hosts: &[String], mut request: Request, most: usize) -> Result<Fetched, ToolError> {
        let mut notices = Vec::new();
        let method = request.method;
        for _ in 0..=MOST_REDIRECTS {
            // After the first redirect something has been sent, whatever becomes of the rest.
            let sent = |error| if notices.is_empty() { error } else { after_sending(method, error) };
            self.gate.check(&request.address, hosts).map_err(sent)?;
            let response = self.client.send(request.clone()).await.map_err(|error| match error {
                Error::Broken { .. } => after_sending(method, explain(&error)),
                error => sent(explain(&error)),
            })?;
            match next(&request, &response).map_err(|error| after_sending(method, error))? {
                Some(redirected) => {
                    notices.push(notice(&request, &redirected, response.status()));
                    request = redirected;
                }
                None => {
                    let read = read(request.address, response, most, notices).await;
                    return read.map_err(|error| after_sending(method, error));
                }
            }
        }
        let error = format!("more than {MOST_REDIRECTS} redirects, the last one to {}", request.address);
        Err(after_sending(method, ToolError::Failed(error)))
    }
}

/// An error that came when the request may have been carried out: who asked for a change must not just ask again.
fn after_sending(method: Method, error: ToolError) -> ToolError {
    let doubt =
        |text: String| format!("{text}; the request may still have taken effect: check before you send it again");
    match (method, error) {
        (Method::Get | Method::Head, error) => error,
        (_, ToolError::Failed(text)) => ToolError::Failed(doubt(text)),
        (_, ToolError::Denied(text)) => ToolError::Denied(doubt(text)),
        (_, ToolError::Invalid(text)) => ToolError::Invalid(doubt(text)),
    }
}

/// The request that a redirect asks for; nothing when the answer is none.
fn next(request: &Request, response: &Response) -> Result<Option<Request>, ToolError> {
    let status = response.status();
    let (true, Some(location)) = (matches!(status, 301 | 302 | 303 | 307 | 308), response.header("location")) else {
        return Ok(None);
    };
    let address = request.address.join(location).map_err(|error| {
        ToolError::Failed(format!("{} redirects to a URL that cannot be followed: {error}", request.address))
    })?;
    let mut next = request.clone();
    // As browsers do: what was sent is sent again only where the status says so.
    let drops_body = match (status, request.method) {
        (303, Method::Head) => false,
        (303, _) | (301 | 302, Method::Post) => true,
        _ => false,
    };
    if drops_body {
        (next.method, next.body) = (Method::Get, Bytes::new());
        next.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
    }
    if !address.is_same_origin(&request.address) {
        next.headers.retain(|(name, _)| HARMLESS.contains(&name.to_ascii_lowercase().as_str()));
    }
    next.address = address;
    Ok(Some(next))
}

fn notice(from: &Request, to: &Request, status: u16) -> String {
    let kept = |name: &str| to.headers.iter().any(|(kept, _)| kept == name);
    let dropped: Vec<&str> = from.headers.iter().map(|(name, _)| name.as_str()).filter(|name| !kept(name)).collect();
    match dropped.is_empty() {
        true => format!("[redirected ({status}) to {}]", to.address),
        false => format!("[redirected ({status}) to {}, without the headers {}]", to.address, dropped.join(", ")),
    }
}

async fn read(
    address: Address,
    mut response: Response,
    most: usize,
    notices: Vec<String>,
) -> Result<Fetched, ToolError> {
    let headers = response.headers().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
    let (mut body, mut cut) = (Vec::new(), false);
    while let Some(chunk) = response.chunk().await.map_err(|error| explain(&error))? {
        let left = most - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if chunk.len() > left {
            cut = true;
            break;
        }
    }
    Ok(Fetched { address, status: response.status(), headers, body, cut, notices })
}

/// An error with its cause and what to do next, for the model.
pub(crate) fn explain(error: &Error) -> ToolError {
    let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let text = format!("{error}{cause}{hint}");
    match error.kind() {
        FailureKind::Invalid => ToolError::Invalid(text),
        FailureKind::Denied => ToolError::Denied(text),
        _ => ToolError::Failed(text),
    }
}
