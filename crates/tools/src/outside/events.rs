//! The events of an answer over HTTP, as far as the limits.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use drawloom_contract::redact::Redactor;
use drawloom_net::Response;
use futures::{StreamExt as _, stream::BoxStream};
use rmcp::{
    model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_client::SseError,
};
use sse_stream::{Sse, SseStream};

use super::{
    filter::ConnectionState,
    http::{Error, LONGEST_STREAM},
    message::read,
    stdio::LONGEST_MESSAGE,
};

/// Most requests of the server on one stream whose answers it has not taken.
pub(super) const MOST_UNANSWERED: usize = 16;

/// The shortest wait before a stream is taken up again, in milliseconds, whatever the server says.
const SHORTEST_RETRY: u64 = 100;

/// Most ends of streams that are remembered.
const MOST_ENDS: usize = 1_000;

/// Where streams ended that we hung up on: they are not taken up again.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends(Arc<Mutex<HashSet<String>>>);

impl Ends {
    pub(super) fn contains(&self, event: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(event)
    }

    fn insert(&self, event: String) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.len() >= MOST_ENDS {
            ends.clear();
        }
        ends.insert(event);
    }
}

/// Looks at the events of one stream.
pub(super) struct Watcher {
    pub(super) state: Arc<ConnectionState>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) ends: Ends,
    /// The request that it answers, when that is known.
    pub(super) asked: Option<RequestId>,
    /// Whether it answers none.
    is_of_no_request: bool,
    /// Requests of the server that came on it.
    unanswered: Vec<String>,
    /// The newest event that had an id.
    last: Option<String>,
}

impl Watcher {
    pub(super) fn new(
        state: Arc<ConnectionState>,
        redactor: Arc<Redactor>,
        ends: Ends,
        asked: Option<RequestId>,
    ) -> Self {
        Self { state, redactor, ends, asked, is_of_no_request: false, unanswered: Vec::new(), last: None }
    }

    /// For the stream that answers no request.
    pub(super) fn of_no_request(state: Arc<ConnectionState>, redactor: Arc<Redactor>) -> Self {
        Self { is_of_no_request: true, ..Self::new(state, redactor, Ends::default(), None) }
    }

    /// The events of an answer.
    pub(super) fn watch(mut self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let bytes = futures::stream::try_unfold((response, LONGEST_STREAM), async |(mut response, left)| {
            let Some(chunk) = response.chunk().await.map_err(Error::Net)? else { return Ok(None) };
            let left = left.checked_sub(chunk.len()).ok_or(Error::TooLong)?;
            Ok::<_, Error>(Some((chunk, (response, left))))
        });
        SseStream::from_bytes_stream(Box::pin(bytes)).map(move |event| self.see(event)).boxed()
    }

    fn see(&mut self, event: Result<Sse, SseError>) -> Result<Sse, SseError> {
        let event = event.and_then(|event| self.judge(event).map_err(|error| SseError::Body(Box::new(error))));
        match &event {
            // It has nothing to do with any call.
            _ if self.is_of_no_request => {}
            Ok(event) => self.last = event.id.clone().or(self.last.take()),
            Err(SseError::Body(error)) => {
                self.state.set_stream_error(self.asked.as_ref(), error.to_string());
                let is_by_us = error.downcast_ref::<Error>().is_some_and(Error::is_by_us);
                if let Some(last) = self.last.take().filter(|_| is_by_us) {
                    self.ends.insert(last);
                }
            }
            Err(error) => {
                self.state.set_stream_error(self.asked.as_ref(), format!("invalid event stream: {error}"));
            }
        }
        event
    }

