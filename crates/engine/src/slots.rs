//! Slots, and the round trip of a parked run, in the order in which it happens: it parks, rests without a slot, is woken by a cause or
//! its time, queues for a slot, and is taken up from its journal.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    ids::RunKey,
    record::{Body, Seq, Status, Stop},
    time::Timestamp,
    view::RunView,
    wait::{Cause, Wait, WaitChange},
};

use crate::{
    Engine,
    admission::{Class, Lane, Ticket},
    control::{Claim, Order},
    run_task::RunTask,
    timers::Due,
};

/// A queued run looks again after this long, in case its wake-up was lost.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Records read at once.
const PAGE: usize = 512;

/// A slot, given back when it is dropped.
pub(crate) struct Slot {
    pub(crate) engine: Arc<Engine>,
    pub(crate) lane: Lane,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.engine.admission().release(&self.lane);
        self.engine.pump();
    }
}

impl RunTask {
    /// Parks the run until a time.
    pub(crate) fn park(&mut self, until: Timestamp, wait: Wait) {
        let since = self.wall();
        let record = self.push_at(since, Body::Parked { wait });
        self.waits.push(WaitChange::Run { run: self.key.clone(), record, until, since });
    }

    /// Parks the run until there is room for it.
    pub(crate) fn park_for(&mut self, cause: Cause) {
        let until = self.wall().after(LOOK_AGAIN);
        self.park(until, Wait { on: vec![cause], until: Some(until) });
    }

    /// The run is parked: its slot goes to the next in the queue, and a timer is set when it waits for a time.
    pub(crate) fn rest(&mut self) {
        self.slot = None;
        if let Some((seq, wait)) = self.parked
            && seq == self.run.view.seq
        {
            self.engine.timers.set(self.engine.parts.clock.now().after(wait), &self.key, Due::Wake);
        }
    }
}

impl Engine {
    /// Brings a parked run back. One whose task has not ended yet is brought back when it does.
    pub(crate) fn wake(self: &Arc<Self>, run: RunKey) {
        let engine = self.clone();
        tokio::spawn(async move {
            if let Some(claim) = Claim::take_or_return(&engine, &run) {
                drop(claim);
                engine.bring_back(&run).await;
            }
        });
    }

    /// The time of a parked run has come.
    pub(crate) async fn wake_at_time(self: &Arc<Self>, key: RunKey) {
        if self.limiter.is_queued(&key) {
            // The call that ends wakes it; this is only the last resort.
            self.timers.set(self.parts.clock.now().after(LOOK_AGAIN), &key, Due::Wake);
            return;
        }
        let Some(Some(view)) = self.read(|| self.parts.reader.find_run_without_text(&key)).await else { return };
        if view.status == Status::Waiting {
            self.enqueue(ticket(&view, Class::Resumed), false);
        }
    }

    /// Queues a run that has had a slot before and can go on. One that has ended is left alone.
    pub(crate) async fn bring_back(self: &Arc<Self>, key: &RunKey) {
        let view = self.read(|| self.parts.reader.find_run_without_text(key)).await.flatten();
        match view {
            Some(view) if view.status == Status::Waiting && self.owns(view.root) => {
                self.enqueue(ticket(&view, Class::Resumed), false);
            }
            _ => self.forget_waiting(key),
        }
    }

    /// Queues a run, and gives out the slots that are free.
    pub(crate) fn enqueue(self: &Arc<Self>, mut ticket: Ticket, promised: bool) {
        let mut admission = self.admission();
        if let Some(time) = admission.count_patience(&mut ticket, self.parts.clock.now()) {
            self.timers.set(time, &ticket.key, Due::QueueTimeout);
        }
        admission.enqueue(ticket, promised);
        drop(admission);
        self.pump();
    }

    /// Gives out the slots that are free.
    pub(crate) fn pump(self: &Arc<Self>) {
        if self.is_stopping() {
            return;
        }
        let granted: Vec<Ticket> = {
            let mut admission = self.admission();
            std::iter::from_fn(|| admission.grant()).collect()
        };
        for ticket in granted {
            if ticket.gives_up.is_some() {
                self.timers.clear(&ticket.key, Due::QueueTimeout);
            }
            let slot = Slot { engine: self.clone(), lane: ticket.lane };
            // When the task that parked it has not quite let go, that task brings it back.
            if let Some(claim) = Claim::take_or_return(self, &ticket.key) {
                let task = RunTask::take_up(self.clone(), ticket.key.clone(), claim, Some(slot));
                self.drive(ticket.key, task);
            }
        }
    }
}

