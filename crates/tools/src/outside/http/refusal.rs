//! What it means that a server answered a request with a status that is no success.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use drawloom_net::{Method, Response};
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse},
};
use serde_json::json;

use super::{Error, Failed, Http, request};

/// How much of a body that is no answer is shown, in characters.
const LONGEST_BEGIN: usize = 200;

/// How much of a refusal is read.
const LONGEST_REFUSAL: usize = 16 * 1024;

/// How long a server has to say whether it knows a session.
const SESSION_CHECK: Duration = Duration::from_secs(5);

/// Whether a 400 to this can mean that the server does not know the session. A ping is what that is found out with.
pub(super) fn may_be_for_the_session(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(asked) if !matches!(asked.request, ClientRequest::PingRequest(_)))
}

/// An answer whose status is no success.
pub(super) struct Refusal {
    status: u16,
    kind: String,
    /// Where it leads on to.
    location: Option<String>,
    body: Bytes,
}

impl Refusal {
    pub(super) async fn read(status: u16, kind: String, response: Response) -> Self {
        let location = response.header("location").filter(|_| (300..400).contains(&status)).map(str::to_owned);
        let body = response.bytes(LONGEST_REFUSAL).await.unwrap_or_default();
        Self { status, kind, location, body }
    }

    /// Whether it says that the session is not known, and `ping` was refused in the same words: whoever looks at the session
    /// first says the same of every message. A server that refuses a ping for another reason may have made the call.
    fn is_for_the_session(&self, ping: &[u8]) -> bool {
        let same = match (error_in(&self.body), error_in(ping)) {
            (Some(call), Some(ping)) => call.code == ping.code && call.message == ping.message,
            (None, None) => self.body == ping,
            _ => false,
        };
        same && String::from_utf8_lossy(&self.body).to_ascii_lowercase().contains("session")
    }
}

impl Http {
    /// Whether `refusal` says that a session is gone: a ping in it is refused too, and not because nobody there knows what a
    /// ping is.
    pub(super) async fn is_gone(
        &self,
        refusal: &Refusal,
        uri: &str,
        session: &str,
        bearer: Option<String>,
        more: &HashMap<HeaderName, HeaderValue>,
    ) -> bool {
        let ping = json!({"jsonrpc": "2.0", "id": "is-the-session-there", "method": "ping"});
        let asked = request(Method::Post, uri, bearer, Some(ping.to_string().into_bytes()));
        let look = async {
            let Ok(response) = self.send(asked, Some(session), more).await else { return false };
            match response.status() {
                404 => true,
                400 => refusal.is_for_the_session(&response.bytes(LONGEST_REFUSAL).await.unwrap_or_default()),
                _ => false,
            }
        };
        let clock = &self.probe_timeout.clock;
        tokio::select! {
            gone = look => gone,
            () = clock.sleep_until(clock.now().after(SESSION_CHECK)) => false,
        }
    }

    /// What a status that is no success means: an error of JSON-RPC when the body is one, so that it reaches the caller.
    pub(super) fn refused(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        refusal: Refusal,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let Refusal { status, kind, location, body } = refusal;
        let target = location.map(|to| self.target(&to));
        let said = error_in(&body);
        let is_auth = matches!(status, 401 | 403);
        if let JsonRpcMessage::Request(asked) = message
            && !is_auth
        {
            let probe = matches!(asked.request, ClientRequest::DiscoverRequest(_)) && !in_session && status < 500;
            let error = match said {
                Some(said) => Some(said),
                // A server of the older era does not know the question; it will be asked the older way.
                None if probe => {
                    Some(ErrorData::invalid_request(format!("HTTP {status}: {}", self.begin(&body)), None))
                }
                None => None,
            };
            if let Some(error) = error {
                let answer = ServerJsonRpcMessage::error(error, Some(asked.id.clone()));
                return Ok(StreamableHttpPostResponse::Json(answer, None));
            }
        }
        let said = match target {
            _ if is_auth => format!("HTTP {status}: credential rejected"),
            Some(target) => format!(
                "HTTP {status}: redirects to {target}, and redirects are not followed; set `url` to the final address"
            ),
            None => format!("HTTP {status} ({kind}): {}", self.begin(&body)),
        };
        Err(StreamableHttpError::Client(Error::Refused { status, said }))
    }

    /// Where a redirect leads to, without what may be secret there.
    fn target(&self, location: &str) -> String {
        let (path, query) = location.split_once(['?', '#']).map_or((location, ""), |(path, _)| (path, "?…"));
        let (scheme, rest) = path.split_once("//").map_or(("", path), |(scheme, rest)| (scheme, rest));
        let host_end = rest.find('/').unwrap_or(rest.len());
        let shown = match rest[..host_end].rfind('@') {
            Some(at) => format!("{scheme}//…@{}{query}", &rest[at + 1..]),
            None => format!("{path}{query}"),
        };
        self.begin(shown.as_bytes())
    }

    /// The beginning of a body; its secrets are masked first.
    pub(super) fn begin(&self, body: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(body).into_owned();
        self.redactor.mask(&mut text);
        text.chars().take(LONGEST_BEGIN).collect()
    }
}

/// The error of JSON-RPC that a body is, when it is one.
fn error_in(body: &[u8]) -> Option<ErrorData> {
    match serde_json::from_slice(body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error.error),
        _ => None,
    }
}
