//! Streamable HTTP to an address of the operator's, for rmcp, over the client of `net`.

mod listening;
mod refusal;

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use drawloom_contract::redact::Redactor;
use drawloom_net::{Configured, Method, Request, Response};
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::{
        DynamicTransportError,
        streamable_http_client::{SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse},
    },
};
use sse_stream::Sse;

use listening::Listening;
use refusal::{Refusal, may_be_for_the_session};

use super::{
    events::{Ends, MOST_UNANSWERED, Watcher},
    filter::{ConnectionState, MOST_NOISE, Session, answered},
    message::{Read, read},
    probe::{ProbeTimeout, unanswered},
    stdio::LONGEST_MESSAGE,
};

/// The longest answer that is a stream, in bytes: one message and the most noise.
pub(super) const LONGEST_STREAM: usize = LONGEST_MESSAGE + MOST_NOISE;

/// Why there is no answer; says nothing of headers.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// From the client of `net`.
    #[error("{0}")]
    Net(#[source] drawloom_net::Error),
    /// The stream was longer than it may be.
    #[error("connection closed: it sent a stream of more than {LONGEST_STREAM} bytes")]
    TooLong,
    /// A message was longer than it may be.
    #[error("connection closed: it sent a message of more than {LONGEST_MESSAGE} bytes")]
    MessageTooLong,
    /// It asked more than anybody answers.
    #[error("connection closed: it sent more than {MOST_UNANSWERED} requests without reading the responses")]
    TooManyRequests,
    /// It took a request as if it wanted no answer.
    #[error("HTTP {0} without a response message")]
    NoAnswer(u16),
    /// It answered with what is no answer to the request.
    #[error("{0}")]
    NotTheAnswer(String),
    /// It answered one request with a status that is no success.
    #[error("{said}")]
    Refused {
        /// The status.
        status: u16,
        /// What it said, shortened.
        said: String,
    },
}

impl Error {
    /// The error of ours that rmcp hands back, when it is one.
    pub(super) fn find(error: &DynamicTransportError) -> Option<&Self> {
        match error.error.downcast_ref::<Failed>() {
            Some(StreamableHttpError::Client(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether a server answered the request, with success or not.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::NoAnswer(_) | Self::NotTheAnswer(_))
    }

    /// Whether it is we who broke off a stream.
    pub(super) fn is_by_us(&self) -> bool {
        matches!(self, Self::TooLong | Self::MessageTooLong | Self::TooManyRequests)
    }

    /// Whether it is certain that what the request asked for was not done. Of the statuses for a request that is not taken,
    /// 408 and 499 also come from between, when a server was slow; of those that lead elsewhere, some come after it was done.
    pub(super) fn is_not_done(&self) -> bool {
        match self {
            Self::Refused { status, .. } => {
                [307, 308].contains(status) || (400..500).contains(status) && ![408, 499].contains(status)
            }
            Self::Net(error) => matches!(error, drawloom_net::Error::Connect { .. }),
            Self::TooLong
            | Self::MessageTooLong
            | Self::TooManyRequests
            | Self::NoAnswer(_)
            | Self::NotTheAnswer(_) => false,
        }
    }
}

/// Whether a request was refused because the server does not know the session: it has not done what was asked.
pub(super) fn is_session_lost(error: &DynamicTransportError) -> bool {
    matches!(error.error.downcast_ref::<Failed>(), Some(StreamableHttpError::SessionExpired))
}

type Failed = StreamableHttpError<Error>;

/// The way of rmcp to the network.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Configured,
    /// Headers of the operator's, with their secrets.
    headers: Arc<[(String, String)]>,
    /// Keeps the errors of streams.
    state: Arc<ConnectionState>,
    redactor: Arc<Redactor>,
    ends: Ends,
    listening: Listening,
    probe_timeout: ProbeTimeout,
}

/// Keeps that an answer of ours was sent, or that it never will be.
struct Paying(Arc<ConnectionState>, Option<RequestId>);

impl Drop for Paying {
    fn drop(&mut self) {
        if let Some(id) = &self.1 {
            self.0.mark_answered(id);
        }
    }
}

impl Http {
    pub(super) fn new(
        client: Configured,
        headers: Vec<(String, String)>,
        state: Arc<ConnectionState>,
        redactor: Arc<Redactor>,
        probe_timeout: ProbeTimeout,
    ) -> Self {
        let (ends, listening) = (Ends::default(), Listening::default());
        Self { client, headers: headers.into(), state, redactor, ends, listening, probe_timeout }
    }

