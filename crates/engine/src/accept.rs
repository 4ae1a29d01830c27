//! Accept: the one way in. What was planned is written, all or none, and a run exists when it is committed.

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use drawloom_contract::{
    caller::Caller,
    failure::{Explain, Failure, FailureKind},
    ids::{AgentName, BatchId, Digest, SessionId},
    journal::{Append, CommitError, Entry, NewBatch},
    once::{Answered, HandleId, Made, Once, RequestKey},
    record::{BatchPlace, Status},
    runs::{Idempotency, Interest, OnRefusal, Start, Started, StartedBatch},
    values::ChangeError,
};
use futures::FutureExt as _;

use crate::{
    Engine,
    admission::{Class, Lane},
    control::Claim,
    plan::{Planned, pinned_definitions},
    refused::{Origin, Refused, is_of_one_run},
    run_task::RunTask,
    slots::{Slot, ticket},
    timers::Due,
};

/// Most runs in a batch.
pub(crate) const MOST_SPAWNS: usize = 32;

impl Engine {
    pub(crate) async fn accept_one(
        self: &Arc<Self>,
        caller: &Caller,
        start: Start,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        let accepting = pin!(async {
            let agent = (&start.agent, start.tools.as_deref());
            if let Some(known) = self.prepare(caller, key.as_ref(), [agent]).await? {
                return Ok(known);
            }
            self.check_session(caller, start.session).await?;
            let planned = self.plan_root(caller, start, None)?;
            let handle = HandleId::Run(planned.accepted.run);
            self.accept(caller, Arrivals::of(planned), key.clone(), handle, None, interest).await
        });
        match self.accept_once(caller, key.as_ref(), 1, accepting).await? {
            Acceptance::New(mut started) => Ok(started.pop().expect("one run was planned")),
            Acceptance::Known(HandleId::Run(run)) => self.attach(caller, run, interest).await,
            Acceptance::Known(HandleId::Batch(batch)) => Err(wrong_handle(&batch)),
        }
    }

    pub(crate) async fn accept_batch(
        self: &Arc<Self>,
        caller: &Caller,
        starts: Vec<Start>,
        on_refusal: OnRefusal,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        if starts.is_empty() || starts.len() > MOST_SPAWNS {
            return Err(Failure::new(
                FailureKind::Invalid,
                "bad_batch_size",
                format!("invalid batch: {} runs; a batch must have 1 to {MOST_SPAWNS}", starts.len()),
            ));
        }
        let batch = BatchId::mint(self.wall(), &*self.parts.entropy)?;
        let (count, size) = (starts.len(), starts.len() as u32);
        let accepting = pin!(async {
            let agents = starts.iter().map(|start| (&start.agent, start.tools.as_deref()));
            if let Some(known) = self.prepare(caller, key.as_ref(), agents).await? {
                return Ok(known);
            }
            let mut arrivals = Arrivals::default();
            for (index, start) in (0..).zip(starts) {
                let place = BatchPlace { batch, index };
                let member = self.plan_member(caller, start, place, on_refusal).await;
                match member.map_err(|failure| {
                    let message = format!("spawns[{index}]: {}", failure.message);
                    Failure { message, ..failure }
                })? {
                    Ok(planned) => arrivals.planned.push(planned),
                    Err(refused) => arrivals.refused.push(refused),
                }
            }
            let new = NewBatch { tenant: caller.tenant.clone(), batch, user: caller.subject.clone(), size };
            self.accept(caller, arrivals, key.clone(), HandleId::Batch(batch), Some(new), interest).await
        });
        match self.accept_once(caller, key.as_ref(), count, accepting).await? {
            Acceptance::New(runs) => Ok(StartedBatch { batch, runs }),
            Acceptance::Known(handle) => self.attach_handle(caller, handle, interest).await,
        }
    }

