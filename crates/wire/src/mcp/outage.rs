//! How long a server may be away, and when to look for it again.

use std::time::Duration;

use drawloom_contract::{
    failure::{Failure, FailureKind},
    time::{Clock, Entropy, Instant},
};

use super::exchange::Away;
use crate::upstream::Address;

/// The wait before the second try; the first one is at once, and each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// How often a session is opened anew at once for one message; a server that loses it still more often is away.
const MOST_RENEWALS: u32 = 2;

/// The longest wait between tries.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// An outage, from the first failure on.
pub(crate) struct Outage {
    patience: Duration,
    since: Option<Instant>,
    tries: u32,
    renewals: u32,
    /// Where the server was not.
    pub(crate) failed: Option<Address>,
}

impl Outage {
    /// None yet; one may last for `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: None, tries: 0, renewals: 0, failed: None }
    }

    /// The server is there.
    pub(crate) fn over(&mut self) {
        *self = Self::new(self.patience);
    }

    /// The session was opened anew for this message. A server that never knows the session that it has just given is not
    /// asked without a pause, and not without end.
    pub(crate) async fn renewed(&mut self, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<(), Failure> {
        self.renewals += 1;
        if self.renewals <= MOST_RENEWALS {
            return Ok(());
        }
        let what = "it does not know the session that it has just opened";
        let why = Failure::new(FailureKind::Unavailable, "session_lost", what)
            .with_hint("if several servers share this address, each session must stay with one of them");
        self.wait(Away { why, at: None, sent: false, pause: None, heard: false }, clock, entropy).await
    }

    /// Waits for the time to look again; fails when the server has been away for too long.
    pub(crate) async fn wait(&mut self, away: Away, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<(), Failure> {
        let now = clock.now();
        let since = *self.since.get_or_insert(now);
        tracing::debug!(error = %away.why, tries = self.tries, "the server is away");
        if now.since(since) >= self.patience {
            return Err(gave_up(&away.why, self.patience));
        }
        let doubled = FIRST_WAIT.saturating_mul(1 << self.tries.saturating_sub(1).min(16)).min(LONGEST_WAIT);
        let wait = if self.tries == 0 { Duration::ZERO } else { doubled + jitter(doubled, entropy) };
        // A server that says when is taken at its word, as long as it does not cost the whole patience.
        let wait = wait.max(away.pause.unwrap_or_default().min(Duration::from_secs(30)));
        self.tries += 1;
        self.failed = away.at;
        let until = now.after(wait).min(since.after(self.patience));
        clock.sleep_until(until).await;
        Ok(())
    }
}

/// Up to a quarter more, so that many callers do not come back at once.
fn jitter(wait: Duration, entropy: &dyn Entropy) -> Duration {
    let mut byte = [0];
    match entropy.fill(&mut byte) {
        Ok(()) => wait.mul_f64(f64::from(byte[0]) / 1024.0),
        Err(_) => Duration::ZERO,
    }
}

/// The server did not come back in time.
pub(crate) fn gave_up(why: &Failure, patience: Duration) -> Failure {
    let what = format!("the drawloom server did not come back within {} s: {why}", patience.as_secs());
    let failure = Failure::new(FailureKind::Unavailable, "upstream_away", what);
    let known = why.hint.clone().unwrap_or_else(|| "check that `drawloom serve` runs".into());
    failure.with_hint(format!("{known}; accepted runs continue: see list_runs"))
}
