//! Trials: a run that was in flight at several unclean ends in a row is resumed while no other run gets a slot, so that
//! an end then speaks against it and against nobody else.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    record::{Body, Resumed},
    runs::Item,
    view::RunView,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Engine,
    control::Claim,
    driver::Driver,
    engine::{Slot, lane},
    feed::Ear,
    timers::Due,
};

/// Unclean ends in a row at the same step after which a run is resumed alone; one more, and it is quarantined.
pub(crate) const STRIKES_ALONE: u32 = 3;

/// How long others wait for a run that is resumed alone.
const ALONE: Duration = Duration::from_secs(30);

/// What a run is told that is accepted meanwhile.
pub(crate) const HELD: &str = "queue: the process died again and again, so the runs that were in flight are resumed one \
                               at a time first; this run begins after them";

impl Engine {
    /// Takes up the suspects one after the other, and then lets the others go.
    pub(crate) async fn try_suspects(self: Arc<Self>, suspects: Vec<RunView>) {
        for view in suspects {
            if self.is_stopping() {
                return;
            }
            self.resume_alone(&view).await;
        }
        self.open_gate();
    }

    /// Lets those go who waited while the gate was held. That was no want of slots, so their patience begins now.
    fn open_gate(self: &Arc<Self>) {
        let mut gate = self.gate();
        // Asked under the lock: a stop says so first and then holds the gate, for good.
        if self.is_stopping() {
            return;
        }
        for (key, time) in gate.open(self.parts.clock.now()) {
            self.timers.set(time, &key, Due::QueueTimeout);
        }
        drop(gate);
        self.pump();
    }

    /// Takes up a run while nothing else is in flight, until it has a new record. One that has ended is passed over.
    async fn resume_alone(self: &Arc<Self>, view: &RunView) {
        let key = view.key();
        let Ok(claim) = Claim::take(self, &key) else { return };
        // A stop waits for claims that it sees, and what it does not see is told here: the store may be closed already.
        if self.is_stopping() {
            return;
        }
        let Some(Some(view)) = self.read(|| self.parts.reader.find_run(&key)).await else { return };
        if view.status.is_terminal() {
            return;
        }
        tracing::warn!(run = %view.run, strikes = view.strikes + 1, "resumed alone: the process died at this step before");
        let control = claim.control().clone();
        self.gate().take(&lane(&view));
        let slot = Slot { engine: self.clone(), lane: lane(&view) };
        let records = self.feed.events(&key);
        let deadline = self.parts.clock.now().after(ALONE);
        let (done, ended) = oneshot::channel::<()>();
        let engine = self.clone();
        self.drive(key.clone(), async move {
            // Dropped however the task ends.
            let _done = done;
            Driver::take_up(engine, key, claim, Some(slot)).await;
        });
        tokio::select! {
            () = news(records) => {}
            _ = ended => {}
            () = self.parts.clock.sleep_until(deadline) => control.pardon(),
        }
    }
}

/// Returns when there is news of the step that was in flight; never, when the listener was too slow to hear it.
async fn news(mut records: Ear<mpsc::Receiver<Item>>) {
    // The first commit says that it was taken up; what follows is news of the step itself.
    let mut taken_up = false;
    while let Some(item) = records.next().await {
        match item {
            Item::Record(record) => match record.body {
                Body::Resumed(_) => taken_up = true,
                Body::TurnDone(_) | Body::TurnFailed(_) | Body::CallDone(_) | Body::Parked { .. } if taken_up => {
                    return;
                }
                _ => {}
            },
            Item::Ended(_) => return,
            Item::Delta(_) => {}
        }
    }
    std::future::pending().await
}

impl Driver {
    /// Others go on beside it from now: the next unclean end is the third again, not the fourth.
    pub(crate) fn pardon(&mut self) {
        self.push(Body::Resumed(Resumed {
            epoch: self.engine.parts.epoch,
            version: drawloom_contract::VERSION.into(),
            strikes: STRIKES_ALONE - 1,
        }));
    }
}
