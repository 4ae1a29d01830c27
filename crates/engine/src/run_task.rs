//! The task that drives one run: fold, decide, journal, perform.
//!
//! Its state is its own until a commit says that it is true; when a commit fails for good, the state goes with the task.

use std::{collections::HashSet, sync::Arc, time::Duration};

use drawloom_contract::{
    definition::Definition,
    executor::{Drive, Effect},
    failure::RunError,
    ids::{RunId, RunKey},
    journal::{Append, CommitError, Entry, StoreError},
    model::TurnRequest,
    record::{Accepted, Body, Outcome, Record, Seq, Status},
    redact::Redacted,
    run::{FoldError, Run},
    time::{Instant, Timestamp},
    tool::{Gates, Step, Tool, ToolCard, ToolContext, ToolError},
    view::RunView,
    wait::{Cause, Wait, WaitChange},
};
use futures::{StreamExt, stream::FuturesUnordered};
use serde_json::Value;

use crate::{
    Engine, accounts,
    call::Begun,
    control::{Claim, Order},
    evidence::OldEvidence,
    executors::Known,
    hosts,
    permit::Permit,
    pins::Pinned,
    plan::{Planned, pinned_definitions},
    refused::Refused,
    slots::Slot,
    story,
    timers::Due,
    turn::{TurnEnd, Turns},
};

/// One run and the task that holds it.
pub(crate) struct RunTask {
    pub(crate) engine: Arc<Engine>,
    pub(crate) key: RunKey,
    pub(crate) run: Run,
    pub(crate) pinned: Arc<Pinned>,
    /// The definition with the volumes that requests leave.
    pub(crate) definition: Arc<Definition>,
    pub(crate) cards: Arc<[ToolCard]>,
    /// The hosts that the definition and the root's request leave.
    pub(crate) hosts: Arc<[String]>,
    pub(crate) kind: Arc<Known>,
    drive: Box<dyn Drive>,
    pub(crate) claim: Claim,
    pub(crate) slot: Option<Slot>,
    /// Records that are decided and not yet committed.
    pending: Vec<Redacted<Record>>,
    pub(crate) waits: Vec<WaitChange>,
    /// Waits in `pending`, to look at when that is committed.
    pub(crate) looks: Vec<(RunKey, Seq, Wait)>,
    /// Calls that waited and are being made again.
    pub(crate) asked_again: HashSet<Seq>,
    pub(crate) children: Vec<Planned>,
    /// Children that are refused: they have failed when they begin.
    pub(crate) refused: Vec<Refused>,
    /// Evidence of calls that end with what is in `pending`, to remove when that is committed.
    pub(crate) evidence: Vec<OldEvidence>,
    /// Effects whose intent is in `pending`, to perform when that is committed.
    pub(crate) tasks: Vec<Task>,
    /// What belongs to turns of a model.
    pub(crate) turns: Turns,
    /// The runs at the top of the budgets that it counts against, the outermost first.
    pub(crate) owners: Arc<[RunId]>,
    /// Where it was last parked for a time, and for how long.
    pub(crate) parked: Option<(Seq, Duration)>,
    /// The last look at the wall clock, and when it was.
    looked: (Timestamp, Instant),
}

/// An effect whose intent is journaled first. A panic inside becomes a failure of this effect.
pub(crate) enum Task {
    Turn { request: TurnRequest, permit: Permit },
    Call { call: Seq, tool: Arc<dyn Tool>, context: ToolContext, input: Value },
}

/// What an effect came to.
pub(crate) enum Done {
    Turn(TurnEnd),
    Call { call: Seq, result: Result<Step, ToolError> },
}

/// The step was not journaled, and never will be: the task ends, and the run goes on from its journal some other time.
#[derive(Debug)]
pub(crate) struct Lost;

