//! One message to the server and what comes back: sent once, and what became of it said plainly.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use drawloom_contract::failure::{Explain as _, Failure, FailureKind};
use drawloom_contract::time::Clock;
use drawloom_net::{
    Error, Method, Request as HttpRequest, Response,
    sse::{Event, Parser},
};

use super::{
    LONGEST_ANSWER, Shared,
    frame::{self, Id, Incoming},
    session::Open,
};
use crate::{
    error::ErrorBody,
    events::LIMITS,
    upstream::{Address, INSTANCE},
};

/// How long the end of an answered stream may take.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// How a message travels.
#[derive(Debug, Clone)]
pub(crate) enum Era {
    /// Without anything: `initialize`, and what comes before it.
    Bare,
    /// In a session.
    Session(Open),
    /// By itself: the version, and headers that repeat parts of the message.
    Stateless(String, Vec<(String, String)>),
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It was taken, and there is nothing to answer.
    Taken,
    /// It was answered.
    Answered(AnswerLine),
    /// The server was not reached, broke off, or failed without an answer.
    Away(Away),
    /// The server does not know the session of this generation.
    NoSession(u64),
    /// No, and the same message will be told the same.
    Refused(Failure),
}

/// An answer, on one line.
#[derive(Debug)]
pub(crate) struct AnswerLine {
    pub(crate) text: Bytes,
    /// The session that it begins.
    pub(crate) session: Option<String>,
}

/// A server that is not there.
#[derive(Debug)]
pub(crate) struct Away {
    pub(crate) why: Failure,
    /// Where it was looked for.
    pub(crate) at: Option<Address>,
    /// Whether the message may have arrived.
    pub(crate) sent: bool,
    /// How long the server wants to be left alone.
    pub(crate) pause: Option<Duration>,
    /// Whether it said something before it went.
    pub(crate) heard: bool,
}

impl Away {
    fn because(error: &Error, at: &Address) -> Self {
        let sent = !matches!(error, Error::Connect { .. } | Error::BadAddress { .. } | Error::Setup(_));
        Self { why: Failure::of(error), at: Some(at.clone()), sent, pause: None, heard: false }
    }
}

/// A response whose head is here, and where it came from.
pub(crate) struct Head {
    pub(crate) response: Response,
    at: Address,
    /// The session that it was asked in.
    generation: Option<u64>,
}

impl Shared {
    /// Sends one message and waits for the head of the response. `failed` is the address that did not work just now.
    pub(crate) async fn post(&self, text: &Bytes, era: &Era, failed: Option<&Address>) -> Result<Head, Fate> {
        let at = match self.upstream.find(failed).await {
            Ok(at) => at,
            Err(why) if why.kind.is_retryable() => {
                return Err(Fate::Away(Away { why, at: None, sent: false, pause: None, heard: false }));
            }
            Err(why) => return Err(Fate::Refused(why)),
        };
        let request = self.request(Method::Post, &at, era, Some(text.to_vec()));
        match self.http.send(request).await {
            Ok(response) => {
                let generation = match era {
                    Era::Session(Open { id: Some(_), generation, .. }) => Some(*generation),
                    Era::Session(_) | Era::Bare | Era::Stateless(..) => None,
                };
                Ok(Head { response, at, generation })
            }
            Err(error) if error.kind().is_retryable() => Err(Fate::Away(Away::because(&error, &at))),
            Err(error) => Err(Fate::Refused(Failure::of(&error))),
        }
    }

