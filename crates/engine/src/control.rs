//! How others tell the task of a run to stop, to drain or to look again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drawloom_contract::{
    ids::{RunId, RunKey},
    record::Stop,
};
use tokio::sync::{Notify, oneshot};

use crate::Engine;

/// What others ask of the task that drives a run.
#[derive(Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    stop: Option<Stop>,
    draining: bool,
    again: bool,
    /// A call of the run is to be made again.
    woken: bool,
    pardoned: bool,
    waiters: Vec<oneshot::Sender<Vec<RunId>>>,
}

/// What the task is to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Go on.
    Drive,
    /// Begin nothing new; end when what is in flight has ended.
    Drain,
    /// End the run.
    Stop(Stop),
}

impl Control {
    /// Asks for the run's end. The answer comes when that is durable, with the runs below that were told too; it does not
    /// come when the run ended or parked first: look again.
    pub(crate) fn stop(&self, stop: Stop) -> oneshot::Receiver<Vec<RunId>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        state.stop.get_or_insert(stop);
        state.waiters.push(sender);
        drop(state);
        self.changed.notify_one();
        receiver
    }

    pub(crate) fn drain(&self) {
        self.lock().draining = true;
        self.changed.notify_one();
    }

    /// The trial of the run is over.
    pub(crate) fn pardon(&self) {
        self.lock().pardoned = true;
        self.changed.notify_one();
    }

    /// Whether it was pardoned since this was last asked.
    pub(crate) fn take_pardon(&self) -> bool {
        std::mem::take(&mut self.lock().pardoned)
    }

    /// Tells the task that has a run that a call is to be made again; says whether a task has it.
    pub(crate) fn wake(engine: &Engine, key: &RunKey) -> bool {
        let active = engine.active();
        let Some(control) = active.get(key) else { return false };
        control.lock().woken = true;
        control.changed.notify_one();
        true
    }

    /// Whether a call is to be made again since this was last asked.
    pub(crate) fn take_woken(&self) -> bool {
        std::mem::take(&mut self.lock().woken)
    }

    pub(crate) fn order(&self) -> Order {
        let state = self.lock();
        match (&state.stop, state.draining) {
            (Some(stop), _) => Order::Stop(stop.clone()),
            (None, true) => Order::Drain,
            (None, false) => Order::Drive,
        }
    }

    /// Returns when an order may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells those who asked for the end that it is durable.
    pub(crate) fn stopped(&self, cascaded: &[RunId]) {
        for waiter in std::mem::take(&mut self.lock().waiters) {
            // Whoever asked may have gone.
            let _ = waiter.send(cascaded.to_vec());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write to a run: one task at a time has it.
pub(crate) struct Claim {
    engine: Arc<Engine>,
    key: RunKey,
    control: Arc<Control>,
}

impl Claim {
    /// The claim on a run, unless a task has it: then the reins of that task.
    pub(crate) fn take(engine: &Arc<Engine>, key: &RunKey) -> Result<Self, Arc<Control>> {
        Self::take_or(engine, key, |_| {})
    }

    /// The claim on a run. A task that has it brings the run back to the queue when it lets go.
    pub(crate) fn take_or_return(engine: &Arc<Engine>, key: &RunKey) -> Option<Self> {
        Self::take_or(engine, key, |control| control.lock().again = true).ok()
    }

    /// `held` happens while nobody can let go of the claim.
    fn take_or(engine: &Arc<Engine>, key: &RunKey, held: impl FnOnce(&Control)) -> Result<Self, Arc<Control>> {
        let mut active = engine.active();
        if let Some(control) = active.get(key) {
            held(control);
            return Err(control.clone());
        }
        let control = Arc::<Control>::default();
        // Whoever begins after the stop did is told like those who had begun.
        control.lock().draining = engine.is_stopping();
        active.insert(key.clone(), control.clone());
        Ok(Self { engine: engine.clone(), key: key.clone(), control })
    }

    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let again = {
            let mut active = self.engine.active();
            active.remove(&self.key);
            let mut state = self.control.lock();
            state.waiters.clear();
            (state.again || state.woken) && !state.draining
        };
        if again {
            let (engine, key) = (self.engine.clone(), self.key.clone());
            tokio::spawn(async move { engine.bring_back(&key).await });
        }
        self.engine.task_ended();
    }
}