impl RunTask {
    /// A run that begins. With a slot, its first step is decided too, and committed together with its beginning.
    pub(crate) async fn begin(engine: Arc<Engine>, planned: Planned, claim: Claim, slot: Option<Slot>) -> Box<Self> {
        let Planned { at, accepted, pinned, .. } = planned;
        let record = engine.parts.redactor.clean(Record { seq: 1, at, body: Body::Accepted(Box::new(accepted)) });
        let kind = engine.executors.find(&pinned.definition.executor).cloned().expect("a plan names a known executor");
        let mut task = Self::fold(engine, &record, kind, pinned, claim, slot).expect("the record is a beginning");
        task.pending.push(record);
        task.engine.watch_deadline(&task.run.view);
        if task.slot.is_some() {
            task.admit();
            task.advance().await;
        }
        task
    }

    /// The state after a run's first record.
    pub(crate) fn fold(
        engine: Arc<Engine>,
        first: &Record,
        kind: Arc<Known>,
        pinned: Arc<Pinned>,
        claim: Claim,
        slot: Option<Slot>,
    ) -> Result<Box<Self>, FoldError> {
        let run = Run::begin(first)?;
        let accepted = &run.accepted;
        let is_current = pinned.generation == engine.toolbox.generation();
        let hosts = hosts::narrowed(&pinned.definition.hosts, accepted.narrowed_hosts.as_deref());
        let definition = narrowed_definition(&pinned, accepted);
        let is_narrowed =
            accepted.narrowed_hosts.is_some() || accepted.narrowed_volumes.is_some() || accepted.tools != pinned.tools;
        let cards = match is_current && !is_narrowed {
            true => pinned.cards.clone(),
            false => engine.toolbox.cards(&accepted.tools, Gates { definition: &definition, hosts: &hosts }),
        };
        let mut drive = kind.executor.open((*pinned.definition).clone());
        drive.apply(&run, first);
        Ok(Box::new(Self {
            key: RunKey { tenant: accepted.tenant.clone(), run: accepted.run },
            owners: accounts::owners(accepted),
            definition,
            looked: (engine.wall(), engine.parts.clock.now()),
            engine,
            run,
            pinned,
            cards,
            hosts,
            kind,
            drive,
            claim,
            slot,
            pending: Vec::new(),
            waits: Vec::new(),
            looks: Vec::new(),
            asked_again: HashSet::new(),
            children: Vec::new(),
            refused: Vec::new(),
            evidence: Vec::new(),
            tasks: Vec::new(),
            turns: Turns::default(),
            parked: None,
        }))
    }

    /// Takes in a record that was read from the journal.
    pub(crate) fn replay(&mut self, record: &Record) -> Result<(), FoldError> {
        self.run.apply(record)?;
        self.drive.apply(&self.run, record);
        self.turns.apply(&record.body);
        if let Body::Parked { wait: Wait { until: Some(until), .. } } = record.body {
            self.parked = Some((record.seq, until.since(record.at)));
        }
        Ok(())
    }

    pub(crate) fn key(&self) -> &RunKey {
        &self.key
    }

    pub(crate) fn view(&self) -> &RunView {
        &self.run.view
    }

    pub(crate) fn accepted(&self) -> &Accepted {
        &self.run.accepted
    }

    /// The wall clock, for records and what is decided with them. It is looked at once for each step: whoever sets it in
    /// between changes neither how long a wait is nor whether it is over.
    pub(crate) fn wall(&self) -> Timestamp {
        let (wall, at) = self.looked;
        wall.after(self.engine.parts.clock.now().since(at))
    }

    /// Looks at the wall clock for the next step.
    fn look(&mut self) {
        self.looked = (self.engine.wall(), self.engine.parts.clock.now());
    }

    pub(crate) fn queue_timeout(&self) -> Option<Duration> {
        self.accepted().queue_timeout_ms.map(Duration::from_millis)
    }

    pub(crate) fn take_pending(&mut self) -> Vec<Redacted<Record>> {
        std::mem::take(&mut self.pending)
    }

