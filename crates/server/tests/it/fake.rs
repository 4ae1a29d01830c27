//! An engine of scripts: what a run does is told by its agent's name, or by the test.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Caller,
    definition::{Definition, Definitions},
    failure::{Failure, FailureKind, RunError},
    ids::{AgentId, AgentName, BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    journal::RunFilter,
    message::ToolUse,
    model::DeltaKind,
    money::Spent,
    once::HandleId,
    record::{
        Accepted, BatchPlace, Body, CallDone, CallStarted, Outcome, Record, RepeatClass, Seq, Status, StopReason,
        TurnDone, TurnFailed, TurnStarted,
    },
    runs::{Cancelled, Delta, Idempotency, Interest, Item, Live, Load, Replay, Runs, Start, Started, StartedBatch},
    time::Timestamp,
    usage::Usage,
    view::{Patch, RunView},
};
use futures::StreamExt;
use serde_json::json;
use tokio::sync::watch;

/// The text that the agents `quick` and `busy` end with.
pub(crate) const FINAL: &str = "Done: ü.";

#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct State {
    runs: Vec<Run>,
    batches: Vec<(Tenant, BatchId, Vec<RunId>)>,
    keys: Vec<(Idempotency, RunId)>,
    starts: Vec<Start>,
    next: u8,
}

struct Run {
    view: RunView,
    items: Vec<Item>,
}

impl Run {
    fn record(&mut self, body: Body) {
        let seq = self.view.seq + 1;
        let at = Timestamp::from_millis(1_000 + i64::try_from(seq).expect("few records"));
        let record = Record { seq, at, body };
        self.view.apply(Patch::of([&record]));
        self.items.push(Item::Record(Arc::new(record)));
        if self.view.status.is_terminal() {
            self.items.push(Item::Ended(Arc::new(self.view.clone())));
        }
    }

    fn delta(&mut self, turn: u32, offset: u64, text: &str) {
        self.items.push(Item::Delta(Delta { kind: DeltaKind::Text, turn, attempt: 1, offset, text: text.into() }));
    }

    fn finish(&mut self, status: Status) {
        let error = (status != Status::Completed).then(|| RunError::new("stopped", "it was stopped"));
        let stop_reason = (status == Status::Completed).then_some(StopReason::EndTurn);
        let warnings = self.view.warnings.clone();
        let usage = self.view.usage;
        self.record(Body::Finished(Box::new(Outcome {
            status,
            stop_reason,
            error,
            final_text: None,
            usage,
            cost: None,
            warnings,
        })));
    }

    /// A turn that fails once, a tool call, a last turn.
    fn work(&mut self) {
        let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
        let call = ToolUse { id: "toolu_1".into(), name: "Read".into(), input: json!({"path": "a"}) };
        self.record(Body::TurnStarted(TurnStarted { turn: 1, attempt: 1, tools: true, ..TurnStarted::default() }));
        self.delta(1, 0, "not this");
        self.record(Body::TurnFailed(TurnFailed {
            turn: 1,
            attempt: 1,
            error: RunError::new("dropped", "the stream broke"),
            retry_at: Some(Timestamp::from_millis(2_000)),
            counted: true,
            maybe_paid: true,
        }));
        self.record(Body::TurnStarted(TurnStarted { turn: 1, attempt: 2, tools: true, ..TurnStarted::default() }));
        self.delta(1, 0, "Looking");
        self.turn(1, "Looking", vec![call.clone()], usage);
        let started = CallStarted {
            turn: 1,
            index: 0,
            by_executor: false,
            reserved_cost: None,
            tool_use: call,
            repeat: RepeatClass::Safe,
            evidence: None,
            conditions: None,
            masked: false,
        };
        self.record(Body::CallStarted(started));
        let call = self.view.seq;
        self.record(Body::CallDone(CallDone {
            call,
            text: "file".into(),
            is_error: false,
            in_doubt: false,
            cost: None,
        }));
        self.record(Body::TurnStarted(TurnStarted { turn: 2, attempt: 1, tools: true, ..TurnStarted::default() }));
        self.delta(2, 0, "Done: ");
        self.delta(2, 6, "ü.");
        self.turn(2, FINAL, Vec::new(), usage);
    }

