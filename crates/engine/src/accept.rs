//! Accept: the one way in. REST, batches and sub-agents all come through `plan`, and a run exists when it is committed.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    caller::Caller,
    choice::{ModelName, ModelPlan, Sampling},
    definition::{Definition, matches},
    executor::MODEL,
    failure::{Explain, Failure, FailureKind},
    ids::{AgentId, AgentName, BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    journal::{Append, CommitError, Entry, HandleId, NewBatch, RequestKey},
    message::Segment,
    record::{Accepted, BatchPlace, Parent, Status},
    runs::{Idempotency, Interest, Start, Started, StartedBatch},
    time::Timestamp,
    tool::ChildStart,
};
use futures::FutureExt as _;

use crate::{
    Engine,
    admission::{Class, Lane},
    control::Claim,
    driver::Driver,
    engine::{Slot, ticket},
    pins::Pinned,
    timers::Due,
    turn,
};

/// Most tools of a run; models' providers take no more.
pub(crate) const MOST_TOOLS: usize = 128;

/// Most runs in a batch.
pub(crate) const MOST_SPAWNS: usize = 32;

/// A run that was thought through and not yet written down.
pub(crate) struct Planned {
    /// The time that everything in it is counted from. Whoever asks the wall clock again may get another one.
    pub(crate) at: Timestamp,
    pub(crate) accepted: Accepted,
    pub(crate) pinned: Arc<Pinned>,
    /// Whether it joins a session that must be there and free.
    pub(crate) joins_session: bool,
}