    /// Adds a record to what the next commit makes true; gives its sequence.
    pub(crate) fn push(&mut self, body: Body) -> Seq {
        self.push_at(self.wall(), body)
    }

    pub(crate) fn push_at(&mut self, at: Timestamp, body: Body) -> Seq {
        let record = Record { seq: self.run.view.seq + 1, at, body };
        let record = self.engine.parts.redactor.clean(record);
        self.note_evidence(&record.body);
        self.replay(&record).expect("the engine writes only records that follow");
        let seq = record.seq;
        self.pending.push(record);
        seq
    }

    /// The slot is granted: from here the run's own time limit counts.
    pub(crate) fn admit(&mut self) {
        let limit =
            self.accepted().run_timeout_ms.filter(|_| self.run.view.started_at.is_none()).map(Duration::from_millis);
        let (now, at) = (self.engine.parts.clock.now(), self.wall());
        let left = self.engine.timers.left(&self.key, Due::Deadline, now);
        let (deadline, deadline_set) = match limit.filter(|limit| left.is_none_or(|left| *limit < left)) {
            Some(limit) => {
                self.engine.timers.set_earlier(now.after(limit), &self.key, Due::Deadline);
                (Some(at.after(limit)), Some(self.engine.parts.clock.mark()))
            }
            None => (self.run.view.deadline, None),
        };
        // The deadline is counted from the record's time.
        self.push_at(at, Body::Admitted { deadline, deadline_set });
    }

    /// Drives the run until it has ended, is parked, or the process stops.
    pub(crate) async fn go(mut self: Box<Self>) {
        let mut woken_here = false;
        let mut flying = FuturesUnordered::new();
        loop {
            for task in std::mem::take(&mut self.tasks) {
                flying.push(match task {
                    Task::Turn { request, permit } => self.ask_model(request, permit),
                    Task::Call { call, tool, context, input } => self.call_tool(call, tool, context, input),
                });
            }
            if self.run.view.status != Status::Running {
                break;
            }
            let order = self.claim.control().order();
            if let Order::Stop(stop) = order {
                drop(flying);
                self.end_by(stop).await;
                break;
            }
            if order == Order::Drain && flying.is_empty() {
                break;
            }
            let control = self.claim.control().clone();
            tokio::select! {
                biased;
                () = control.changed() => {
                    let (pardoned, woken) = (control.take_pardon(), control.take_woken());
                    if pardoned {
                        self.pardon();
                    }
                    let woken = woken && control.order() == Order::Drive;
                    if woken {
                        self.look();
                        self.ask_again();
                    }
                    if !pardoned && !woken {
                        continue;
                    }
                }
                Some(done) = flying.next() => {
                    self.look();
                    match done {
                        Done::Turn(end) => self.take_in_turn(end),
                        Done::Call { call, result } => self.take_in_call(call, result),
                    }
                    if control.order() == Order::Drive {
                        self.ask_again();
                    }
                }
            }
            match self.claim.control().order() {
                Order::Drive => self.advance_beside(flying.len()).await,
                Order::Drain => self.finish_if_done(),
                Order::Stop(_) => {}
            }
            match self.commit().await {
                Ok(woken) => woken_here |= woken,
                Err(Lost) => break,
            }
        }
        let (engine, key) = (self.engine.clone(), self.key.clone());
        drop(self);
        if woken_here {
            engine.bring_back(&key).await;
        }
    }

    /// Decides and journals what comes next, when nothing is in flight.
    pub(crate) async fn advance(&mut self) {
        self.advance_beside(0).await;
    }

    /// Ends a run that has nothing left to do: that begins nothing new, so it is done while the process stops, too.
    fn finish_if_done(&mut self) {
        for effect in self.drive.decide(&self.run, self.wall()) {
            if let Effect::Finish(outcome) = effect {
                self.push(Body::Finished(outcome));
            }
        }
    }