    /// A request with the headers of its era.
    pub(crate) fn request(&self, method: Method, at: &Address, era: &Era, json: Option<Vec<u8>>) -> HttpRequest {
        let accept = match method {
            Method::Get => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        let mut headers = vec![("accept".into(), accept.to_owned())];
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone().into(), value.clone())));
        headers.extend(at.instance.iter().map(|instance| (INSTANCE.into(), (**instance).to_owned())));
        match era {
            Era::Bare => {}
            Era::Session(Open { id, version, .. }) => {
                headers.extend(id.iter().map(|id| ("mcp-session-id".into(), id.clone())));
                headers.extend(version.iter().map(|version| ("mcp-protocol-version".into(), version.clone())));
            }
            Era::Stateless(version, more) => {
                headers.push(("mcp-protocol-version".into(), version.clone()));
                headers.extend(more.iter().map(|(name, value)| (name.clone().into(), value.clone())));
            }
        }
        HttpRequest { method, url: (*at.url).to_owned(), bearer: at.token.as_deref().map(str::to_owned), headers, json }
    }

    /// Reads a response to its end, passes on what is said on the way, and returns the answer to `id`.
    pub(crate) async fn read(&self, head: Head, id: Option<&Id>) -> Fate {
        let (at, status) = (head.at.clone(), head.response.status());
        match self.read_as_it_is(head, id).await {
            // What answers like a stranger at an address that was found may be one; looking again tells.
            Fate::Refused(why)
                if at.instance.is_some() && (matches!(status, 401 | 403 | 404) || why.code == "not_drawloom") =>
            {
                match self.upstream.find(Some(&at)).await {
                    Ok(found) if found == at => Fate::Refused(why),
                    Ok(_) | Err(_) => Fate::Away(Away { why, at: Some(at), sent: false, pause: None, heard: false }),
                }
            }
            fate => fate,
        }
    }

    async fn read_as_it_is(&self, head: Head, id: Option<&Id>) -> Fate {
        let Head { response, at, generation } = head;
        let url = &at.url;
        let status = response.status();
        let session = response.header("mcp-session-id").map(str::to_owned);
        let streamed = is_stream(&response);
        let pause = response.header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let busy = |why: &str, sent: bool| {
            let why = Failure::new(FailureKind::Unavailable, "upstream_away", format!("{url} answers {status}: {why}"));
            Fate::Away(Away { why, at: Some(at.clone()), sent, pause, heard: false })
        };
        match status {
            421 if at.instance.is_some() => return busy("another server is there now", false),
            200..=299 if streamed => return self.stream(response, &at, session, id).await,
            429 | 503 => return busy("it has too much to do, or is not ready", false),
            502 | 504 => return busy("a gateway before it does not reach it", true),
            _ => {}
        }
        let body = match response.bytes(LONGEST_ANSWER).await {
            Ok(body) => body,
            Err(error @ Error::TooLarge { .. }) => return Fate::Refused(Failure::of(&error)),
            Err(error) => return Fate::Away(Away::because(&error, &at)),
        };
        let text = String::from_utf8_lossy(&body);
        let unusable = |kind, what: String| {
            let hint = format!("check that {url} is the address of a drawloom server, and use the same version");
            Fate::Refused(Failure::new(kind, "not_drawloom", what).with_hint(hint))
        };
        if let 401 | 403 = status {
            return Fate::Refused(denied(status, url, &text));
        }
        if let (404, Some(generation), false) = (status, generation, is_unknown_method(&text)) {
            return Fate::NoSession(generation);
        }
        match (frame::look(&text), id) {
            (Incoming::Unaddressed(mut object), Some(id)) => {
                object.insert("id".into(), serde_json::value::RawValue::from_string(id.json().into()).expect("an id"));
                Fate::Answered(AnswerLine { text: frame::one_line(frame::raw(&object).get()), session })
            }
            (Incoming::Answer(answered), Some(id)) if answered == *id => {
                Fate::Answered(AnswerLine { text: frame::one_line(&text), session })
            }
            (_, None) if (200..=299).contains(&status) => Fate::Taken,
            // It broke while it worked on it, or while it went down: what has a key is asked again.
            _ if status >= 500 => busy("it failed, or something before it did", true),
            _ if (200..=299).contains(&status) => {
                unusable(FailureKind::Unavailable, format!("{url} answered {status} without an answer to the request"))
            }
            _ => match serde_json::from_str::<ErrorBody>(&text) {
                Ok(ErrorBody { error, .. }) => {
                    let said = Failure::new(crate::error::kind(status), "refused", error.message);
                    Fate::Refused(error.hint.into_iter().fold(said, Failure::with_hint))
                }
                Err(_) => unusable(FailureKind::Invalid, format!("{url} answered status {status}")),
            },
        }
    }

    async fn stream(&self, mut response: Response, at: &Address, session: Option<String>, id: Option<&Id>) -> Fate {
        let url = &at.url;
        let mut parser = Parser::new(LIMITS);
        let mut events = Vec::new();
        let mut heard = false;
        loop {
            match response.chunk().await {
                Ok(Some(bytes)) => {
                    if let Err(error) = parser.feed(&bytes, &mut events) {
                        return Fate::Refused(Failure::of(&error));
                    }
                }
                Ok(None) if id.is_none() => return Fate::Taken,
                Ok(None) => {
                    let what = format!("{url} closed the connection before it answered");
                    let why = Failure::new(FailureKind::Unavailable, "upstream_away", what);
                    return Fate::Away(Away { why, at: Some(at.clone()), sent: true, pause: None, heard });
                }
                Err(error) => return Fate::Away(Away { sent: true, heard, ..Away::because(&error, at) }),
            }
            for Event { data, .. } in events.drain(..) {
                match (frame::look(&data), id) {
                    (Incoming::Answer(answered), Some(id)) if answered == *id => {
                        tokio::spawn(read_out(response, self.clock.clone()));
                        return Fate::Answered(AnswerLine { text: frame::one_line(&data), session });
                    }
                    (incoming, _) => heard |= self.pass(incoming, &data).await,
                }
            }
        }
    }

    /// Passes on something that the server says and that is not what is being waited for; says whether it did.
    pub(crate) async fn pass(&self, incoming: Incoming, text: &str) -> bool {
        match incoming {
            Incoming::Said(object, method) => {
                let lifted = (method == "notifications/progress").then(|| self.progress.lift(&object)).flatten();
                self.output.line(lifted.unwrap_or_else(|| frame::one_line(text))).await;
                return true;
            }
            Incoming::Answer(id) if self.calls.finish(&id) => {
                self.output.line(frame::one_line(text)).await;
                return true;
            }
            Incoming::Answer(id) => tracing::debug!(id = id.json(), "dropped a response without a waiting request"),
            // The first event of a stream may be empty: it only has an id.
            Incoming::Unaddressed(_) | Incoming::Unknown if text.trim().is_empty() => {}
            Incoming::Unaddressed(_) | Incoming::Unknown => {
                tracing::warn!("dropped a message of the server that is not JSON-RPC");
            }
        }
        false
    }
}