/// The ticket of a run that comes back to the queue.
pub(crate) fn ticket(view: &RunView, class: Class) -> Ticket {
    Ticket { key: view.key(), lane: lane(view), class, depth: view.depth, patience: None, gives_up: None }
}

/// What a run's caps are counted by.
pub(crate) fn lane(view: &RunView) -> Lane {
    Lane { tenant: view.tenant.clone(), user: view.user.clone(), provider: view.provider.as_str().into() }
}

impl RunTask {
    /// Takes a run up that was granted its slot, and drives it.
    pub(crate) async fn take_up(engine: Arc<Engine>, key: RunKey, claim: Claim, slot: Option<Slot>) {
        let mut task = match Self::load(&engine, &key, claim, slot).await {
            Ok(task) => task,
            Err(stop) => return engine.give_up(&key, stop).await,
        };
        if task.run.view.status.is_terminal() || task.claim.control().order() == Order::Drain {
            return;
        }
        if let Some(stop) = task.run.stop.clone() {
            task.end_by(stop).await;
            return;
        }
        task.gather_tools().await;
        task.hold_calls().await;
        match task.run.view.status {
            Status::Running => {
                task.recover().await;
                task.look_at_waits().await;
            }
            _ => task.admit(),
        }
        task.tell_missing_tools();
        if let Some((call, _)) = task.parked.take() {
            task.engine.timers.clear(&key, Due::Wake);
            task.waits.push(WaitChange::End { run: key, call });
        }
        // Of calls that wait; without one these three do nothing.
        task.register_waits();
        task.ask_again();
        if task.collect_children().await.is_none() {
            return task.end_by(Stop::Unreadable).await;
        }
        if task.claim.control().order() == Order::Drive {
            task.advance().await;
        }
        match task.commit().await {
            Ok(false) => task.go().await,
            Ok(true) => {
                let (engine, key) = (task.engine.clone(), task.key.clone());
                drop(task);
                engine.bring_back(&key).await;
            }
            Err(_) => {}
        }
    }

    /// The fold of a run's journal, or why there is none, which is logged.
    pub(crate) async fn load(
        engine: &Arc<Engine>,
        key: &RunKey,
        claim: Claim,
        slot: Option<Slot>,
    ) -> Result<Box<Self>, Stop> {
        let mut records =
            engine.read(|| engine.parts.reader.read_journal(key, 0, PAGE)).await.ok_or(Stop::Unreadable)?;
        let first = records.first().cloned().ok_or(Stop::Unreadable)?;
        let Body::Accepted(accepted) = &first.body else {
            tracing::error!(run = %key.run, "journal does not begin with an accepted record");
            return Err(Stop::Unreadable);
        };
        let Some(kind) = engine.executors.find(&accepted.executor).cloned() else {
            tracing::error!(run = %key.run, executor = accepted.executor, "unknown executor");
            return Err(Stop::NoExecutor { executor: accepted.executor.clone() });
        };
        let pinned = engine.load_pinned(key, &accepted.definition).await.ok_or(Stop::Unreadable)?;
        let reader = engine.parts.reader.clone();
        let mut task = Self::fold(engine.clone(), &first, kind, pinned, claim, slot).map_err(|_| Stop::Unreadable)?;
        let mut skip = 1;
        loop {
            for record in records.iter().skip(skip) {
                if let Err(error) = task.replay(record) {
                    tracing::error!(run = %key.run, %error, "cannot read the journal");
                    return Err(Stop::Unreadable);
                }
            }
            if records.len() < PAGE {
                return Ok(task);
            }
            skip = 0;
            let after: Seq = task.run.view.seq;
            records = engine.read(|| reader.read_journal(key, after, PAGE)).await.ok_or(Stop::Unreadable)?;
        }
    }
}