    async fn advance_beside(&mut self, flying: usize) {
        loop {
            let (mut again, mut idle) = (false, true);
            for effect in self.drive.decide(&self.run, self.wall()) {
                idle = false;
                match effect {
                    Effect::Turn(plan) => again |= !self.begin_turn(plan).await,
                    Effect::Call(plan) => {
                        // A decision names a few calls: after each start there may be more.
                        if self.calls_in_flight() < self.engine.parts.config.tool_parallelism.max(1) as usize {
                            match self.begin_call(plan).await {
                                Begun::Yes => again = true,
                                // Calls begin in order: this one is tried again when another of the run is done.
                                Begun::Later if flying > 0 || !self.tasks.is_empty() => break,
                                Begun::Later => {
                                    self.park_for(Cause::Budget);
                                    return;
                                }
                            }
                        }
                    }
                    Effect::Wait { until } => {
                        self.park(until, Wait::until(until));
                    }
                    Effect::Note { version, value } => {
                        self.push(Body::Note { version, value });
                        again = true;
                    }
                    Effect::Finish(outcome) => {
                        self.push(Body::Finished(outcome));
                    }
                }
            }
            if again {
                continue;
            }
            if self.can_park() && self.tasks.is_empty() {
                self.push(Body::Parked { wait: Wait::default() });
            } else if idle && flying == 0 && self.tasks.is_empty() && self.run.view.status == Status::Running {
                tracing::error!(run = %self.key.run, "executor made no decision and no step is in flight");
                let error =
                    RunError::new("bug", "the run cannot continue: no step is in flight and no next step was chosen");
                self.push(Body::Finished(Box::new(self.outcome(Status::Failed, Some(error)))));
            }
            return;
        }
    }