    async fn send(
        &self,
        request: Request,
        session: Option<&str>,
        more: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failed> {
        let mut request = request;
        let own = self.headers.iter().map(|(name, value)| (name.clone().into(), value.clone()));
        request.headers.extend(own);
        request.headers.extend(session.map(|session| ("mcp-session-id".into(), session.to_owned())));
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned().into(), value.to_str().ok()?.to_owned()))
        };
        request.headers.extend(more.iter().filter_map(text));
        let sent = self.client.send(request).await;
        sent.map_err(|error| StreamableHttpError::Client(Error::Net(error)))
    }

    /// The events of an answer, as far as the limits.
    fn events(&self, response: Response, asked: Option<RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
        Watcher::new(self.state.clone(), self.redactor.clone(), self.ends.clone(), asked).watch(response)
    }

    /// The answer in a body of JSON to the request `asked`.
    fn answer(&self, body: &[u8], asked: &RequestId) -> Result<ServerJsonRpcMessage, Error> {
        let Some(Read { message, .. }) = read(body, &self.redactor) else {
            return Err(Error::NotTheAnswer(format!("the response is not an MCP message: {}", self.begin(body))));
        };
        let other = |id: &RequestId| {
            let text = format!("it responded to request {id} instead of {asked}");
            Err(Error::NotTheAnswer(text))
        };
        match message {
            JsonRpcMessage::Response(response) if response.id.to_string() != asked.to_string() => other(&response.id),
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) if id.to_string() != asked.to_string() => other(id),
                // No other can be meant.
                _ => Ok(ServerJsonRpcMessage::error(error.error, Some(asked.clone()))),
            },
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {
                Err(Error::NotTheAnswer("it sent a request or notification instead of a response".into()))
            }
            answer => Ok(answer),
        }
    }
}

/// What a body is, in small letters: names of types are the same in capitals.
fn content_type(response: &Response) -> String {
    response.header("content-type").unwrap_or_default().to_ascii_lowercase()
}

fn request(method: Method, url: &str, bearer: Option<String>, json: Option<Vec<u8>>) -> Request {
    let accept = ("accept".into(), "application/json, text/event-stream".to_owned());
    Request { method, url: url.to_owned(), bearer, headers: vec![accept], json }
}

