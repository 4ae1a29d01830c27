//! When a server that was started on demand may end: no client is connected, nothing is unfinished, and no message waits for its time.

use std::time::Duration;

use drawloom_contract::{
    journal::{RunReader, StoreError},
    runs::Runs,
    time::{Clock, Instant},
};
use drawloom_server::App;
use drawloom_substrate::channels::Channels;

/// How often it is looked at most.
const MOST_OFTEN: Duration = Duration::from_millis(50);

/// How often it is looked at least.
const LEAST_OFTEN: Duration = Duration::from_secs(30);

/// What a server can be used for.
pub(crate) struct Use<'a> {
    pub(crate) app: &'a App,
    pub(crate) runs: &'a dyn Runs,
    pub(crate) reader: &'a dyn RunReader,
    pub(crate) channels: &'a Channels,
}

/// Returns after `limit` without a connection, an unfinished run and a deferred message.
pub(crate) async fn until_idle(used: &Use<'_>, clock: &dyn Clock, limit: Duration) {
    let pause = (limit / 10).clamp(MOST_OFTEN, LEAST_OFTEN);
    let mut quiet_since = clock.now();
    loop {
        clock.sleep_until(clock.now().after(pause)).await;
        let now = clock.now();
        quiet_since = match used.is_now().await {
            true => now,
            false => later(quiet_since, used.app.presence().last_left()),
        };
        if now.since(quiet_since) >= limit {
            return;
        }
    }
}

fn later(one: Instant, other: Option<Instant>) -> Instant {
    other.map_or(one, |other| one.max(other))
}

impl Use<'_> {
    async fn is_now(&self) -> bool {
        let load = self.runs.load_now();
        if self.app.presence().connections() > 0 || load.active > 0 || load.queued > 0 {
            return true;
        }
        match self.is_awaited().await {
            Ok(is_awaited) => is_awaited,
            // A server whose store was deleted refuses every request, so it counts as idle.
            Err(StoreError::Gone { .. }) => false,
            Err(error) => {
                tracing::warn!(error = %error, "cannot count unfinished runs; the server stays");
                true
            }
        }
    }

    /// Whether something is to happen later.
    async fn is_awaited(&self) -> Result<bool, StoreError> {
        let unfinished = self.reader.list_unfinished().await?;
        Ok(unfinished.parked > 0 || !unfinished.runs.is_empty() || self.channels.has_deferred().await?)
    }
}
