//! How long a server has to answer the question of the newer protocol before it is asked the older way: some servers of the
//! older era do not answer what they do not know.

use std::{sync::Arc, time::Duration};

use drawloom_contract::time::{Clock, Timestamp};
use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};

/// The longest wait. A little less than rmcp's own, so that an answer that still comes is known to be late.
const LONGEST: Duration = Duration::from_secs(9);

/// How long an answer is waited for.
#[derive(Clone)]
pub(super) struct Patience {
    limit: Duration,
    pub(super) clock: Arc<dyn Clock>,
}

impl Patience {
    /// A third of what the whole start may take: the rest is for the older way.
    pub(super) fn of_start(start: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { limit: (start / 3).min(LONGEST), clock }
    }

    /// When it ends, from now.
    pub(super) fn until(&self) -> Timestamp {
        self.clock.now().after(self.limit)
    }
}

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The answer in place of the one that did not come: such as a server gives that does not know the question.
pub(super) fn unanswered(id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "it did not answer server/discover", None);
    ServerJsonRpcMessage::error(error, Some(id))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::outside::tests::WallClock;

    pub(in crate::outside) fn patience() -> Patience {
        Patience::of_start(Duration::from_secs(30), Arc::new(WallClock::default()))
    }

    #[test]
    fn the_older_way_has_most_of_the_time() {
        let limit = |seconds| Patience::of_start(Duration::from_secs(seconds), patience().clock).limit;
        assert_eq!(limit(3), Duration::from_secs(1));
        assert_eq!(limit(600), LONGEST);
    }
}