impl Planned {
    pub(crate) fn key(&self) -> RunKey {
        RunKey { tenant: self.accepted.tenant.clone(), run: self.accepted.run }
    }
}

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
            self.accept(caller, vec![planned], key.clone(), handle, None, interest).await
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
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        if starts.is_empty() || starts.len() > MOST_SPAWNS {
            return Err(Failure::new(
                FailureKind::Invalid,
                "bad_batch_size",
                format!("a batch has 1 to {MOST_SPAWNS} spawns, not {}", starts.len()),
            ));
        }
        let batch = BatchId::mint(self.wall(), &*self.parts.entropy)?;
        let (count, size) = (starts.len(), starts.len() as u32);
        let accepting = pin!(async {
            let agents = starts.iter().map(|start| (&start.agent, start.tools.as_deref()));
            if let Some(known) = self.prepare(caller, key.as_ref(), agents).await? {
                return Ok(known);
            }
            for start in &starts {
                self.check_session(caller, start.session).await?;
            }
            let planned = (0..).zip(starts).map(|(index, start)| {
                self.plan_root(caller, start, Some(BatchPlace { batch, index })).map_err(|mut failure| {
                    failure.message = format!("spawns[{index}]: {}", failure.message);
                    failure
                })
            });
            let planned = planned.collect::<Result<Vec<_>, _>>()?;
            let new = NewBatch { tenant: caller.tenant.clone(), batch, user: caller.subject.clone(), size };
            self.accept(caller, planned, key.clone(), HandleId::Batch(batch), Some(new), interest).await
        });
        match self.accept_once(caller, key.as_ref(), count, accepting).await? {
            Acceptance::New(runs) => Ok(StartedBatch { batch, runs }),
            Acceptance::Known(handle) => self.attach_handle(caller, handle, interest).await,
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
    async fn accept_once(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
        count: usize,
        accepting: Pin<&mut impl Future<Output = Result<Acceptance, Failure>>>,
    ) -> Result<Acceptance, Failure> {
        let is_tight = key.is_some() && !self.gate().has_ample_room(count);
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
        // The handle of the question plays no part.
        let asked = request_key(caller, key, HandleId::Run(RunId::from_bytes([0; 16])));
        let found = self.parts.reader.find_request(&asked).await;
        match found.map_err(|error| self.unreadable(&error))? {
            Some(found) if found.body == asked.body => Ok(Some(Acceptance::Known(found.handle))),
            Some(_) => Err(refused(&CommitError::KeyReused)),
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
        // Neither the body nor the handle of the question plays a part.
        let key = Idempotency { operation, key: key.to_owned(), body: Digest::of(&[]) };
        let asked = request_key(caller, &key, HandleId::Run(RunId::from_bytes([0; 16])));
        let found = self.parts.reader.find_request(&asked).await;
        Ok(found.map_err(|error| self.unreadable(&error))?.map(|found| found.handle))
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
            failure.message = format!("agent_id {agent_id} is in use");
            failure.hint = Some("pick another agent_id".into());
        }
        failure
    }

    /// Writes new roots down, all or none, and sets those going that get a slot at once.
    async fn accept(
        self: &Arc<Self>,
        caller: &Caller,
        planned: Vec<Planned>,
        key: Option<Idempotency>,
        handle: HandleId,
        batch: Option<NewBatch>,
        interest: Interest,
    ) -> Result<Acceptance, Failure> {
        self.refuse_when_stopping()?;
        let lanes: Vec<Lane> = planned.iter().map(|planned| planned_lane(&planned.accepted)).collect();
        let granted = self.gate().reserve(&lanes).map_err(|full| {
            Failure::new(
                FailureKind::Throttled,
                "backpressure",
                format!(
                    "queue full: {} runs wait for a slot and {} may; {} more would",
                    full.queued, self.parts.config.max_queue_depth, full.more
                ),
            )
            .with_hint("try again later, or raise concurrency.max_queue_depth")
        })?;
        let mut entry = Entry {
            runs: Vec::with_capacity(planned.len()),
            key: key.map(|key| request_key(caller, &key, handle)),
            batch,
            definitions: self.new_definitions(planned.iter()),
            ..Entry::empty(self.parts.epoch)
        };
        let mut begun = Vec::with_capacity(planned.len());
        for (planned, granted) in planned.into_iter().zip(granted) {
            let run_key = planned.key();
            let live = self.listen(&run_key, interest);
            let slot = granted.then(|| Slot { engine: self.clone(), lane: planned_lane(&planned.accepted) });
            let promise = Promise { engine: self, kept: granted };
            let claim = Claim::take(self, &run_key)
                .map_err(|_| Failure::new(FailureKind::Bug, "bug", "a run id was minted twice"))?;
            let joins_session = planned.joins_session;
            let mut driver = Driver::begin(self.clone(), planned, claim, slot).await;
            let records = driver.take_pending();
            entry.runs.push(Append {
                key: run_key,
                expected: 0,
                records: records.clone(),
                exclusive_session: joins_session,
            });
            begun.push((driver, records, live, promise));
        }
        let definitions: Vec<Digest> = entry.definitions.iter().map(|definition| definition.digest()).collect();
        let committed = self.parts.journal.commit(entry).await;
        if let Err(error) = committed {
            for (driver, ..) in &begun {
                self.feed.forget(driver.key());
                self.timers.clear(driver.key(), Due::Deadline);
                self.forget_waiting(driver.key());
                self.budgets.close(driver.accepted().root);
            }
            return match error {
                CommitError::Repeated(handle) => Ok(Acceptance::Known(handle)),
                CommitError::Store(error) => Err(self.unreadable(&error)),
                error => Err(self.refused_for(caller, &error).await),
            };
        }
        for digest in definitions {
            self.pins.stored(&caller.tenant, &digest);
        }
        self.own(begun.iter().map(|(driver, ..)| driver.accepted().root));
        let mut started = Vec::with_capacity(begun.len());
        for (mut driver, records, live, promise) in begun {
            let view = Arc::new(driver.view().clone());
            driver.committed(&records);
            promise.keep();
            self.meters.accepted();
            // Again: a timer that was due before the commit found no run to stop.
            if !view.status.is_terminal() {
                self.watch_deadline(&view);
            }
            match view.status {
                Status::Running => {
                    self.drive(view.key(), driver.go());
                }
                // Its first step was its end, such as a budget that pays for nothing; or it is parked until there is room.
                Status::Waiting => drop(driver),
                _ if view.status.is_terminal() => drop(driver),
                _ => {
                    let mut ticket = ticket(&view, Class::New);
                    ticket.patience = driver.queue_timeout();
                    drop(driver);
                    self.enqueue(ticket, true);
                }
            }
            let live = live.map(|live| self.stream(view.key(), live));
            started.push(Started { view, live });
        }
        Ok(Acceptance::New(started))
    }

    fn plan_root(&self, caller: &Caller, start: Start, batch: Option<BatchPlace>) -> Result<Planned, Failure> {
        let now = self.wall();
        // Names are stored and shown as they are.
        let is_secret = |name: String| self.parts.redactor.mask(&mut { name });
        if start.agent_id.as_ref().is_some_and(|agent_id| is_secret(agent_id.to_string())) {
            let message = "the agent_id looks like a secret, and it would be stored and shown";
            return Err(Failure::new(FailureKind::Invalid, "secret_agent_id", message).with_hint("pick another one"));
        }
        if is_secret(start.user.as_ref().unwrap_or(&caller.subject).to_string()) {
            let message = "the user_id looks like a secret, and it would be stored and shown";
            return Err(Failure::new(FailureKind::Invalid, "secret_user_id", message).with_hint("pick another one"));
        }
        let pinned = self.find_agent(&caller.tenant, &start.agent)?;
        let definition = &pinned.definition;
        let run = RunId::mint(now, &*self.parts.entropy)?;
        let mut warnings = start.warnings;
        warnings.extend(self.toolbox.missing(&definition.tools, start.tools.as_deref()));
        let tools = narrowed(&pinned.tools, start.tools.as_deref(), &mut warnings);
        for host in start.hosts.iter().flatten() {
            if turn::hosts(&definition.hosts, Some(std::slice::from_ref(host))).is_empty() {
                warnings.push(format!("allowed_hosts: `{host}` is not among the agent's hosts and was left out"));
            }
        }
        let max_iterations = narrower("max_iterations", start.max_iterations, definition.max_iterations, &mut warnings);
        let budget_tokens = match (start.budget_tokens, definition.budget_tokens) {
            (asked, Some(limit)) => Some(narrower("budget.tokens", asked, limit, &mut warnings)),
            (asked, None) => asked,
        };
        let budget_cost = match (start.budget_cost, definition.budget_cost) {
            (Some(asked), Some(limit)) if asked > limit => {
                warnings.push(format!("budget.cost: {} was asked; the agent allows {}", asked.units(), limit.units()));
                Some(limit)
            }
            (asked, limit) => asked.or(limit),
        };
        let is_model = definition.executor == MODEL;
        let (model, models) = match is_model {
            true => self.choose(definition, start.user_tier.as_deref(), start.sampling, budget_cost, &mut warnings)?,
            false => asks_no_model(definition),
        };
        let run_timeout_ms = match (start.run_timeout_ms, definition.run_timeout_ms) {
            (asked, Some(limit)) => Some(narrower("run_timeout_seconds", asked, limit, &mut warnings)),
            (asked, None) => asked,
        };
        // The default keeps a run from staying alive unseen. All waits that exist count: for children, slots, times, rate
        // limits and budgets. A wait for a person or a channel, once there is one, must stop this clock.
        let usual = Some(self.parts.config.default_timeout_ms).filter(|millis| is_model && *millis > 0);
        let timeout_ms = start.timeout_ms.or(usual);
        let deadline = timeout_ms.map(|millis| now.after(Duration::from_millis(millis)));
        let accepted = Accepted {
            version: drawloom_contract::VERSION.into(),
            tenant: caller.tenant.clone(),
            run,
            session: start.session.map_or_else(|| SessionId::mint(now, &*self.parts.entropy), Ok)?,
            agent_id: start.agent_id.map_or_else(|| AgentId::mint(now, &*self.parts.entropy), Ok)?,
            agent: start.agent,
            definition: pinned.digest,
            executor: definition.executor.clone(),
            user: start.user.unwrap_or_else(|| caller.subject.clone()),
            provider: model.provider,
            model: model.model,
            parent: None,
            root: run,
            depth: 0,
            batch,
            segments: start.segments,
            input: start.input,
            tools,
            narrowed_tools: start.tools,
            max_iterations,
            budget_tokens,
            budget_cost,
            models,
            narrowed_hosts: start.hosts,
            deadline,
            deadline_set: deadline.map(|_| self.parts.clock.mark()),
            run_timeout_ms,
            queue_timeout_ms: Some(self.parts.config.queue_timeout_ms),
            parent_context: start.parent_context,
            metadata: start.metadata,
            warnings,
        };
        Ok(Planned { at: now, accepted, pinned, joins_session: start.session.is_some() })
    }

    /// A child of `parent`'s call: it may do what the operator, its own definition and the root's request allow, in the time that
    /// is left of its parent's.
    pub(crate) fn plan_child(
        &self,
        parent: &Accepted,
        left: Option<Duration>,
        link: Parent,
        child: ChildStart,
    ) -> Result<Planned, Failure> {
        let now = self.wall();
        let deadline = left.map(|left| now.after(left));
        let pinned = self.find_agent(&parent.tenant, &child.agent)?;
        let definition = &pinned.definition;
        let run = RunId::mint(now, &*self.parts.entropy)?;
        let mut warnings = self.toolbox.missing(&definition.tools, parent.narrowed_tools.as_deref());
        let tools = narrowed(&pinned.tools, parent.narrowed_tools.as_deref(), &mut warnings);
        let user_tier = parent.models.user_tier.as_deref();
        let (model, models) = match definition.executor == MODEL {
            true => self.choose(definition, user_tier, Sampling::default(), parent.budget_cost, &mut warnings)?,
            false => asks_no_model(definition),
        };
        let accepted = Accepted {
            version: drawloom_contract::VERSION.into(),
            tenant: parent.tenant.clone(),
            run,
            session: SessionId::mint(now, &*self.parts.entropy)?,
            agent_id: AgentId::mint(now, &*self.parts.entropy)?,
            agent: child.agent,
            definition: pinned.digest,
            executor: definition.executor.clone(),
            user: parent.user.clone(),
            provider: model.provider,
            model: model.model,
            parent: Some(link),
            root: parent.root,
            depth: parent.depth + 1,
            batch: None,
            segments: vec![Segment::user(child.prompt)],
            input: None,
            tools,
            narrowed_tools: parent.narrowed_tools.clone(),
            max_iterations: definition.max_iterations,
            budget_tokens: parent.budget_tokens,
            budget_cost: parent.budget_cost,
            models,
            narrowed_hosts: parent.narrowed_hosts.clone(),
            deadline,
            deadline_set: deadline.map(|_| self.parts.clock.mark()),
            run_timeout_ms: definition.run_timeout_ms,
            queue_timeout_ms: None,
            parent_context: parent.parent_context.clone(),
            metadata: None,
            warnings,
        };
        Ok(Planned { at: now, accepted, pinned, joins_session: false })
    }

    /// Sees to it that the tools of agents, each narrowed by its request, are known before runs of them are planned; what is
    /// missing is in the plan.
    pub(crate) async fn ask_for_tools<'a>(
        &self,
        tenant: &Tenant,
        agents: impl IntoIterator<Item = (&'a AgentName, Option<&'a [String]>)>,
    ) {
        let find = |(agent, narrowed)| Some((self.parts.definitions.find(tenant, agent)?, narrowed));
        let found: Vec<_> = agents.into_iter().filter_map(find).collect();
        let agents: Vec<_> = found.iter().map(|(definition, narrowed)| (&*definition.tools, *narrowed)).collect();
        self.toolbox.ask(&agents).await;
    }

    fn find_agent(&self, tenant: &Tenant, name: &AgentName) -> Result<Arc<Pinned>, Failure> {
        let Some(definition) = self.parts.definitions.find(tenant, name) else {
            let known: Vec<String> =
                self.parts.definitions.list(tenant).iter().take(20).map(|known| known.name.to_string()).collect();
            let failure = Failure::new(FailureKind::Invalid, "unknown_agent", format!("there is no agent `{name}`"));
            return Err(match known.is_empty() {
                true => failure.with_hint("the config has no agents; add one under `agents`"),
                false => failure.with_hint(format!("there are: {}", known.join(", "))),
            });
        };
        self.executors.check(&definition.executor)?;
        Ok(self.pins.pin(tenant, &definition, &self.parts.redactor, &self.toolbox))
    }

    /// The definitions among these runs' that the store may not have yet.
    pub(crate) fn new_definitions<'a>(
        &self,
        planned: impl Iterator<Item = &'a Planned>,
    ) -> Vec<drawloom_contract::redact::Redacted<Arc<drawloom_contract::definition::Definition>>> {
        let mut new: Vec<&Arc<Pinned>> = Vec::new();
        for planned in planned {
            let pinned = &planned.pinned;
            if !self.pins.is_stored(&planned.accepted.tenant, &pinned.digest)
                && new.iter().all(|known| known.digest != pinned.digest)
            {
                new.push(pinned);
            }
        }
        new.into_iter().map(|pinned| pinned.definition.clone()).collect()
    }
}