impl StreamableHttpClient for Http {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let _paying = Paying(self.state.clone(), answered(&message));
        if session_id.is_some() {
            self.state.session(Session::Open);
        }
        let body = serde_json::to_vec(&message)?;
        let asked = request(Method::Post, &uri, auth_header.clone(), Some(body));
        let sent = self.send(asked, session_id.as_deref(), &custom_headers);
        let response = match probe(&message) {
            None => sent.await?,
            Some(id) => tokio::select! {
                sent = sent => sent?,
                () = self.probe_timeout.clock.sleep_until(self.probe_timeout.until()) => {
                    self.state.is_silent();
                    return Ok(StreamableHttpPostResponse::Json(unanswered(id), None));
                }
            },
        };
        let status = response.status();
        let asked = match &message {
            JsonRpcMessage::Request(asked) => Some(asked.id.clone()),
            _ => None,
        };
        if matches!(status, 202 | 204) {
            // The answer cannot come another way: no other stream is open.
            return match (asked, probe(&message)) {
                (None, _) => Ok(StreamableHttpPostResponse::Accepted),
                (_, Some(id)) => Ok(StreamableHttpPostResponse::Json(unanswered(id), None)),
                (Some(_), None) => Err(StreamableHttpError::Client(Error::NoAnswer(status))),
            };
        }
        if status == 404 && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.header("mcp-session-id").map(str::to_owned);
        let kind = content_type(&response);
        if !(200..300).contains(&status) {
            let refusal = Refusal::read(status, kind, response).await;
            if status == 400
                && let Some(session) = session_id.as_deref().filter(|_| may_be_for_the_session(&message))
                && self.is_gone(&refusal, &uri, session, auth_header, &custom_headers).await
            {
                return Err(StreamableHttpError::SessionExpired);
            }
            return self.refused(&message, session_id.is_some(), refusal);
        }
        if kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response, asked), session));
        }
        let body = response.bytes(LONGEST_MESSAGE).await;
        let body = body.map_err(|error| StreamableHttpError::Client(Error::Net(error)))?;
        match asked {
            None => Ok(StreamableHttpPostResponse::Accepted),
            Some(asked) => match self.answer(&body, &asked) {
                Ok(_) if !kind.starts_with("application/json") => {
                    Err(StreamableHttpError::UnexpectedContentType(Some(kind)))
                }
                Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
                Err(error) => Err(StreamableHttpError::Client(error)),
            },
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let asked = request(Method::Delete, &uri, auth_header, None);
        let sent = self.send(asked, Some(&session_id), &custom_headers).await.map(drop);
        self.state.session(Session::None);
        sent
    }

    /// Takes up a broken answer, or opens the stream that answers no request: its events have no ids here.
    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let Some(last) = last_event_id else {
            return self.listen(&uri, session_id.as_deref(), auth_header, &custom_headers).await;
        };
        if self.ends.contains(&last) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let mut asked = request(Method::Get, &uri, auth_header, None);
        asked.headers.push(("last-event-id".into(), last));
        let response = self.send(asked, session_id.as_deref(), &custom_headers).await?;
        match response.status() {
            200..300 => Ok(self.events(response, None)),
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(unexpected(format!("HTTP {status}"))),
        }
    }
}

/// The id of the question of the newer protocol.
fn probe(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(asked) if matches!(asked.request, ClientRequest::DiscoverRequest(_)) => {
            Some(asked.id.clone())
        }
        _ => None,
    }
}

fn unexpected(text: String) -> Failed {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::outside::probe::tests::probe_timeout;

    #[test]
    fn a_body_must_answer_the_request_that_it_came_for() {
        let client = Configured::new().expect("a client");
        let redactor = Arc::new(Redactor::new(["hunter2-hunter2"]));
        let http = Http::new(client, Vec::new(), Arc::default(), redactor, probe_timeout());
        let answer = |body: Value| {
            let answer = http.answer(body.to_string().as_bytes(), &RequestId::Number(7));
            answer.map_or_else(|error| error.to_string(), |answer| serde_json::to_string(&answer).expect("JSON"))
        };
        let error = json!({"code": -32600, "message": "no"});
        for id in [json!(null), json!(7), json!("7")] {
            let told = answer(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            assert_eq!(serde_json::from_str::<Value>(&told).expect("JSON")["id"], json!(7));
        }
        let other = "it responded to request 8 instead of 7";
        assert_eq!(answer(json!({"jsonrpc": "2.0", "id": 8, "error": error})), other);
        assert_eq!(answer(json!({"jsonrpc": "2.0", "id": 8, "result": {}})), other);
        assert_eq!(
            answer(json!({"jsonrpc": "2.0", "id": 8, "method": "ping"})),
            "it sent a request or notification instead of a response"
        );
        let told = answer(json!(format!("{}hunter2-hunter2", "x".repeat(190))));
        assert!(told.starts_with("the response is not an MCP message: ") && !told.contains("hunter"), "{told}");
    }
}
