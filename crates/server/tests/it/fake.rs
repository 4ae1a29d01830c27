//! An engine of scripts: what a run does is told by its agent's name, or by the test. It passes the suites of `Runs`.

mod runs;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Caller,
    definition::{Definition, Definitions},
    failure::RunError,
    ids::{AgentName, BatchId, Digest, RunId, RunKey, SessionId, Tenant, UserId},
    journal::StoreError,
    message::ToolUse,
    model::DeltaKind,
    once::HandleId,
    record::{
        Accepted, BatchPlace, Body, CallDone, CallStarted, Outcome, Record, RepeatClass, Status, StopReason, TurnDone,
        TurnFailed, TurnStarted,
    },
    runs::{Delta, Item, Start},
    time::{Clock, Timestamp},
    usage::Usage,
    view::{Patch, RunView},
};
use drawloom_substrate::evaluations::RunRows;
use drawloom_testkit::suites::runs::TestRuns;
use serde_json::json;
use tokio::sync::watch;

use drawloom_server::GOAL_AGENT;

use crate::setup::clock;

/// The text that the agents `quick` and `busy` end with.
pub(crate) const FINAL: &str = "Done: ü.";

#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<u64>>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    runs: Vec<Run>,
    batches: Vec<(Tenant, BatchId, Vec<RunId>)>,
    keys: BTreeMap<Key, (Digest, HandleId)>,
    starts: Vec<Start>,
    next: u8,
}

/// Whose key it is, of which operation.
type Key = (Tenant, UserId, &'static str, String);

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
            usage: Usage::default(),
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
        Self { state: Arc::default(), changed: Arc::new(watch::Sender::new(0)), clock: clock() }
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
            provider: if start.agent.as_str() == GOAL_AGENT { "goal".into() } else { "script".into() },
            model: "m".into(),
            parent: None,
            root: run,
            depth: 0,
            batch,
            retry: None,
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
            "quick" | GOAL_AGENT => self.change(run, |run| {
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

    fn view(&self, run: RunId) -> RunView {
        self.state().runs.iter().find(|known| known.view.run == run).expect("the run is there").view.clone()
    }
}

#[async_trait]
impl RunRows for Fake {
    async fn find_row(&self, key: &RunKey) -> Result<Option<RunView>, StoreError> {
        let is_it = |run: &&Run| run.view.key() == *key;
        Ok(self.state().runs.iter().find(is_it).map(|run| run.view.clone()))
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
            ..drawloom_testkit::definition("quick", "script", "m")
        })]
    }

    fn unusable(&self, _: &Tenant, _: &AgentName) -> Option<String> {
        None
    }
}

mod conformance {
    use super::*;

    async fn open() -> Box<TestRuns> {
        let fake = Fake::new();
        Box::new(TestRuns { clock: fake.clock.clone(), runs: Arc::new(fake), keeps: Arc::new(()) })
    }

    mod runs {
        drawloom_testkit::runs_suite!(super::open);
    }

    mod seen_runs {
        drawloom_testkit::seen_runs_suite!(super::open);
    }
}
