//! Retry: a run that has ended is run once more, with the request that its journal has and the agent as it is defined now.
//!
//! The retry is one commit. A child of a call that still waits for other children gets the place of the first attempt: the
//! commit adds it to that wait and is refused when the wait is over, so the parent either gets the new result or has its
//! answer already. Then the retry is a new root.

use std::{pin::pin, sync::Arc};

use drawloom_contract::{
    caller::{Caller, Proof, Visible},
    definition::Definition,
    failure::{Failure, FailureKind},
    ids::{RunId, RunKey},
    journal::{Append, CommitError, Entry, RunFilter},
    once::{Answered, HandleId, Made, Once},
    record::{Accepted, BatchPlace, Body, Parent, Record, Retry, Status},
    runs::{Idempotency, Interest, RetryStart, Start, Started},
    time::Timestamp,
    view::RunView,
    wait::WaitChange,
};

use crate::{
    Engine,
    accept::{Acceptance, Arrivals, refused, request_key, wrong_handle},
    plan::pinned_definitions,
    timers::Due,
    trees::NoGrowth,
};

const AGENT_CHANGED: &str =
    "the agent has changed since the first attempt; this retry uses the agent as it is defined now";

/// The statuses of runs that have not ended.
const UNFINISHED: [Status; 3] = [Status::Queued, Status::Running, Status::Waiting];

/// What is retried: its row, and the record that it began with.
struct First {
    view: RunView,
    accepted: Accepted,
    at: Timestamp,
    definition: Option<Arc<Definition>>,
    /// The agent's definition is another one by now.
    is_agent_changed: bool,
}

/// Where a retry goes.
enum RetryPlace {
    /// To the call that started the first attempt.
    Call(Parent),
    Batch(BatchPlace),
    Root,
}

impl Engine {
    pub(crate) async fn accept_retry(
        self: &Arc<Self>,
        caller: &Caller,
        retry: RetryStart,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        let accepting = pin!(self.retry_run(caller, retry, key.clone(), interest));
        match self.accept_once(caller, key.as_ref(), 1, accepting).await? {
            Acceptance::New(mut started) => Ok(started.pop().expect("one run was planned")),
            Acceptance::Known(HandleId::Run(run)) => self.attach(caller, run, interest).await,
            Acceptance::Known(HandleId::Batch(batch)) => Err(wrong_handle(&batch)),
        }
    }

