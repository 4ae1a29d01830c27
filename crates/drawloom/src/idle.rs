//! When a server that was started on demand may end: no client is connected, and nothing is unfinished.

use std::time::Duration;

use drawloom_contract::{
    journal::{RunReader, StoreError},
    runs::Runs,
    time::{Clock, Instant},
};
use drawloom_server::App;

/// How often it is looked at most.
const MOST_OFTEN: Duration = Duration::from_millis(50);

/// How often it is looked at least.
const LEAST_OFTEN: Duration = Duration::from_secs(30);

/// Returns after `limit` without a connection and without an unfinished run.
pub(crate) async fn until_idle(app: &App, runs: &dyn Runs, reader: &dyn RunReader, clock: &dyn Clock, limit: Duration) {
    let pause = (limit / 10).clamp(MOST_OFTEN, LEAST_OFTEN);
    let mut quiet_since = clock.now();
    loop {
        clock.sleep_until(clock.now().after(pause)).await;
        let now = clock.now();
        quiet_since = match is_used(app, runs, reader).await {
            true => now,
            false => later(quiet_since, app.presence().last_left()),
        };
        if now.since(quiet_since) >= limit {
            return;
        }
    }
}

fn later(one: Instant, other: Option<Instant>) -> Instant {
    other.map_or(one, |other| one.max(other))
}

async fn is_used(app: &App, runs: &dyn Runs, reader: &dyn RunReader) -> bool {
    let load = runs.load_now();
    if app.presence().connections() > 0 || load.active > 0 || load.queued > 0 {
        return true;
    }
    match reader.list_unfinished().await {
        Ok(unfinished) => unfinished.parked > 0 || !unfinished.runs.is_empty(),
        // A server whose store was deleted refuses every request, so it counts as idle.
        Err(StoreError::Gone { .. }) => false,
        Err(error) => {
            tracing::warn!(error = %error, "cannot count unfinished runs; the server stays");
            true
        }
    }
}
