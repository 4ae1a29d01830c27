//! Calls that wait for a log, a value or a time: one table of them, fed by tails and watches.
//!
//! No wake-up is lost: a wait is registered, then committed, then its causes are looked at once. What happened before is seen by
//! the look, what happens after is told by the tail or the watch. After a restart, and after a gap, everything registered is
//! looked at. A tail or watch that ends is opened again, which is a gap.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use drawloom_contract::{
    ids::RunKey,
    journal,
    log::{LogKey, Tail},
    record::{Body, RepeatClass, Seq, Status},
    run::OpenCall,
    streams,
    time::{Instant, Timestamp},
    tool::{Repeat, ToolContext, Woken},
    values::{Present, Range, Seen, Space, ValueKey, WatchFrom, Within},
    wait::{Cause, Wait, WaitChange, Waiting},
};
use futures::{StreamExt, stream::BoxStream};

use crate::{
    Engine,
    control::Control,
    run_task::{RunTask, Task},
    timers::Due,
};

/// Causes that are looked at together.
const LOOKS: usize = 16;

/// The calls that wait in this process.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Table>);

#[derive(Default)]
struct Table {
    runs: HashMap<RunKey, Vec<Call>>,
    logs: HashMap<LogKey, HashSet<RunKey>>,
    values: HashMap<ValueKey, HashSet<RunKey>>,
    /// Spaces of logs that are followed.
    log_spaces: HashSet<Space>,
    value_spaces: HashSet<Space>,
    /// Calls that were registered so far.
    registered: u64,
}

struct Call {
    call: Seq,
    /// Those who began to wait earlier are woken earlier.
    number: u64,
    wait: Wait,
    due: Option<Instant>,
    /// When a value that it waits for is over, which nothing tells.
    expires: Option<Instant>,
    /// Set when it is to be made again.
    woken: Option<Woken>,
}

