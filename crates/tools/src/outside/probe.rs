//! The question of the newer protocol: how long a server has to answer it before it is asked the older way, because some
//! servers of the older era do not answer what they do not know, and which answers mean that it is one of those.

use std::{sync::Arc, time::Duration};

use drawloom_contract::time::{Clock, Instant};
use rmcp::model::{
    ErrorCode, ErrorData, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde_json::Value;

/// The longest wait. A little less than rmcp's own, so that an answer that still comes is known to be late.
const LONGEST: Duration = Duration::from_secs(9);

/// How long to wait for the answer.
#[derive(Clone)]
pub(super) struct ProbeTimeout {
    limit: Duration,
    pub(super) clock: Arc<dyn Clock>,
}

impl ProbeTimeout {
    /// A third of what the whole start may take: the rest is for the older way.
    pub(super) fn of_start(start: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { limit: (start / 3).min(LONGEST), clock }
    }

    /// When it ends, from now.
    pub(super) fn until(&self) -> Instant {
        self.clock.now().after(self.limit)
    }
}

impl std::fmt::Debug for ProbeTimeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeTimeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The version that has no handshake.
pub(super) const NEWER: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// The answer to the question as the client must see it. A server that does not say that it speaks the newer protocol does
/// not know the question, whatever it answers. For the library only some errors mean that.
pub(super) fn understood(answer: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    match answer {
        JsonRpcMessage::Response(response) => match &response.result {
            ServerResult::DiscoverResult(result) if result.supported_versions.contains(&NEWER) => {
                JsonRpcMessage::Response(response)
            }
            _ => unknown(response.id, "it does not support the newer protocol"),
        },
        JsonRpcMessage::Error(error) if error.error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            let supported = error.error.data.as_ref().and_then(|data| data.get("supported")?.as_array());
            let is_newer = |version: &Value| version.as_str() == Some(NEWER.as_str());
            match &error.id {
                Some(id) if !supported.is_some_and(|versions| versions.iter().any(is_newer)) => {
                    unknown(id.clone(), "it does not support the newer protocol")
                }
                _ => JsonRpcMessage::Error(error),
            }
        }
        other => other,
    }
}

/// The answer in place of the one that did not come: such as a server gives that does not know the question.
pub(super) fn unanswered(id: RequestId) -> ServerJsonRpcMessage {
    unknown(id, "no response to server/discover")
}

fn unknown(id: RequestId, why: &'static str) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None), Some(id))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use drawloom_testkit::TestClock;

    pub(in crate::outside) fn probe_timeout() -> ProbeTimeout {
        ProbeTimeout::of_start(Duration::from_secs(30), Arc::new(TestClock::default()))
    }

    #[test]
    fn the_older_way_has_most_of_the_time() {
        let limit = |seconds| ProbeTimeout::of_start(Duration::from_secs(seconds), probe_timeout().clock).limit;
        assert_eq!(limit(3), Duration::from_secs(1));
        assert_eq!(limit(600), LONGEST);
    }

    #[test]
    fn a_server_that_does_not_offer_the_newer_protocol_is_asked_in_the_older_one() {
        let code = |answer: Value| {
            let answer = serde_json::from_value(answer).expect("an answer");
            match understood(answer) {
                JsonRpcMessage::Error(error) => Some(error.error.code.0),
                _ => None,
            }
        };
        let discovered = |versions: Value| {
            json!({"jsonrpc": "2.0", "id": 0, "result": {
                "resultType": "complete", "supportedVersions": versions, "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
            }})
        };
        let refused =
            |data: Value| json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32022, "message": "no", "data": data}});
        assert_eq!(code(discovered(json!(["2025-11-25", "2026-07-28"]))), None);
        assert_eq!(code(discovered(json!(["2025-11-25"]))), Some(-32601));
        assert_eq!(code(json!({"jsonrpc": "2.0", "id": 0, "result": {}})), Some(-32601));
        assert_eq!(code(refused(json!({"supported": ["2026-07-28"]}))), Some(-32022));
        assert_eq!(code(refused(json!({"supported": ["2025-11-25"]}))), Some(-32601));
        assert_eq!(code(refused(json!(null))), Some(-32601));
    }
}