    /// Plans a run of a batch, or writes down that it is refused. A failure refuses the batch.
    async fn plan_member(
        &self,
        caller: &Caller,
        start: Start,
        place: BatchPlace,
        on_refusal: OnRefusal,
    ) -> Result<Result<Planned, Refused>, Failure> {
        let kept = (on_refusal == OnRefusal::FailThatRun).then(|| start.clone());
        let planned = match self.check_session(caller, start.session).await {
            Ok(()) => self.plan_root(caller, start, Some(place)),
            Err(failure) => Err(failure),
        };
        match (planned, kept) {
            (Ok(planned), _) => Ok(Ok(planned)),
            (Err(failure), Some(start)) if is_of_one_run(&failure, &start) => {
                self.refused_run(start, Origin::Batch { caller, place }, failure).map(Err)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    async fn attach_handle(
        self: &Arc<Self>,
        caller: &Caller,
        handle: HandleId,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        match handle {
            HandleId::Batch(batch) => self.attach_batch(caller, batch, interest).await,
            HandleId::Run(run) => Err(wrong_handle(&run)),
        }
    }

    /// What `accepting` makes of `count` starts, or what an earlier request with this key made, also when a new one would be
    /// refused. The store finds it while it writes, so nobody looks before, unless the repeat could be in others' way.
    pub(crate) async fn accept_once(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
        count: usize,
        accepting: Pin<&mut impl Future<Output = Result<Acceptance, Failure>>>,
    ) -> Result<Acceptance, Failure> {
        let is_tight = key.is_some() && !self.admission().has_ample_room(count);
        if is_tight && let Some(known) = self.known(caller, key).await? {
            return Ok(known);
        }
        match accepting.await {
            Ok(acceptance) => Ok(acceptance),
            Err(failure) => self.known(caller, key).await?.ok_or(failure),
        }
    }

    /// Sees to it that the tools of agents are known; while that takes time, what was accepted before is found.
    async fn prepare<'a>(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
        agents: impl IntoIterator<Item = (&'a AgentName, Option<&'a [String]>)>,
    ) -> Result<Option<Acceptance>, Failure> {
        let mut asking = Box::pin(self.ask_for_tools(&caller.tenant, agents));
        if (&mut asking).now_or_never().is_some() {
            return Ok(None);
        }
        let known = self.known(caller, key).await?;
        if known.is_none() {
            asking.await;
        }
        Ok(known)
    }

    /// What an earlier request with this key made.
    async fn known(&self, caller: &Caller, key: Option<&Idempotency>) -> Result<Option<Acceptance>, Failure> {
        let Some(key) = key else { return Ok(None) };
        let asked = request_key(caller, key);
        let found = self.parts.reader.find_request(&asked).await;
        match found.map_err(|error| self.unreadable(&error))? {
            Some((body, Answered::Handle(handle))) if body == asked.body => Ok(Some(Acceptance::Known(handle))),
            Some(_) => Err(refused(&CommitError::Refused(ChangeError::KeyReused))),
            None => Ok(None),
        }
    }

    /// What a request under this key made, whatever its body was.
    pub(crate) async fn keyed(
        &self,
        caller: &Caller,
        operation: &'static str,
        key: &str,
    ) -> Result<Option<HandleId>, Failure> {
        // The body of the question plays no part.
        let key = Idempotency { operation, key: key.to_owned(), body: Digest::of(&[]) };
        let found = self.parts.reader.find_request(&request_key(caller, &key)).await;
        Ok(match found.map_err(|error| self.unreadable(&error))? {
            Some((_, Answered::Handle(handle))) => Some(handle),
            Some((_, Answered::Effect(_))) | None => None,
        })
    }

    /// Refuses a session that the caller may not see, as one that does not exist. Who may see everything is not asked
    /// for: the commit looks whether the session exists.
    async fn check_session(&self, caller: &Caller, session: Option<SessionId>) -> Result<(), Failure> {
        let visible = caller.visible();
        let Some(session) = session.filter(|_| visible.owner().is_some()) else { return Ok(()) };
        let seen = self.parts.reader.sees_session(&visible, session).await;
        match seen.map_err(|error| self.unreadable(&error))? {
            true => Ok(()),
            false => Err(refused(&CommitError::UnknownSession(session))),
        }
    }

    /// Why a commit was refused, without the id of another user's run.
    async fn refused_for(&self, caller: &Caller, error: &CommitError) -> Failure {
        let mut failure = refused(error);
        if let CommitError::AgentIdInUse { agent_id, .. } = error
            && !matches!(self.parts.reader.find_by_agent_id(&caller.visible(), agent_id).await, Ok(Some(_)))
        {
            failure.message = format!("agent_id {agent_id} is already in use");
            failure.hint = Some("choose another agent_id".into());
        }
        failure
    }

    /// Writes new roots down, all or none, and sets those going that get a slot at once.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        caller: &Caller,
        arrivals: Arrivals,
        key: Option<Idempotency>,
        handle: HandleId,
        batch: Option<NewBatch>,
        interest: Interest,
    ) -> Result<Acceptance, Failure> {
        self.refuse_when_stopping()?;
        let Arrivals { planned, refused } = arrivals;
        let lanes: Vec<Lane> = planned.iter().map(Planned::lane).collect();
        let granted = self.admission().reserve(&lanes).map_err(|full| {
            Failure::new(
                FailureKind::Throttled,
                "backpressure",
                format!(
                    "queue full: {} runs are queued and the limit is {}; {} more were requested",
                    full.queued, self.parts.config.max_queue_depth, full.more
                ),
            )
            .with_hint("retry later, or raise concurrency.max_queue_depth")
        })?;
        let mut entry = Entry {
            runs: Vec::with_capacity(planned.len()),
            once: key.map(|key| Once::Request { key: request_key(caller, &key), made: Made::Handle(handle) }),
            batch,
            definitions: pinned_definitions(&planned),
            ..Entry::empty(self.parts.epoch)
        };
        let mut begun = Vec::with_capacity(planned.len());
        for (planned, granted) in planned.into_iter().zip(granted) {
            let run_key = planned.key();
            let live = self.listen(&run_key, interest);
            let slot = granted.then(|| Slot { engine: self.clone(), lane: planned.lane() });
            let promise = Promise { engine: self, kept: granted };
            let claim = Claim::take(self, &run_key)
                .map_err(|_| Failure::new(FailureKind::Bug, "bug", "duplicate run id generated"))?;
            let joins_session = planned.joins_session;
            let mut task = RunTask::begin(self.clone(), planned, claim, slot).await;
            let records = task.take_pending();
            entry.waits.append(&mut task.waits);
            entry.runs.push(Append {
                key: run_key,
                expected: 0,
                records: records.clone(),
                exclusive_session: joins_session,
            });
            begun.push((task, records, live, promise));
        }
        entry.runs.extend(refused.iter().map(Refused::append));
        let committed = self.parts.journal.commit(entry).await;
        if let Err(error) = committed {
            for (task, ..) in &begun {
                self.feed.forget(task.key());
                self.timers.clear(task.key(), Due::Deadline);
                self.forget_waiting(task.key());
                self.budgets.close(task.accepted().root);
            }
            return match error {
                CommitError::Repeated(Answered::Handle(handle)) => Ok(Acceptance::Known(handle)),
                CommitError::Store(error) => Err(self.unreadable(&error)),
                error => Err(self.refused_for(caller, &error).await),
            };
        }
        self.own(begun.iter().map(|(task, ..)| task.accepted().root));
        let mut started = Vec::with_capacity(begun.len());
        for (mut task, records, live, promise) in begun {
            let view = Arc::new(task.view().clone());
            task.committed(&records);
            promise.keep();
            self.meters.accepted();
            // Again: a timer that was due before the commit found no run to stop.
            if !view.status.is_terminal() {
                self.watch_deadline(&view);
            }
            match view.status {
                Status::Running => {
                    self.drive(view.key(), task.go());
                }
                // Its first step was its end, such as a budget that pays for nothing; or it is parked until there is room.
                Status::Waiting => drop(task),
                _ if view.status.is_terminal() => drop(task),
                _ => {
                    let mut ticket = ticket(&view, Class::New);
                    ticket.patience = task.queue_timeout();
                    drop(task);
                    self.enqueue(ticket, true);
                }
            }
            let live = live.map(|live| self.stream(view.key(), live));
            started.push(Started { view, live });
        }
        started.extend(refused.into_iter().map(|refused| self.tell_refused(refused)));
        started.sort_by_key(|started| started.view.batch.map(|place| place.index));
        Ok(Acceptance::New(started))
    }
}

/// Runs that one request begins.
#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) planned: Vec<Planned>,
    /// Runs of a batch that are refused: they have failed when they are accepted.
    pub(crate) refused: Vec<Refused>,
}

impl Arrivals {
    pub(crate) fn of(planned: Planned) -> Self {
        Self { planned: vec![planned], refused: Vec::new() }
    }
}

pub(crate) enum Acceptance {
    New(Vec<Started>),
    Known(HandleId),
}

/// A promised place in the queue, given back unless it is kept.
struct Promise<'a> {
    engine: &'a Engine,
    kept: bool,
}

impl Promise<'_> {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.engine.admission().break_promise();
        }
    }
}

pub(crate) fn request_key(caller: &Caller, key: &Idempotency) -> RequestKey {
    RequestKey {
        tenant: caller.tenant.clone(),
        subject: caller.subject.clone(),
        operation: key.operation,
        key: Digest::of(key.key.as_bytes()),
        body: key.body,
    }
}

/// What the store said to a request.
pub(crate) fn refused(error: &CommitError) -> Failure {
    tracing::warn!(%error, "request not accepted");
    Failure::of(error as &dyn Explain)
}

pub(crate) fn wrong_handle(handle: &dyn std::fmt::Display) -> Failure {
    Failure::new(
        FailureKind::Conflict,
        "idempotency_key_reused",
        format!("the idempotency key was already used for {handle}"),
    )
}