/// What happened.
enum Event<'a> {
    Grew(&'a LogKey, u64),
    Changed(&'a ValueKey, u64),
}

impl Event<'_> {
    fn ends(&self, cause: &Cause) -> bool {
        match (self, cause) {
            (Self::Grew(log, head), Cause::Log { log: awaited, after }) => *log == awaited && head > after,
            (Self::Changed(key, now), Cause::Value { key: awaited, revision }) => *key == awaited && now != revision,
            _ => false,
        }
    }
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the calls whose wait an event ends; the runs that have a newly marked one.
    fn happened(&self, event: &Event<'_>) -> Vec<RunKey> {
        let mut table = self.lock();
        let waiting = match event {
            Event::Grew(log, _) => table.logs.get(log),
            Event::Changed(key, _) => table.values.get(key),
        };
        let mut woken: Vec<RunKey> = waiting.into_iter().flatten().cloned().collect();
        woken.retain(|run| {
            let calls = table.runs.get_mut(run).into_iter().flatten();
            let is_ended =
                |call: &&mut Call| call.woken.is_none() && call.wait.on.iter().any(|cause| event.ends(cause));
            calls.filter(is_ended).map(|call| call.woken = Some(Woken::ByCause)).count() > 0
        });
        woken.sort_by_cached_key(|run| table.runs.get(run).into_iter().flatten().map(|call| call.number).min());
        woken
    }

    /// Marks the calls whose time has come. Says whether a call is newly marked, and the next time after that.
    fn time_has_come(&self, run: &RunKey, now: Instant) -> (bool, Option<Instant>) {
        let mut table = self.lock();
        let Some(calls) = table.runs.get_mut(run) else { return (false, None) };
        let mut marked = false;
        for call in calls.iter_mut() {
            let before = call.woken;
            if call.expires.take_if(|expires| *expires <= now).is_some() {
                call.woken.get_or_insert(Woken::ByCause);
            }
            if call.due.take_if(|due| *due <= now).is_some() {
                call.woken.get_or_insert(Woken::ByTime);
            }
            marked |= before != call.woken;
        }
        (marked, calls.iter().flat_map(|call| [call.due, call.expires]).flatten().min())
    }

    /// A value that calls wait for will be over: they look again then. The runs that have such a call.
    fn will_expire(&self, key: &ValueKey, revision: u64, expires: Instant) -> Vec<RunKey> {
        let mut table = self.lock();
        let mut waiting: Vec<RunKey> = table.values.get(key).into_iter().flatten().cloned().collect();
        let is_awaited = |cause: &Cause| matches!(cause, Cause::Value { key: awaited, revision: at } if awaited == key && *at == revision);
        waiting.retain(|run| {
            let calls = table.runs.get_mut(run).into_iter().flatten();
            let awaiting = calls.filter(|call| call.wait.on.iter().any(is_awaited));
            awaiting.map(|call| call.expires = Some(call.expires.map_or(expires, |known| known.min(expires)))).count()
                > 0
        });
        waiting
    }

    /// Takes out the calls of a run that are to be made again, at most so many.
    fn take_woken(&self, run: &RunKey, most: usize) -> Vec<(Seq, Woken)> {
        let mut table = self.lock();
        let Some(calls) = table.runs.get_mut(run) else { return Vec::new() };
        let mut left = most;
        let (woken, waiting): (Vec<Call>, Vec<Call>) = std::mem::take(calls).into_iter().partition(|call| {
            let taken = call.woken.is_some() && left > 0;
            left -= usize::from(taken);
            taken
        });
        table.set(run, waiting, &woken);
        woken.into_iter().filter_map(|call| Some((call.call, call.woken?))).collect()
    }

    fn is_registered(&self, run: &RunKey, call: Seq) -> bool {
        self.lock().runs.get(run).is_some_and(|calls| calls.iter().any(|known| known.call == call))
    }

    /// The run has ended.
    pub(crate) fn forget(&self, run: &RunKey) {
        let mut table = self.lock();
        if let Some(calls) = table.runs.remove(run) {
            table.set(run, Vec::new(), &calls);
        }
    }

    /// What waits in a space, to be looked at after a gap.
    fn in_space(&self, space: &Space) -> Vec<(RunKey, Seq, Wait)> {
        let table = self.lock();
        let is_in = |cause: &Cause| match cause {
            Cause::Log { log, .. } => log.space == *space,
            Cause::Value { key, .. } => key.space == *space,
            _ => false,
        };
        let calls = table.runs.iter().flat_map(|(run, calls)| calls.iter().map(move |call| (run, call)));
        calls
            .filter(|(_, call)| call.wait.on.iter().any(is_in))
            .map(|(run, call)| (run.clone(), call.call, call.wait.clone()))
            .collect()
    }
}

impl Table {
    /// Puts the calls of a run that still wait, and takes its name off what the others waited for.
    fn set(&mut self, run: &RunKey, waiting: Vec<Call>, gone: &[Call]) {
        for cause in gone.iter().flat_map(|call| &call.wait.on) {
            if waiting.iter().any(|call| call.wait.on.iter().any(|other| is_same_place(other, cause))) {
                continue;
            }
            match cause {
                Cause::Log { log, .. } => remove(&mut self.logs, log, run),
                Cause::Value { key, .. } => remove(&mut self.values, key, run),
                Cause::Children { .. } | Cause::RateLimit | Cause::Budget => {}
            }
        }
        match waiting.is_empty() {
            true => _ = self.runs.remove(run),
            false => _ = self.runs.insert(run.clone(), waiting),
        }
    }
}

fn is_same_place(one: &Cause, other: &Cause) -> bool {
    match (one, other) {
        (Cause::Log { log, .. }, Cause::Log { log: other, .. }) => log == other,
        (Cause::Value { key, .. }, Cause::Value { key: other, .. }) => key == other,
        _ => false,
    }
}