    /// What a run waits for.
    fn waits_for(&self, wait: &Wait) -> &'static str {
        let is_own = !wait.on.is_empty() || wait.until.is_some();
        let of_calls = self.run.open_calls.iter().find_map(|open| open.waiting.as_ref());
        story::cause(of_calls.filter(|_| !is_own).unwrap_or(wait))
    }

    pub(crate) fn calls_in_flight(&self) -> usize {
        self.run.open_calls.iter().filter(|open| open.waiting.is_none()).count() + self.asked_again.len()
    }

    /// An end that no executor decided.
    pub(crate) fn outcome(&self, status: Status, error: Option<RunError>) -> Outcome {
        let warnings = self.run.warnings();
        let (usage, cost) = (self.run.view.usage, self.run.view.cost);
        Outcome { status, stop_reason: None, error, final_text: None, usage, cost, warnings }
    }

    /// Commits what is pending. Says whether this run was parked and has nothing left to wait for.
    pub(crate) async fn commit(&mut self) -> Result<bool, Lost> {
        if self.pending.is_empty() {
            return Ok(false);
        }
        let records = std::mem::take(&mut self.pending);
        let waits = std::mem::take(&mut self.waits);
        let children = std::mem::take(&mut self.children);
        let refused = std::mem::take(&mut self.refused);
        let definitions = pinned_definitions(&children);
        let expected = records.first().map_or(0, |record| record.seq - 1);
        let born: Vec<(RunKey, Vec<Redacted<Record>>)> =
            children.iter().map(|child| (child.key(), vec![self.first_record(child)])).collect();
        let entry = || {
            let mine = Append { key: self.key.clone(), expected, records: records.clone(), exclusive_session: false };
            let born = born.iter().map(|(key, records)| Append {
                key: key.clone(),
                expected: 0,
                records: records.clone(),
                exclusive_session: false,
            });
            Entry {
                runs: std::iter::once(mine).chain(born).chain(refused.iter().map(Refused::append)).collect(),
                waits: waits.clone(),
                definitions: definitions.clone(),
                ..Entry::empty(self.engine.parts.epoch)
            }
        };
        let mut wait = Duration::from_millis(200);
        let committed = loop {
            match self.engine.parts.journal.commit(entry()).await {
                Ok(committed) => break committed,
                // For good: the run must not go on unrecorded.
                Err(CommitError::Store(StoreError::Gone { .. })) => {
                    self.engine.store_gone();
                    return Err(Lost);
                }
                Err(CommitError::Store(error)) if self.claim.control().order() != Order::Drain => {
                    tracing::error!(run = %self.key.run, %error, "cannot write a step to the journal; retrying");
                    let clock = &self.engine.parts.clock;
                    clock.sleep_until(clock.now().after(wait)).await;
                    wait = (wait * 2).min(Duration::from_secs(10));
                }
                Err(error) => {
                    tracing::error!(run = %self.key.run, %error, "step not written to the journal; stopping the run");
                    return Err(Lost);
                }
            }
        };
        self.discard_evidence();
        self.engine.look_at(std::mem::take(&mut self.looks));
        self.committed(&records);
        for (child, (_, records)) in children.iter().zip(&born) {
            self.engine.child_began(child, records);
        }
        refused.into_iter().for_each(|refused| drop(self.engine.tell_refused(refused)));
        let mut woken_here = false;
        for key in committed.woken {
            match key == self.key {
                true => woken_here = true,
                false => self.engine.bring_back(&key).await,
            }
        }
        Ok(woken_here)
    }

    /// Tells of records that are true now, and lets go of what the run needs no more.
    pub(crate) fn committed(&mut self, records: &[Redacted<Record>]) {
        let ended = self.run.view.status.is_terminal().then(|| Arc::new(self.run.view.clone()));
        self.count(records);
        story::tell(&self.key, records);
        story::tell_start(&self.run.view, records);
        ended.iter().for_each(|view| story::tell_end(view));
        self.engine.feed.publish(&self.key, self.run.view.root, records, ended.as_ref());
        match self.run.view.status {
            Status::Running | Status::Queued => {}
            Status::Waiting => self.rest(),
            Status::Completed | Status::Failed | Status::Cancelled | Status::TimedOut => self.let_go(),
        }
    }

    fn count(&self, records: &[Redacted<Record>]) {
        let meters = &self.engine.meters;
        for record in records {
            match &record.body {
                Body::Admitted { .. } if self.run.view.started_at == Some(record.at) => {
                    meters.admitted(record.at.since(self.run.view.accepted_at));
                }
                Body::Parked { wait } => meters.parked(self.waits_for(wait)),
                Body::Finished(outcome) => meters.ended(outcome.status, record.at.since(self.run.view.accepted_at)),
                _ => {}
            }
        }
    }

    /// The run has ended: it needs no slot, timer or account.
    fn let_go(&mut self) {
        self.slot = None;
        self.engine.forget_waiting(&self.key);
        self.engine.waits.forget(&self.key);
        self.engine.timers.clear(&self.key, Due::Deadline);
        self.engine.timers.clear(&self.key, Due::Call);
        if self.accepted().depth == 0 {
            self.engine.trees.close(self.accepted().root);
        }
        if !self.owners.is_empty() {
            self.engine.end_account(&self.owners, &self.key);
        }
    }

    fn first_record(&self, child: &Planned) -> Redacted<Record> {
        let body = Body::Accepted(Box::new(child.accepted.clone()));
        self.engine.parts.redactor.clean(Record { seq: 1, at: child.at, body })
    }
}

/// The definition, with the volumes that requests leave.
fn narrowed_definition(pinned: &Pinned, accepted: &Accepted) -> Arc<Definition> {
    let whole: &Arc<Definition> = &pinned.definition;
    match &accepted.narrowed_volumes {
        None => whole.clone(),
        Some(left) => {
            let mut narrowed = Definition::clone(whole);
            narrowed.volumes.retain(|volume| left.contains(volume));
            Arc::new(narrowed)
        }
    }
}
