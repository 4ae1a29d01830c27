//! The right to one call at a credential, and waking the runs that wait for one.

use std::sync::Arc;

use drawloom_contract::{
    ids::RunKey,
    model::{Turn, TurnError},
    time::Instant,
};
use tokio::sync::oneshot;

use crate::{
    Engine,
    limiter::{CallEnd, Decision, Next, Signal},
    run_task::RunTask,
};

/// The right to make one call. It is given back when the call has ended, or will not be made.
pub(crate) struct Permit {
    engine: Arc<Engine>,
    /// `None` for a provider without limits, and once the permit was given back.
    credential: Option<String>,
    since: Instant,
    stage: Stage,
}

/// How far the holder of a permit has come.
#[derive(Debug)]
enum Stage {
    Admitted,
    /// With this ticket, until the signal.
    Standby(u64, oneshot::Receiver<Signal>),
    Calling,
}

impl Permit {
    /// Returns true when the call may be made, false when the credential was closed and the run must queue again.
    pub(crate) async fn call(&mut self) -> bool {
        let clock = self.engine.parts.clock.clone();
        if let Some(credential) = &self.credential
            && let Some((ticket, signal)) = self.engine.limiter.start_call(credential, clock.now())
        {
            self.stage = Stage::Standby(ticket, signal);
            let signal = match &mut self.stage {
                Stage::Standby(_, signal) => signal.await,
                Stage::Admitted | Stage::Calling => Ok(Signal::Requeue),
            };
            if signal != Ok(Signal::Start) {
                self.stage = Stage::Admitted;
                self.give_back(CallEnd::Other);
                return false;
            }
        }
        self.stage = Stage::Calling;
        self.since = clock.now();
        true
    }

    /// Gives it back after a call.
    pub(crate) fn end(mut self, result: &Result<Turn, TurnError>) {
        let took = self.engine.parts.clock.now().since(self.since);
        let ending = match result {
            Ok(turn) => {
                let clock = &self.engine.parts.clock;
                let closed_until = turn.closed_until.map(|time| clock.now().after(time.since(clock.wall())));
                CallEnd::Accepted { took, closed_until }
            }
            Err(TurnError::Throttled { retry_after, .. } | TurnError::Overloaded { retry_after, .. }) => {
                CallEnd::Throttled { retry_after: *retry_after }
            }
            // The provider accepted the call and worked on it.
            Err(TurnError::Refused { .. } | TurnError::ContextTooLong { .. }) => {
                CallEnd::Accepted { took, closed_until: None }
            }
            Err(
                TurnError::Unavailable { .. }
                | TurnError::Cut { .. }
                | TurnError::BadRequest { .. }
                | TurnError::NoTools { .. }
                | TurnError::Auth { .. },
            ) => CallEnd::Other,
        };
        self.give_back(ending);
    }

    fn give_back(&mut self, ending: CallEnd) {
        if let Some(credential) = self.credential.take() {
            let (limiter, now) = (&self.engine.limiter, self.engine.parts.clock.now());
            let next = match &mut self.stage {
                Stage::Admitted => limiter.release(&credential, None, false, now),
                Stage::Standby(ticket, signal) => {
                    // After the close no signal can come, so the one read here is the last.
                    signal.close();
                    let started = signal.try_recv() == Ok(Signal::Start);
                    limiter.release(&credential, Some(*ticket), started, now)
                }
                Stage::Calling => limiter.end_call(&credential, ending, now),
            };
            self.engine.go_on(&credential, next);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(CallEnd::Other);
    }
}

impl RunTask {
    /// The right to call the run's model; `None` when the run was queued and will be woken.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let provider = self.engine.parts.providers.get(&self.run.model.provider);
        let credential = provider.and_then(|provider| provider.credential.clone());
        if let Some(credential) = &credential
            && self.engine.limiter.acquire(credential, &self.key, self.engine.parts.clock.now()) == Decision::Queue
        {
            return None;
        }
        Some(Permit {
            engine: self.engine.clone(),
            credential,
            since: self.engine.parts.clock.now(),
            stage: Stage::Admitted,
        })
    }
}

impl Engine {
    /// Wakes the next runs, and polls again when it is time.
    pub(crate) fn go_on(self: &Arc<Self>, credential: &str, next: Next) {
        for run in next.wake {
            self.wake(run);
        }
        if let Some(time) = next.poll_at {
            let (engine, clock) = (Arc::downgrade(self), self.parts.clock.clone());
            let credential = credential.to_owned();
            tokio::spawn(async move {
                clock.sleep_until(time).await;
                if let Some(engine) = engine.upgrade() {
                    let next = engine.limiter.poll(&credential, clock.now());
                    engine.go_on(&credential, next);
                }
            });
        }
    }

    /// A run does not wait for capacity any more.
    pub(crate) fn forget_waiting(self: &Arc<Self>, run: &RunKey) {
        let next = self.limiter.remove(run, self.parts.clock.now());
        for run in next.wake {
            self.wake(run);
        }
    }
}