fn remove<K: std::hash::Hash + Eq>(runs: &mut HashMap<K, HashSet<RunKey>>, key: &K, run: &RunKey) {
    if let Some(waiting) = runs.get_mut(key) {
        waiting.remove(run);
        if waiting.is_empty() {
            runs.remove(key);
        }
    }
}

impl Engine {
    /// Registers a call that waits, before that is committed.
    fn register(self: &Arc<Self>, run: &RunKey, call: Seq, wait: &Wait, left: Option<Duration>) {
        let due = left.map(|left| self.parts.clock.now().after(left));
        let (mut log_spaces, mut value_spaces) = (Vec::new(), Vec::new());
        {
            let mut guard = self.waits.lock();
            let table = &mut *guard;
            for cause in &wait.on {
                let waiting = match cause {
                    Cause::Log { log, .. } => {
                        if table.log_spaces.insert(log.space.clone()) {
                            log_spaces.push(log.space.clone());
                        }
                        table.logs.entry(log.clone()).or_default()
                    }
                    Cause::Value { key, .. } => {
                        if table.value_spaces.insert(key.space.clone()) {
                            value_spaces.push(key.space.clone());
                        }
                        table.values.entry(key.clone()).or_default()
                    }
                    Cause::Children { .. } | Cause::RateLimit | Cause::Budget => continue,
                };
                waiting.insert(run.clone());
            }
            let calls = table.runs.entry(run.clone()).or_default();
            calls.retain(|known| known.call != call);
            calls.push(Call { call, number: table.registered, wait: wait.clone(), due, expires: None, woken: None });
            table.registered += 1;
        }
        // Before the commit: from here on nothing is missed.
        for space in log_spaces {
            tokio::spawn(follow_logs(Arc::downgrade(self), space.clone(), self.tail(space)));
        }
        for space in value_spaces {
            tokio::spawn(follow_values(Arc::downgrade(self), space.clone(), self.watch(space)));
        }
        if let Some(due) = due {
            self.timers.set_earlier(due, run, Due::Call);
        }
    }