enum Acceptance {
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
            self.engine.gate().break_promise();
        }
    }
}

fn request_key(caller: &Caller, key: &Idempotency, handle: HandleId) -> RequestKey {
    RequestKey {
        tenant: caller.tenant.clone(),
        subject: caller.subject.clone(),
        operation: key.operation,
        key: Digest::of(key.key.as_bytes()),
        body: key.body,
        handle,
    }
}

/// The lane of runs that ask no model is named after their executor, so that caps count them as they count a provider's.
fn asks_no_model(definition: &Definition) -> (ModelName, ModelPlan) {
    (ModelName::new(&definition.executor, ""), ModelPlan::default())
}

fn planned_lane(accepted: &Accepted) -> Lane {
    Lane { tenant: accepted.tenant.clone(), user: accepted.user.clone(), provider: accepted.provider.as_str().into() }
}

/// What the store said to a request.
pub(crate) fn refused(error: &CommitError) -> Failure {
    tracing::warn!(%error, "a request was not accepted");
    Failure::of(error as &dyn Explain)
}

fn wrong_handle(handle: &dyn std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Conflict, "idempotency_key_reused", format!("the idempotency key belongs to {handle}"))
}

/// The tools of `allowed` that the request leaves; what it asks for beyond that is said, not given.
fn narrowed(allowed: &[String], asked: Option<&[String]>, warnings: &mut Vec<String>) -> Vec<String> {
    for pattern in asked.iter().copied().flatten().filter(|pattern| !allowed.iter().any(|tool| matches(pattern, tool)))
    {
        warnings.push(format!("tools: `{pattern}` is not among the agent's tools and was left out"));
    }
    let is_asked = |tool: &&String| asked.is_none_or(|asked| asked.iter().any(|pattern| matches(pattern, tool)));
    let mut tools: Vec<String> = allowed.iter().filter(is_asked).cloned().collect();
    if tools.len() > MOST_TOOLS {
        let beyond = tools.len() - MOST_TOOLS;
        warnings
            .push(format!("tools: {beyond} tools are left out: a run has {MOST_TOOLS} at most; list fewer of them"));
        // Those of drawloom itself come first, then those of sources, each in order.
        tools.sort_by_key(|tool| tool.starts_with("mcp__"));
        tools.truncate(MOST_TOOLS);
        tools.sort_unstable();
    }
    tools
}

