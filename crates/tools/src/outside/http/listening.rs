//! The stream of a session that answers no request. On it servers of the older era ask, also while they make a call, and say
//! that their tools have changed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::time::Instant;
use drawloom_net::Method;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpError};
use sse_stream::Sse;

use super::{Failed, Http, content_type, request};
use crate::outside::events::Watcher;

/// How long it is not opened again after it was.
const PAUSE: Duration = Duration::from_secs(60);

/// When it may be opened again.
#[derive(Debug, Clone, Default)]
pub(super) struct Listening(Arc<Mutex<Option<Instant>>>);

impl Listening {
    /// When it may be opened; the caller opens it then.
    fn turn(&self, now: Instant) -> Instant {
        let mut not_before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = not_before.map_or(now, |not_before| not_before.max(now));
        *not_before = Some(turn.after(PAUSE));
        turn
    }
}

impl Http {
    /// Opens the stream. A server that does not want that, for whatever reason, is not asked again in this session.
    pub(super) async fn listen(
        &self,
        uri: &str,
        session: Option<&str>,
        bearer: Option<String>,
        more: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let clock = &self.probe_timeout.clock;
        clock.sleep_until(self.listening.turn(clock.now())).await;
        let asked = request(Method::Get, uri, bearer, None);
        match self.send(asked, session, more).await {
            Ok(response)
                if (200..300).contains(&response.status())
                    && content_type(&response).starts_with("text/event-stream") =>
            {
                Ok(Watcher::of_no_request(self.state.clone(), self.redactor.clone()).watch(response))
            }
            Ok(_) | Err(_) => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_opened_now_and_then() {
        let (listening, at) = (Listening::default(), |millis| Instant::from_origin(Duration::from_millis(millis)));
        assert_eq!(listening.turn(at(1_000)), at(1_000));
        assert_eq!(listening.turn(at(2_000)), at(61_000));
        assert_eq!(listening.turn(at(500_000)), at(500_000));
    }
}