    /// Tells of the logs of a space, from this call on, for as long as the engine lives.
    fn tail(self: &Arc<Self>, space: Space) -> BoxStream<'static, Tail> {
        let (first, engine) = (self.parts.logs.tail(&space), Arc::downgrade(self));
        let open = move || engine.upgrade().map(|engine| engine.parts.logs.tail(&space));
        streams::reopened(first, open, || Tail::Gap, self.parts.clock.clone())
    }

    /// Tells of the values of a space, from this call on, for as long as the engine lives.
    fn watch(self: &Arc<Self>, space: Space) -> BoxStream<'static, Seen> {
        let range = Range { space, within: Within::Space };
        let (first, engine) = (self.parts.values.watch(&range, WatchFrom::Now), Arc::downgrade(self));
        let open = move || engine.upgrade().map(|engine| engine.parts.values.watch(&range, WatchFrom::Now));
        streams::reopened(first, open, || Seen::Gap, self.parts.clock.clone())
    }

    /// Registers what waited when the process before ended, then looks at all of it.
    pub(crate) fn register_all(self: &Arc<Self>, waiting: Vec<Waiting>) {
        for Waiting { run, call, wait, since } in &waiting {
            let left = wait.until.map(|due| self.left_of(&journal::Due { run: run.clone(), due, since: *since }));
            self.register(run, *call, wait, left);
        }
        let looks = waiting.into_iter().map(|waiting| (waiting.run, waiting.call, waiting.wait)).collect();
        self.look_at(looks);
    }

    /// Looks once whether the causes of calls have happened, and wakes their runs.
    pub(crate) fn look_at(self: &Arc<Self>, calls: Vec<(RunKey, Seq, Wait)>) {
        if calls.iter().all(|(_, _, wait)| wait.on.is_empty()) {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move {
            let looks = futures::stream::iter(calls.iter().flat_map(|(_, _, wait)| &wait.on));
            looks.for_each_concurrent(LOOKS, |cause| engine.look(cause)).await;
        });
    }

    /// Looks whether a cause has happened. When that cannot be read, the call is made again and meets the error itself.
    pub(crate) async fn look(self: &Arc<Self>, cause: &Cause) {
        match cause {
            Cause::Log { log, after } => {
                let head = self.read(|| self.parts.logs.head(log)).await.unwrap_or(u64::MAX);
                if head > *after {
                    self.happened(&Event::Grew(log, head));
                }
            }
            Cause::Value { key, revision } => {
                let now = self.parts.clock.steady();
                let kept = self.read(|| self.parts.values.find_value(key, now)).await;
                match kept {
                    Some(Some(kept)) if kept.revision == *revision => {
                        self.expect_expiry(key, kept.revision, kept.expires_at);
                    }
                    Some(None) if *revision == 0 => {}
                    Some(kept) => self.happened(&Event::Changed(key, kept.map_or(0, |kept| kept.revision))),
                    None => self.happened(&Event::Changed(key, u64::MAX)),
                }
            }
            Cause::Children { .. } | Cause::RateLimit | Cause::Budget => {}
        }
    }

    /// Sees to it that calls that wait for this value are made again when it is over.
    fn expect_expiry(self: &Arc<Self>, key: &ValueKey, revision: u64, expires_at: Option<Timestamp>) {
        let Some(expires_at) = expires_at else { return };
        let expires = self.parts.clock.now().after(expires_at.since(self.parts.clock.steady()));
        for run in self.waits.will_expire(key, revision, expires) {
            self.timers.set_earlier(expires, &run, Due::Call);
        }
    }

    fn happened(self: &Arc<Self>, event: &Event<'_>) {
        for run in self.waits.happened(event) {
            self.wake_call(run);
        }
    }

    /// A call of the run has waited long enough.
    pub(crate) fn on_call_timer(self: &Arc<Self>, run: RunKey) {
        let (marked, next) = self.waits.time_has_come(&run, self.parts.clock.now());
        if let Some(next) = next {
            self.timers.set_earlier(next, &run, Due::Call);
        }
        if marked {
            self.wake_call(run);
        }
    }

    /// Brings a run back one of whose calls is to be made again. A task that has it is told. One that takes it up later finds
    /// the call marked. No claim is taken: a run that was left running by the process before may get its slot at this moment,
    /// and would not be taken up while its claim is held.
    fn wake_call(self: &Arc<Self>, run: RunKey) {
        if Control::wake(self, &run) {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move { engine.bring_back(&run).await });
    }
}

async fn follow_logs(engine: Weak<Engine>, space: Space, mut tail: BoxStream<'static, Tail>) {
    while let Some(told) = tail.next().await {
        let Some(engine) = engine.upgrade() else { return };
        match told {
            Tail::Grew { log, head } => engine.happened(&Event::Grew(&log, head)),
            Tail::Gap => engine.look_at(engine.waits.in_space(&space)),
        }
    }
}

async fn follow_values(engine: Weak<Engine>, space: Space, mut watch: BoxStream<'static, Seen>) {
    while let Some(seen) = watch.next().await {
        let Some(engine) = engine.upgrade() else { return };
        match seen {
            Seen::Is { key, revision, present } => {
                engine.happened(&Event::Changed(&key, present.map_or(0, |_| revision)));
                if let Some(Present { expires_at }) = present {
                    engine.expect_expiry(&key, revision, expires_at);
                }
            }
            Seen::CaughtUp => {}
            Seen::Gap => engine.look_at(engine.waits.in_space(&space)),
        }
    }
}

