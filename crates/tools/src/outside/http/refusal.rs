//! What it means that a server answered a request with a status that is no success.

use std::{collections::HashMap, time::Duration};

use drawloom_net::{Method, Response};
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, ServerJsonRpcMessage},
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

impl Http {
    /// Whether a session is gone: a ping in it is refused too, and not because nobody there knows what a ping is.
    pub(super) async fn is_gone(
        &self,
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
                400 => {
                    let said = error_in(&response.bytes(LONGEST_REFUSAL).await.unwrap_or_default());
                    said.is_none_or(|said| said.code != ErrorCode::METHOD_NOT_FOUND)
                }
                _ => false,
            }
        };
        let clock = &self.patience.clock;
        tokio::select! {
            gone = look => gone,
            () = clock.sleep_until(clock.now().after(SESSION_CHECK)) => false,
        }
    }

    /// What a status that is no success means: an error of JSON-RPC when the body is one, so that it reaches whoever asked.
    pub(super) async fn refused(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        status: u16,
        kind: &str,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let target = response.header("location").filter(|_| (300..400).contains(&status)).map(|to| self.target(to));
        let body = response.bytes(LONGEST_REFUSAL).await.unwrap_or_default();
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
            _ if is_auth => format!("HTTP {status}: it does not accept the credential"),
            Some(target) => format!(
                "HTTP {status}: it leads on to {target}, and redirects are not followed; put the final address into `url`"
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