    fn judge(&mut self, mut event: Sse) -> Result<Sse, Error> {
        if self.is_of_no_request {
            // It is opened anew, not taken up.
            event.id = None;
        }
        event.retry = event.retry.map(|retry| retry.max(SHORTEST_RETRY));
        let Some(data) = &event.data else { return Ok(event) };
        if data.len() > LONGEST_MESSAGE {
            return Err(Error::MessageTooLong);
        }
        let Some(read) = read(data.as_bytes(), &self.redactor) else { return Ok(event) };
        let mut mended = (!read.is_as_sent).then(|| read.message.clone());
        match read.message {
            JsonRpcMessage::Request(request) => {
                self.state.add_unanswered(&request.id);
                self.unanswered.push(request.id.to_string());
                self.unanswered.retain(|id| self.state.is_unanswered(id));
                if self.unanswered.len() > MOST_UNANSWERED {
                    return Err(Error::TooManyRequests);
                }
            }
            // The stream answers one request, so the error is its answer.
            JsonRpcMessage::Error(error) if error.id.is_none() && self.asked.is_some() => {
                mended = Some(ServerJsonRpcMessage::error(error.error, self.asked.clone()));
            }
            JsonRpcMessage::Notification(notice) if self.is_of_no_request => {
                self.state.notice(&notice.notification);
                return Ok(Sse::default());
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) | JsonRpcMessage::Notification(_) => {}
        }
        if let Some(text) = mended.and_then(|message| serde_json::to_string(&message).ok()) {
            event.data = Some(text);
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn watcher() -> Watcher {
        let redactor = Arc::new(Redactor::new([""; 0]));
        Watcher::new(Arc::default(), redactor, Ends::default(), Some(RequestId::Number(7)))
    }

    fn event(id: Option<&str>, data: serde_json::Value) -> Result<Sse, SseError> {
        Ok(Sse { id: id.map(str::to_owned), data: Some(data.to_string()), ..Sse::default() })
    }

    fn ask(id: usize) -> Result<Sse, SseError> {
        event(Some("e"), json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
    }

    #[test]
    fn a_stream_of_requests_is_hung_up_on_and_not_taken_up_again() {
        let mut watcher = watcher();
        for id in 0..100 {
            assert!(watcher.see(ask(id)).is_ok());
            watcher.state.mark_answered(&RequestId::Number(i64::try_from(id).expect("small")));
        }
        for id in 0..MOST_UNANSWERED {
            assert!(watcher.see(ask(id)).is_ok());
        }
        assert!(!watcher.ends.contains("e"));
        assert!(watcher.see(ask(99)).is_err());
        assert!(watcher.ends.contains("e"));
        let said = "connection closed: it sent more than 16 requests without reading the responses";
        assert_eq!(watcher.state.take_stream_error(&RequestId::Number(7)).as_deref(), Some(said));
    }

    #[test]
    fn an_error_without_an_id_answers_the_request_and_no_stream_resumes_at_once() {
        let mut watcher = watcher();
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}});
        let seen = watcher.see(event(None, error)).expect("an event").data.expect("data");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&seen).expect("JSON")["id"], json!(7));
        let retry = |retry| Ok(Sse { retry: Some(retry), ..Sse::default() });
        assert_eq!(watcher.see(retry(0)).expect("an event").retry, Some(SHORTEST_RETRY));
        assert_eq!(watcher.see(retry(5_000)).expect("an event").retry, Some(5_000));
    }

    #[test]
    fn on_the_stream_of_no_request_only_requests_are_passed_on() {
        let state = Arc::<ConnectionState>::default();
        let mut watcher = Watcher::of_no_request(state.clone(), Arc::new(Redactor::new([""; 0])));
        let seen = watcher.see(ask(1)).expect("an event");
        assert!(seen.data.is_some() && seen.id.is_none());
        let notice = |method: &str| event(Some("e"), json!({"jsonrpc": "2.0", "method": method}));
        assert!(watcher.see(notice("notifications/resources/list_changed")).expect("an event").data.is_none());
        assert!(!state.take_changed());
        assert!(watcher.see(notice("notifications/tools/list_changed")).expect("an event").data.is_none());
        assert!(state.take_changed());
        for id in 2..MOST_UNANSWERED + 2 {
            drop(watcher.see(ask(id)));
        }
        assert_eq!(state.take_stream_error(&RequestId::Number(7)), None);
    }
}