    fn turn(&mut self, turn: u32, text: &str, calls: Vec<ToolUse>, usage: Usage) {
        let stop_reason = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        self.record(Body::TurnDone(TurnDone {
            turn,
            text: text.into(),
            thinking: String::new(),
            thoughts: Vec::new(),
            calls,
            masked: vec![],
            stop_reason,
        }));
        self.record(Body::Usage { turn, usage, cost: None, assumed: false });
    }
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), changed: Arc::new(watch::Sender::new(0)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with the lock")
    }

    fn change<T>(&self, run: RunId, what: impl FnOnce(&mut Run) -> T) -> T {
        let answer = {
            let mut state = self.state();
            what(state.runs.iter_mut().find(|known| known.view.run == run).expect("the run is there"))
        };
        self.changed.send_modify(|count| *count += 1);
        answer
    }

    /// Gives a run its slot.
    pub(crate) fn admit(&self, run: RunId) {
        self.change(run, |run| run.record(Body::Admitted { deadline: None, deadline_set: None }));
    }

    /// Lets a run do its work, short of its end.
    pub(crate) fn work(&self, run: RunId) {
        self.change(run, Run::work);
    }

    /// Lets a run say this in its last turn, short of its end.
    pub(crate) fn say(&self, run: RunId, text: &str) {
        self.change(run, |run| run.turn(1, text, Vec::new(), Usage::default()));
    }

    /// Lets a run stream this in a turn, short of the turn's end.
    pub(crate) fn stream(&self, run: RunId, turn: u32, text: &str) {
        self.change(run, |run| {
            run.record(Body::TurnStarted(TurnStarted { turn, attempt: 1, tools: true, ..TurnStarted::default() }));
            run.delta(turn, 0, text);
        });
    }

    /// Ends a run.
    pub(crate) fn finish(&self, run: RunId, status: Status) {
        self.change(run, |run| run.finish(status));
    }

    pub(crate) fn status(&self, run: RunId) -> Status {
        self.state().runs.iter().find(|known| known.view.run == run).expect("the run is there").view.status
    }

    pub(crate) fn run_ids(&self) -> Vec<RunId> {
        self.state().runs.iter().map(|run| run.view.run).collect()
    }

    /// For whom the runs are, in order.
    pub(crate) fn users(&self) -> Vec<String> {
        self.state().runs.iter().map(|run| run.view.user.to_string()).collect()
    }

    pub(crate) fn last_start(&self) -> Start {
        self.state().starts.last().cloned().expect("something was started")
    }

    /// Returns when `condition` holds; runs change often enough to look.
    pub(crate) async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(self) {
            changed.changed().await.expect("the fake lives");
        }
    }

    fn begin(&self, caller: &Caller, start: &Start, batch: Option<BatchPlace>) -> RunId {
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        let run = RunId::from_bytes([number; 16]);
        let agent_id = start.agent_id.clone().unwrap_or_else(|| format!("a_{number}").parse().expect("an agent id"));
        let accepted = Accepted {
            version: "0".into(),
            tenant: caller.tenant.clone(),
            run,
            session: start.session.unwrap_or(SessionId::from_bytes([number; 16])),
            agent_id,
            agent: start.agent.clone(),
            definition: Digest::of(b""),
            executor: "model".into(),
            user: start.user.clone().unwrap_or_else(|| caller.subject.clone()),
            provider: "script".into(),
            model: "m".into(),
            parent: None,
            root: run,
            depth: 0,
            batch,
            segments: start.segments.clone(),
            input: None,
            tools: Vec::new(),
            narrowed_tools: None,
            max_iterations: 5,
            budget_tokens: None,
            budget_cost: None,
            models: Default::default(),
            narrowed_hosts: None,
            narrowed_volumes: None,
            part_budgets: Vec::new(),
            deadline: None,
            deadline_set: None,
            run_timeout_ms: None,
            queue_timeout_ms: None,
            parent_context: start.parent_context.clone(),
            metadata: None,
            warnings: start.warnings.clone(),
        };
        let at = Timestamp::from_millis(1_001);
        let view = RunView::accepted(&accepted, at);
        let record = Record { seq: 1, at, body: Body::Accepted(Box::new(accepted)) };
        state.runs.push(Run { view, items: vec![Item::Record(Arc::new(record))] });
        state.starts.push(start.clone());
        drop(state);
        match start.agent.as_str() {
            "quick" => self.change(run, |run| {
                run.record(Body::Admitted { deadline: None, deadline_set: None });
                run.work();
                run.finish(Status::Completed);
            }),
            "failing" => self.change(run, |run| {
                run.record(Body::Admitted { deadline: None, deadline_set: None });
                run.finish(Status::Failed);
            }),
            _ => self.changed.send_modify(|count| *count += 1),
        }
        run
    }

    fn started(&self, run: RunId, interest: Interest) -> Started {
        let now = self.view(run);
        let live = match interest {
            Interest::None => None,
            Interest::Outcome | Interest::Events => Some(self.live(run, 0, interest)),
        };
        // As accepted: what came since is for whoever listens.
        let view = RunView { status: Status::Queued, ended_at: None, final_text: None, seq: 1, ..now };
        Started { view: Arc::new(view), live }
    }

    fn view(&self, run: RunId) -> RunView {
        self.state().runs.iter().find(|known| known.view.run == run).expect("the run is there").view.clone()
    }

    fn live(&self, run: RunId, after: Seq, interest: Interest) -> Live {
        let items = futures::stream::unfold((self.clone(), 0), move |(fake, next)| async move {
            let mut changed = fake.changed.subscribe();
            loop {
                let item = {
                    let state = fake.state();
                    let items = &state.runs.iter().find(|known| known.view.run == run).expect("it is there").items;
                    match items.get(next) {
                        Some(item) => Some(item.clone()),
                        None if matches!(items.last(), Some(Item::Ended(_))) => return None,
                        None => None,
                    }
                };
                match item {
                    Some(item) => return Some((Ok(item), (fake, next + 1))),
                    None => changed.changed().await.expect("the fake lives"),
                }
            }
        });
        items
            .filter(move |item: &Result<Item, Failure>| {
                let wanted = match item {
                    Ok(Item::Record(record)) => interest == Interest::Events && record.seq > after,
                    Ok(Item::Delta(_)) => interest == Interest::Events,
                    Ok(Item::Ended(_)) | Err(_) => true,
                };
                std::future::ready(wanted)
            })
            .boxed()
    }

    fn find(&self, caller: &Caller, wanted: impl Fn(&RunView) -> bool, code: &'static str) -> Result<RunView, Failure> {
        let state = self.state();
        let found = state
            .runs
            .iter()
            .rev()
            .find(|run| caller.visible().sees(&run.view.tenant, &run.view.user) && wanted(&run.view));
        found
            .map(|run| run.view.clone())
            .ok_or_else(|| Failure::new(FailureKind::NotFound, code, "there is no such run"))
    }

    /// What a start of this agent comes to before it begins.
    fn refuse(start: &Start) -> Result<(), Failure> {
        match start.agent.as_str() {
            "crash" => panic!("the secret of the crash"),
            "full" => Err(Failure::new(FailureKind::Throttled, "backpressure", "the queue is full")),
            "quick" | "failing" | "slow" => Ok(()),
            other => Err(Failure::new(FailureKind::NotFound, "unknown_agent", format!("there is no agent {other}"))),
        }
    }
}