/// Whether a response brings events.
pub(crate) fn is_stream(response: &Response) -> bool {
    let kind = response.header("content-type").and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Reads what is left of an answered stream, so that its connection can be used again.
async fn read_out(mut response: Response, clock: Arc<dyn Clock>) {
    let over = clock.now().after(LAST_BYTES);
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    tokio::select! {
        () = rest => {}
        () = clock.sleep_until(over) => {}
    }
}

/// Whether a 404 speaks of the method, and not of the session.
fn is_unknown_method(body: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(body).is_ok_and(|body| body["error"]["code"] == -32601)
}

/// The failure of a caller who may not.
fn denied(status: u16, at: &str, body: &str) -> Failure {
    let said = serde_json::from_str::<ErrorBody>(body).map(|body| body.error.message).ok();
    let said = said.or_else(|| {
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        body["error"]["message"].as_str().map(str::to_owned)
    });
    let what = said.map_or_else(|| format!("{at} answers {status}"), |said| format!("{at} answers {status}: {said}"));
    match status {
        401 => Failure::new(FailureKind::Unauthenticated, "upstream_denied", what)
            .with_hint("set DRAWLOOM_TOKEN, in the client's config for this server, to a token that the server knows"),
        _ => Failure::new(FailureKind::Denied, "upstream_denied", what)
            .with_hint("use a token with the scope that this needs, and an address that the server announces"),
    }
}
