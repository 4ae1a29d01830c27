//! The right to one call at a credential, and waking those who wait for one.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    ids::RunKey,
    model::{Turn, TurnError},
    time::Instant,
    wait::{Cause, Wait},
};

use tokio::sync::oneshot;

use crate::{
    Engine,
    control::Claim,
    driver::Driver,
    limiter::{Ending, Entrance, Next, Word},
};

/// A run that waits for room looks again after this long, in case that whoever was to wake it is gone.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The right to come to the door and make one call. It is given back when the call has ended, or will not be made.
pub(crate) struct Permit {
    engine: Arc<Engine>,
    /// Nothing for a provider without limits, and once it was given back.
    credential: Option<String>,
    since: Instant,
    stage: Stage,
}

/// How far the holder of a permit has come.
#[derive(Debug)]
enum Stage {
    /// On the way.
    Before,
    /// At the door, at this place, listening for the word.
    Door(u64, oneshot::Receiver<Word>),
    /// Calling.
    Calling,
}

impl Permit {
    /// Returns when the call may be made; says no when it may not after all, because the credential was closed.
    pub(crate) async fn call(&mut self) -> bool {
        let clock = self.engine.parts.clock.clone();
        if let Some(credential) = &self.credential
            && let Some((place, word)) = self.engine.limiter.call(credential, clock.now())
        {
            self.stage = Stage::Door(place, word);
            let said = match &mut self.stage {
                Stage::Door(_, word) => word.await,
                Stage::Before | Stage::Calling => Ok(Word::Back),
            };
            if said != Ok(Word::Call) {
                self.stage = Stage::Before;
                self.give_back(Ending::Other);
                return false;
            }
        }
        self.stage = Stage::Calling;
        self.since = clock.now();
        true
    }

    /// Gives it back with what the call came to.
    pub(crate) fn end(mut self, result: &Result<Turn, TurnError>) {
        let took = self.engine.parts.clock.now().since(self.since);
        let ending = match result {
            Ok(turn) => {
                let clock = &self.engine.parts.clock;
                let closed_until = turn.headroom.closed_until.map(|time| clock.now().after(time.since(clock.wall())));
                Ending::Borne { took, closed_until }
            }
            Err(TurnError::Throttled { retry_after, .. } | TurnError::Overloaded { retry_after, .. }) => {
                Ending::Refused { retry_after: *retry_after }
            }
            // The provider took the call and thought about it.
            Err(TurnError::Refused { .. } | TurnError::ContextTooLong { .. }) => {
                Ending::Borne { took, closed_until: None }
            }
            Err(
                TurnError::Unavailable { .. }
                | TurnError::Cut { .. }
                | TurnError::BadRequest { .. }
                | TurnError::Auth { .. },
            ) => Ending::Other,
        };
        self.give_back(ending);
    }

    fn give_back(&mut self, ending: Ending) {
        if let Some(credential) = self.credential.take() {
            let (limiter, now) = (&self.engine.limiter, self.engine.parts.clock.now());
            let next = match &mut self.stage {
                Stage::Before => limiter.give_up(&credential, None, false, now),
                Stage::Door(place, word) => {
                    // From here on nothing can be said, so that what was said is all.
                    word.close();
                    let called = word.try_recv() == Ok(Word::Call);
                    limiter.give_up(&credential, Some(*place), called, now)
                }
                Stage::Calling => limiter.leave(&credential, ending, now),
            };
            self.engine.go_on(&credential, next);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(Ending::Other);
    }
}

impl Driver {
    /// The right to call the run's model now; nothing when the run has to wait for it, and will be woken.
    pub(crate) fn permit(&self) -> Option<Permit> {
        let provider = self.engine.parts.providers.get(&self.run.model.provider);
        let credential = provider.and_then(|provider| provider.credential.clone());
        if let Some(credential) = &credential
            && self.engine.limiter.enter(credential, &self.key, self.engine.parts.clock.now()) == Entrance::Wait
        {
            return None;
        }
        Some(Permit {
            engine: self.engine.clone(),
            credential,
            since: self.engine.parts.clock.now(),
            stage: Stage::Before,
        })
    }

    /// Parks the run until there is room for it.
    pub(crate) fn park_for(&mut self, cause: Cause) {
        let until = self.wall().after(LOOK_AGAIN);
        self.park(until, Wait { on: vec![cause], until: Some(until) });
    }
}

impl Engine {
    /// Wakes those who come next, and looks again when it is time.
    pub(crate) fn go_on(self: &Arc<Self>, credential: &str, next: Next) {
        for run in next.wake {
            self.wake(run);
        }
        if let Some(time) = next.look_again {
            let (engine, clock) = (Arc::downgrade(self), self.parts.clock.clone());
            let credential = credential.to_owned();
            tokio::spawn(async move {
                clock.sleep_until(time).await;
                if let Some(engine) = engine.upgrade() {
                    let next = engine.limiter.look(&credential, clock.now());
                    engine.go_on(&credential, next);
                }
            });
        }
    }

    /// Brings a run back that was parked for want of room. One that has not quite let go is brought back when it does.
    pub(crate) fn wake(self: &Arc<Self>, run: RunKey) {
        let engine = self.clone();
        tokio::spawn(async move {
            if let Some(claim) = Claim::take_or_return(&engine, &run) {
                drop(claim);
                engine.bring_back(&run).await;
            }
        });
    }

    /// A run does not wait for room any more; its place is somebody else's.
    pub(crate) fn forget_waiting(self: &Arc<Self>, run: &RunKey) {
        let next = self.limiter.forget(run, self.parts.clock.now());
        for run in next.wake {
            self.wake(run);
        }
    }
}