#[async_trait]
impl Runs for Fake {
    async fn start(
        &self,
        caller: &Caller,
        start: Start,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        Self::refuse(&start)?;
        if let Some(key) = &key {
            let known = self.state().keys.iter().find(|(known, _)| known.key == key.key).cloned();
            match known {
                // A run that was there before is followed from the store.
                Some((known, run)) if known == *key => {
                    return Ok(Started { view: Arc::new(self.view(run)), live: None });
                }
                Some(_) => return Err(Failure::new(FailureKind::Conflict, "idempotency_key_reused", "another body")),
                None => {}
            }
        }
        let run = self.begin(caller, &start, None);
        self.state().keys.extend(key.map(|key| (key, run)));
        Ok(self.started(run, interest))
    }

    async fn start_batch(
        &self,
        caller: &Caller,
        starts: Vec<Start>,
        _: Option<Idempotency>,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        starts.iter().try_for_each(Self::refuse)?;
        let batch = BatchId::from_bytes([9; 16]);
        let runs: Vec<RunId> = (0..)
            .zip(&starts)
            .map(|(index, start)| self.begin(caller, start, Some(BatchPlace { batch, index })))
            .collect();
        self.state().batches.push((caller.tenant.clone(), batch, runs.clone()));
        Ok(StartedBatch { batch, runs: runs.into_iter().map(|run| self.started(run, interest)).collect() })
    }

    async fn load(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        self.find(caller, |view| view.run == run, "unknown_run")
    }