/// What was asked, unless the definition allows less.
fn narrower<T: Ord + Copy + std::fmt::Display>(
    name: &str,
    asked: Option<T>,
    limit: T,
    warnings: &mut Vec<String>,
) -> T {
    match asked {
        Some(asked) if asked > limit => {
            warnings.push(format!("{name}: {asked} was asked; the agent allows {limit}"));
            limit
        }
        Some(asked) => asked,
        None => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_tools_those_of_drawloom_itself_stay_and_it_is_said() {
        let allowed: Vec<String> =
            (0..130).map(|number| format!("mcp__a__{number:03}")).chain(["read_file".to_owned()]).collect();
        let mut warnings = Vec::new();
        let tools = narrowed(&allowed, None, &mut warnings);
        assert_eq!(tools.len(), MOST_TOOLS);
        assert!(tools.contains(&"read_file".to_owned()) && !tools.contains(&"mcp__a__127".to_owned()));
        assert_eq!(warnings, ["tools: 3 tools are left out: a run has 128 at most; list fewer of them"]);
        let (mut warnings, asked) = (Vec::new(), ["mcp__a__00*".to_owned(), "x".to_owned()]);
        assert_eq!(narrowed(&allowed, Some(&asked), &mut warnings).len(), 10);
        assert_eq!(warnings, ["tools: `x` is not among the agent's tools and was left out"]);
    }
}
