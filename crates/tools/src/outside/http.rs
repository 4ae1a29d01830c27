//! Streamable HTTP to an address of the operator's, for rmcp, over the client of `net`.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use bytes::Bytes;
use drawloom_net::{Configured, Method, Request, Response};
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::{
        DynamicTransportError,
        streamable_http_client::{SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse},
    },
};
use sse_stream::{Sse, SseStream};

use super::{
    probe::{Patience, unanswered},
    sieve::{Fate, MOST_NOISE},
    stdio::LONGEST_MESSAGE,
};

/// The longest answer that is a stream, in bytes: one message and as much noise as is borne.
const LONGEST_STREAM: usize = LONGEST_MESSAGE + MOST_NOISE;

/// How much of a refusal is read.
const LONGEST_REFUSAL: usize = 16 * 1024;

/// Why there is no answer; says nothing of headers.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// From the client of `net`.
    #[error("{0}")]
    Net(#[source] drawloom_net::Error),
    /// The stream was longer than it may be.
    #[error("it sent a stream of more than {LONGEST_STREAM} bytes, and was hung up on")]
    TooLong,
    /// A message was longer than it may be.
    #[error("it sent a message of more than {LONGEST_MESSAGE} bytes, and was hung up on")]
    MessageTooLong,
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

    /// Whether the request came to somebody who said something to it.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether it is certain that what the request asked for was not done. Of the statuses for a request that is not taken,
    /// 408 and 499 also come from between, when a server was slow.
    pub(super) fn is_not_done(&self) -> bool {
        match self {
            Self::Refused { status, .. } => (400..500).contains(status) && ![408, 499].contains(status),
            Self::Net(error) => matches!(error, drawloom_net::Error::Connect { .. }),
            Self::TooLong | Self::MessageTooLong => false,
        }
    }
}

type Failed = StreamableHttpError<Error>;

/// The way of rmcp to the network.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Configured,
    /// Headers of the operator's, with their secrets.
    headers: Arc<[(String, String)]>,
    /// Where the troubles of streams are told.
    fate: Arc<Fate>,
    patience: Patience,
}

impl Http {
    pub(super) fn new(client: Configured, headers: Vec<(String, String)>, fate: Arc<Fate>, patience: Patience) -> Self {
        Self { client, headers: headers.into(), fate, patience }
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
    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let bytes = futures::stream::try_unfold((response, LONGEST_STREAM), async |(mut response, left)| {
            let Some(chunk) = response.chunk().await.map_err(Error::Net)? else { return Ok(None) };
            let left = left.checked_sub(chunk.len()).ok_or(Error::TooLong)?;
            Ok::<_, Error>(Some((chunk, (response, left))))
        });
        let fate = self.fate.clone();
        let events = SseStream::from_bytes_stream(Box::pin(bytes)).map(move |event| {
            let event = match event {
                Ok(event) if event.data.as_ref().is_some_and(|data| data.len() > LONGEST_MESSAGE) => {
                    Err(SseError::Body(Box::new(Error::MessageTooLong)))
                }
                event => event,
            };
            match &event {
                Ok(_) => {}
                Err(SseError::Body(error)) => fate.trouble(error.to_string()),
                Err(error) => fate.trouble(format!("what it sent is no stream of events: {error}")),
            }
            event
        });
        events.boxed()
    }
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
        let body = serde_json::to_vec(&message)?;
        let asked = request(Method::Post, &uri, auth_header, Some(body));
        let sent = self.send(asked, session_id.as_deref(), &custom_headers);
        let response = match probe(&message) {
            None => sent.await?,
            Some(id) => tokio::select! {
                sent = sent => sent?,
                () = self.patience.clock.sleep_until(self.patience.until()) => {
                    self.fate.is_silent();
                    return Ok(StreamableHttpPostResponse::Json(unanswered(id), None));
                }
            },
        };
        let status = response.status();
        if matches!(status, 202 | 204) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == 404 && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.header("mcp-session-id").map(str::to_owned);
        let kind = response.header("content-type").unwrap_or_default().to_owned();
        if !(200..300).contains(&status) {
            return refused(&message, session_id.is_some(), status, &kind, response).await;
        }
        if kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        let wants_answer = matches!(message, JsonRpcMessage::Request(_));
        let body = response.bytes(LONGEST_MESSAGE).await;
        let body = body.map_err(|error| StreamableHttpError::Client(Error::Net(error)))?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer) if kind.starts_with("application/json") => Ok(StreamableHttpPostResponse::Json(answer, session)),
            _ if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            Ok(_) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
            Err(error) => Err(unexpected(format!("the answer is no MCP message: {error}: {}", begin(&body)))),
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
        self.send(asked, Some(&session_id), &custom_headers).await.map(drop)
    }

    /// Takes up a broken answer. The stream without a request is never opened: nothing that it brings is needed, and it
    /// would be one more way to be flooded.
    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let Some(last) = last_event_id else { return Err(StreamableHttpError::ServerDoesNotSupportSse) };
        let mut asked = request(Method::Get, &uri, auth_header, None);
        asked.headers.push(("last-event-id".into(), last));
        let response = self.send(asked, session_id.as_deref(), &custom_headers).await?;
        match response.status() {
            200..300 => Ok(self.events(response)),
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(unexpected(format!("HTTP {status}"))),
        }
    }
}

/// What a status that is no success means: an error of JSON-RPC when the body is one, so that it reaches whoever asked.
async fn refused(
    message: &ClientJsonRpcMessage,
    in_session: bool,
    status: u16,
    kind: &str,
    response: Response,
) -> Result<StreamableHttpPostResponse, Failed> {
    let body = response.bytes(LONGEST_REFUSAL).await.unwrap_or_default();
    let said = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let is_auth = matches!(status, 401 | 403);
    if let JsonRpcMessage::Request(asked) = message
        && !is_auth
    {
        let probe = matches!(asked.request, ClientRequest::DiscoverRequest(_)) && !in_session && status < 500;
        let error = match said {
            Some(said) => Some(said.error),
            // A server of the older era does not know the question; it will be asked the older way.
            None if probe => Some(ErrorData::invalid_request(format!("HTTP {status}: {}", begin(&body)), None)),
            None => None,
        };
        if let Some(error) = error {
            let answer = ServerJsonRpcMessage::error(error, Some(asked.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
    }
    let said = match is_auth {
        true => format!("HTTP {status}: it does not accept the credential"),
        false => format!("HTTP {status} ({kind}): {}", begin(&body)),
    };
    Err(StreamableHttpError::Client(Error::Refused { status, said }))
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

fn begin(body: &Bytes) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned()
}