    async fn retry_run(
        self: &Arc<Self>,
        caller: &Caller,
        retry: RetryStart,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Acceptance, Failure> {
        self.refuse_when_stopping()?;
        let first = self.first_attempt(caller, retry).await?;
        let mut place = self.retry_place(&first.view).await?;
        if let RetryPlace::Call(link) = &place {
            match self.retry_child(caller, &first, link.clone(), key.clone(), interest).await? {
                Some(acceptance) => return Ok(acceptance),
                // The other children ended meanwhile.
                None => place = RetryPlace::Root,
            }
        }
        let batch = match place {
            RetryPlace::Batch(batch) => Some(batch),
            RetryPlace::Call(_) | RetryPlace::Root => None,
        };
        let mut planned = self.plan_root(caller, first.root_start(), batch)?;
        planned.accepted.retry = Some(first.retry());
        let handle = HandleId::Run(planned.accepted.run);
        self.accept(caller, Arrivals::of(planned), key, handle, None, interest).await
    }

    /// The run to retry with what it was asked, or why it cannot be retried.
    async fn first_attempt(&self, caller: &Caller, retry: RetryStart) -> Result<First, Failure> {
        let view = self.seen(caller, retry.run).await?;
        check(&view, retry)?;
        check_caller(caller, &view)?;
        let (key, reader) = (view.key(), &self.parts.reader);
        let retries = reader.list_retries(&key.tenant, &[view.run]).await;
        if let Some((run, by)) = retries.map_err(|error| self.unreadable(&error))?.pop() {
            return Err(refused(&CommitError::AlreadyRetried { run, by }));
        }
        let (accepted, at) = self.beginning(&key).await?;
        let found = reader.find_definition(&key.tenant, &view.definition).await;
        let definition = found.map_err(|error| self.unreadable(&error))?.map(Arc::new);
        // An agent that was removed runs no more. What has no definition was refused because its agent was unknown.
        let today = self.parts.definitions.find(&key.tenant, &view.agent);
        let pin = |definition| self.pins.pin(&key.tenant, definition, &self.parts.redactor, &self.toolbox).digest;
        let is_agent_changed = definition.is_some() && today.as_ref().map(pin) != Some(view.definition);
        if definition.is_some() && today.is_none() {
            let message = format!("run {} cannot be retried: agent \"{}\" is not defined", view.run, view.agent);
            return Err(Failure::new(FailureKind::Conflict, "agent_not_defined", message)
                .with_hint("define the agent again; a goal continues with orchestrate_resume"));
        }
        let tools = definition.as_ref().map(|definition| (&*definition.tools, accepted.narrowed_tools.as_deref()));
        self.toolbox.ask(tools.as_slice()).await;
        Ok(First { view, accepted, at, definition, is_agent_changed })
    }

    /// The record that a run began with, and its time.
    async fn beginning(&self, key: &RunKey) -> Result<(Accepted, Timestamp), Failure> {
        let records = self.parts.reader.read_journal(key, 0, 1).await.map_err(|error| self.unreadable(&error))?;
        match records.into_iter().next() {
            Some(Record { at, body: Body::Accepted(accepted), .. }) => Ok((*accepted, at)),
            _ => {
                let message = format!("the journal of run {} does not begin with an accepted record", key.run);
                Err(Failure::new(FailureKind::Broken, "unreadable", message))
            }
        }
    }

    async fn retry_place(&self, view: &RunView) -> Result<RetryPlace, Failure> {
        let (reader, tenant) = (&self.parts.reader, &view.tenant);
        // A child that was refused was not for its parent to start.
        if let Some(parent) = view.parent.as_ref().filter(|_| !view.provider.is_empty()) {
            let key = RunKey { tenant: tenant.clone(), run: parent.run };
            let live = reader.list_live_children(&key).await.map_err(|error| self.unreadable(&error))?;
            let is_of_call = |live: &RunView| live.parent.as_ref().is_some_and(|other| other.call == parent.call);
            if live.iter().any(is_of_call) {
                return Ok(RetryPlace::Call(parent.clone()));
            }
        }
        if let Some(place) = view.batch {
            let batch = Some(place.batch);
            let filter = RunFilter { batch, status: UNFINISHED.to_vec(), limit: 1, ..RunFilter::default() };
            let live = reader.list_runs(&Visible::whole(tenant.clone()), &filter).await;
            if !live.map_err(|error| self.unreadable(&error))?.is_empty() {
                return Ok(RetryPlace::Batch(place));
            }
        }
        Ok(RetryPlace::Root)
    }

    /// Retries a child in its place; `None` when its call waits for no other child any more.
    async fn retry_child(
        self: &Arc<Self>,
        caller: &Caller,
        first: &First,
        link: Parent,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Option<Acceptance>, Failure> {
        let parent = RunKey { tenant: first.view.tenant.clone(), run: link.run };
        let (above, _) = self.beginning(&parent).await?;
        let Some(pinned) = self.load_pinned(&parent, &above.definition).await else {
            let message = format!("the agent definition of run {} cannot be read", parent.run);
            return Err(Failure::new(FailureKind::Broken, "unreadable", message));
        };
        self.grow_tree(&parent, above.root).await?;
        let left = self.timers.left(&parent, Due::Deadline, self.parts.clock.now());
        let call = link.call;
        let mut planned = self.plan_child(&above, &pinned.definition, left, link, first.child_start())?;
        planned.accepted.retry = Some(first.retry());
        let run_key = planned.key();
        let live = self.listen(&run_key, interest);
        let body = Body::Accepted(Box::new(planned.accepted.clone()));
        let records = vec![self.parts.redactor.clean(Record { seq: 1, at: planned.at, body })];
        let append = Append { key: run_key.clone(), expected: 0, records: records.clone(), exclusive_session: false };
        let handle = HandleId::Run(planned.accepted.run);
        let entry = Entry {
            waits: vec![WaitChange::OneMore { run: parent, call }],
            once: key.map(|key| Once::Request { key: request_key(caller, &key), made: Made::Handle(handle) }),
            definitions: pinned_definitions(std::slice::from_ref(&planned)),
            ..Entry::append(self.parts.epoch, append)
        };
        if let Err(error) = self.parts.journal.commit(entry).await {
            self.feed.forget(&run_key);
            return match error {
                CommitError::NotWaiting { .. } => Ok(None),
                CommitError::Repeated(Answered::Handle(handle)) => Ok(Some(Acceptance::Known(handle))),
                CommitError::Store(error) => Err(self.unreadable(&error)),
                error => Err(refused(&error)),
            };
        }
        self.own(std::iter::once(above.root));
        let view = Arc::new(RunView::accepted(&planned.accepted, planned.at));
        self.child_began(&planned, &records);
        let live = live.map(|live| self.stream(run_key, live));
        Ok(Some(Acceptance::New(vec![Started { view, live }])))
    }

    /// Counts one more run in a tree, within the limits on children.
    async fn grow_tree(&self, parent: &RunKey, root: RunId) -> Result<(), Failure> {
        let config = &self.parts.config;
        let full = |message: String| {
            Err(Failure::new(FailureKind::Throttled, "too_many_children", message).with_hint("retry later"))
        };
        let queued = self.admission().queued_children();
        if queued >= config.max_queued_children as usize {
            return full(format!("{queued} child runs are queued and the limit is {}", config.max_queued_children));
        }
        self.open_tree(&parent.tenant, root).await;
        match self.trees.grow(root, 1, config.max_runs_per_tree) {
            Ok(()) => Ok(()),
            Err(NoGrowth::Full { size }) => {
                full(format!("the tree has {size} runs and the limit is {}", config.max_runs_per_tree))
            }
            Err(NoGrowth::NotCounted) => full("the runs of the tree cannot be counted".into()),
        }
    }
}

/// Refuses a run that has not ended, and one that completed unless that is asked for.
fn check(view: &RunView, retry: RetryStart) -> Result<(), Failure> {
    let refuse = |code, message: String| Failure::new(FailureKind::Conflict, code, message);
    match view.status {
        status if !status.is_terminal() => {
            let message = format!("run {} has not ended: it is {}", view.run, status.as_str());
            Err(refuse("not_ended", message)
                .with_hint("wait for its end (get_run with wait_ms), or cancel it first with cancel_run"))
        }
        Status::Completed if !retry.completed => {
            let message = format!("run {} completed", view.run);
            Err(refuse("completed", message)
                .with_hint("to run it once more all the same, pass completed (`--completed`)"))
        }
        _ => Ok(()),
    }
}

/// Refuses what a retry must not start: goals have checks of their own, and a principal acts for its own user only.
fn check_caller(caller: &Caller, view: &RunView) -> Result<(), Failure> {
    if view.agent.is_reserved() {
        let message = format!("run {} belongs to a goal and cannot be retried", view.run);
        return Err(Failure::new(FailureKind::Conflict, "run_of_goal", message)
            .with_hint("a goal continues with orchestrate_resume"));
    }
    if caller.proof == Proof::Principal && caller.subject != view.user {
        let message = format!("run {} belongs to another user; a retry would act for that user", view.run);
        return Err(Failure::new(FailureKind::Denied, "user_denied", message));
    }
    if view.parent.is_some() && view.provider.is_empty() {
        let message = format!("run {} was refused before it started, so its parent has to start it again", view.run);
        return Err(
            Failure::new(FailureKind::Conflict, "never_started", message).with_hint("start the agent with spawn_run")
        );
    }
    Ok(())
}

impl First {
    fn retry(&self) -> Retry {
        Retry { of: self.view.run, attempt: self.view.retry.map_or(0, |retry| retry.attempt) + 1 }
    }

    /// A limit of the first attempt, unless it came from the agent's definition of then: the agent is taken as it is now.
    fn limit<T: PartialEq>(&self, value: Option<T>, of_agent: impl Fn(&Definition) -> Option<T>) -> Option<T> {
        value.filter(|value| self.definition.as_deref().and_then(&of_agent).as_ref() != Some(value))
    }

    /// What it was asked, without what only a root has.
    fn child_start(&self) -> Start {
        let Accepted { part_budgets, .. } = &self.accepted;
        let own = part_budgets.iter().find(|part| part.run == self.view.run);
        let length = |deadline: Timestamp| u64::try_from(deadline.since(self.at).as_millis()).unwrap_or(u64::MAX);
        let accepted = self.accepted.clone();
        Start {
            agent: accepted.agent,
            definition: None,
            user: None,
            segments: accepted.segments,
            input: accepted.input,
            tools: accepted.narrowed_tools,
            session: None,
            agent_id: None,
            parent_context: accepted.parent_context,
            metadata: accepted.metadata,
            timeout_ms: accepted.deadline.map(length),
            run_timeout_ms: self.limit(accepted.run_timeout_ms, |agent| agent.run_timeout_ms),
            // A run that was refused has no limit of its own.
            max_iterations: self
                .limit(Some(accepted.max_iterations).filter(|most| *most > 0), |agent| Some(agent.max_iterations)),
            budget_tokens: self.limit(own.and_then(|part| part.tokens), |agent| agent.budget_tokens),
            budget_cost: self.limit(own.and_then(|part| part.cost), |agent| agent.budget_cost),
            user_tier: None,
            sampling: accepted.models.sampling,
            hosts: accepted.narrowed_hosts,
            volumes: accepted.narrowed_volumes,
            warnings: self.is_agent_changed.then_some(AGENT_CHANGED.into()).into_iter().collect(),
        }
    }

    /// The same for a root. A child that becomes one keeps the narrowest budget that it counted against.
    fn root_start(&self) -> Start {
        let accepted = &self.accepted;
        let is_root = accepted.parent.is_none();
        let start = self.child_start();
        let parts_above = || accepted.part_budgets.iter().filter(|part| part.run != self.view.run);
        // A root's budget may be that of its agent; a child counted against that of its root.
        let (all_tokens, all_cost) = match is_root {
            true => (
                self.limit(accepted.budget_tokens, |agent| agent.budget_tokens),
                self.limit(accepted.budget_cost, |agent| agent.budget_cost),
            ),
            false => (accepted.budget_tokens, accepted.budget_cost),
        };
        let tokens = parts_above().filter_map(|part| part.tokens).chain(start.budget_tokens).chain(all_tokens).min();
        let cost = parts_above().filter_map(|part| part.cost).chain(start.budget_cost).chain(all_cost).min();
        Start {
            user: Some(accepted.user.clone()),
            session: is_root.then_some(accepted.session),
            agent_id: is_root.then(|| accepted.agent_id.clone()),
            budget_tokens: tokens,
            budget_cost: cost,
            user_tier: accepted.models.user_tier.clone(),
            ..start
        }
    }
}