    async fn glance(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        Ok(RunView { final_text: None, ..self.load(caller, run).await? })
    }

    async fn load_by_agent_id(&self, caller: &Caller, agent_id: &AgentId) -> Result<RunView, Failure> {
        self.find(caller, |view| view.agent_id == *agent_id, "unknown_agent_id")
    }

    async fn spent(&self, caller: &Caller, run: RunId) -> Result<Spent, Failure> {
        let view = self.load(caller, run).await?;
        Ok(Spent { tokens: view.usage.total(), cost: view.cost.unwrap_or_default() })
    }

    async fn list(&self, caller: &Caller, filter: RunFilter) -> Result<Vec<RunView>, Failure> {
        let state = self.state();
        let views = state.runs.iter().rev().map(|run| &run.view).filter(|view| {
            caller.visible().sees(&view.tenant, &view.user)
                && filter.user.as_ref().is_none_or(|user| *user == view.user)
                && filter.before.is_none_or(|before| view.run < before)
                && (filter.status.is_empty() || filter.status.contains(&view.status))
        });
        Ok(views.take(filter.limit as usize).cloned().collect())
    }

    async fn load_batch(&self, caller: &Caller, batch: BatchId) -> Result<Vec<RunView>, Failure> {
        let state = self.state();
        let found = state.batches.iter().find(|(tenant, known, _)| *tenant == caller.tenant && *known == batch);
        let (_, _, runs) = found
            .cloned()
            .ok_or_else(|| Failure::new(FailureKind::NotFound, "unknown_batch", "there is no such batch"))?;
        drop(state);
        let views: Vec<RunView> = runs.into_iter().map(|run| self.view(run)).collect();
        match views.iter().all(|view| caller.visible().sees(&view.tenant, &view.user)) {
            true => Ok(views),
            false => Err(Failure::new(FailureKind::NotFound, "unknown_batch", "there is no such batch")),
        }
    }

    fn positions(&self, runs: &[RunKey]) -> BTreeMap<RunId, u64> {
        (1..).zip(runs).map(|(position, key)| (key.run, position)).collect()
    }

    async fn follow(&self, caller: &Caller, run: RunId, after: Seq, interest: Interest) -> Result<Live, Failure> {
        self.load(caller, run).await?;
        Ok(self.live(run, after, interest))
    }

    async fn wait(
        &self,
        caller: &Caller,
        run: RunId,
        _: Option<drawloom_contract::time::Instant>,
    ) -> Result<Arc<RunView>, Failure> {
        self.load(caller, run).await?;
        self.until(|fake| fake.status(run).is_terminal()).await;
        Ok(Arc::new(self.view(run)))
    }

    async fn cancel(&self, caller: &Caller, run: RunId, _: Option<String>) -> Result<Cancelled, Failure> {
        let ended = self.load(caller, run).await?.status.is_terminal();
        if !ended {
            self.finish(run, Status::Cancelled);
        }
        Ok(Cancelled { view: self.view(run), cancelled: !ended, cascaded: Vec::new() })
    }

    async fn replay(&self, caller: &Caller, run: RunId) -> Result<Replay, Failure> {
        let view = self.load(caller, run).await?;
        let records = view.seq;
        Ok(Replay { run_id: run, records, steps: Vec::new(), fold_error: None, same_version: true, ok: true })
    }

    async fn find_keyed(&self, _: &Caller, _: &'static str, _: &str) -> Result<Option<HandleId>, Failure> {
        Ok(None)
    }

    fn load_now(&self) -> Load {
        Load { active: 1, queued: 2, max_concurrent_runs: 4, providers: BTreeMap::new() }
    }
}

impl Definitions for Fake {
    fn find(&self, tenant: &Tenant, name: &AgentName) -> Option<Arc<Definition>> {
        Definitions::list(self, tenant).into_iter().find(|definition| definition.name == *name)
    }

    fn list(&self, tenant: &Tenant) -> Vec<Arc<Definition>> {
        if *tenant != Tenant::default_tenant() {
            return Vec::new();
        }
        vec![Arc::new(Definition {
            description: "Ends at once.".into(),
            system_prompt: "secret".into(),
            tools: vec!["Read".into()],
            max_iterations: 5,
            retry_attempts: 1,
            ..Definition::new("quick".parse().expect("an agent name"), "script", "m")
        })]
    }
}