impl RunTask {
    /// A tool waits: the call is registered here and looked at after the commit.
    pub(crate) fn begin_wait(&mut self, call: Seq, wait: Wait) {
        let Some(open) = self.run.open_calls.iter().find(|open| open.call == call) else { return };
        let may_repeat = matches!(open.started.repeat, RepeatClass::Safe | RepeatClass::Keyed);
        let refusal = match () {
            () if !may_repeat => Some("the tool waits, but its calls cannot be repeated"),
            () if open.started.masked => {
                Some("the tool waits, but its input contained a secret, so the call cannot be repeated")
            }
            () if !wait.on.iter().all(is_for_tools) => Some("the tool waits for an event reserved for the engine"),
            () if wait.on.is_empty() && wait.until.is_none() => Some("the tool waits without an event or a time"),
            () => None,
        };
        if let Some(refusal) = refusal {
            tracing::error!(run = %self.key.run, call, tool = open.started.tool_use.name, refusal, "tool violated its contract");
            return self.end_call(call, format!("bug: {refusal}"), true, None);
        }
        let since = self.wall();
        self.engine.register(&self.key, call, &wait, wait.until.map(|until| until.since(since)));
        self.waits.push(WaitChange::Call { run: self.key.clone(), call, wait: wait.clone(), since });
        self.looks.push((self.key.clone(), call, wait.clone()));
        self.push(Body::CallWaiting { call, wait });
    }

    /// Registers calls that wait and are not known in this process yet.
    pub(crate) fn register_waits(&mut self) {
        let wall = self.wall();
        for open in &self.run.open_calls {
            let Some(wait) = open.waiting.as_ref().filter(|wait| wait.children().is_none()) else { continue };
            if !self.engine.waits.is_registered(&self.key, open.call) {
                self.engine.register(&self.key, open.call, wait, wait.until.map(|until| until.since(wall)));
                self.looks.push((self.key.clone(), open.call, wait.clone()));
            }
        }
    }

    /// Looks at the causes of the waiting calls before anything is decided: a call that was being made again when the process ended is
    /// made again before the run can be parked, so that ends at the same step are counted.
    pub(crate) async fn look_at_waits(&mut self) {
        self.register_waits();
        let waits: Vec<Wait> = self.run.open_calls.iter().filter_map(|open| open.waiting.clone()).collect();
        for cause in waits.iter().flat_map(|wait| &wait.on) {
            self.engine.look(cause).await;
        }
        // The timer of the next one stays.
        _ = self.engine.waits.time_has_come(&self.key, self.engine.parts.clock.now());
    }

    /// Makes those calls again whose wait has ended.
    pub(crate) fn ask_again(&mut self) {
        let is_waiting = |open: &OpenCall| open.waiting.as_ref().is_some_and(|wait| wait.children().is_none());
        if !self.run.open_calls.iter().any(is_waiting) {
            return;
        }
        let most = (self.engine.parts.config.tool_parallelism.max(1) as usize).saturating_sub(self.calls_in_flight());
        for (call, woken) in self.engine.waits.take_woken(&self.key, most) {
            let Some(open) = self.run.open_calls.iter().find(|open| open.call == call) else { continue };
            let started = open.started.clone();
            // As it was then and as it is today: an outside server may have taken back what it said of a tool.
            let tool = self.tool_of(&started).filter(|tool| matches!(tool.repeat(), Repeat::Safe | Repeat::Keyed));
            match tool {
                Some(tool) => {
                    let context = ToolContext { woken: Some(woken), ..self.context(call) };
                    self.tasks.push(Task::Call { call, tool, context, input: started.tool_use.input });
                    self.asked_again.insert(call);
                }
                None => {
                    self.waits.push(WaitChange::End { run: self.key.clone(), call });
                    self.end_call(
                        call,
                        "the tool is no longer available; the result of its wait is unknown".into(),
                        true,
                        None,
                    );
                }
            }
        }
    }

    /// Whether all that is open waits, and nothing is being asked again.
    pub(crate) fn can_park(&self) -> bool {
        self.run.turn_in_flight.is_none()
            && !self.run.open_calls.is_empty()
            && self.run.open_calls.iter().all(|open| open.waiting.is_some())
            && self.run.view.status == Status::Running
            && self.asked_again.is_empty()
    }
}

fn is_for_tools(cause: &Cause) -> bool {
    matches!(cause, Cause::Log { .. } | Cause::Value { .. })
}
