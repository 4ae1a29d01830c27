//! The reins of a run that a task holds: how others ask that task to stop.

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

    /// Asks the task to bring the run back to the queue when it lets go of it.
    pub(crate) fn want_again(&self) {
        self.lock().again = true;
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
        let mut active = engine.active();
        if let Some(control) = active.get(key) {
            return Err(control.clone());
        }
        let control = Arc::<Control>::default();
        active.insert(key.clone(), control.clone());
        Ok(Self { engine: engine.clone(), key: key.clone(), control })
    }

    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.control
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.engine.active().remove(&self.key);
        let again = {
            let mut state = self.control.lock();
            state.waiters.clear();
            state.again && !state.draining
        };
        if again {
            let (engine, key) = (self.engine.clone(), self.key.clone());
            tokio::spawn(async move { engine.bring_back(&key).await });
        }
        self.engine.task_ended();
    }
}
