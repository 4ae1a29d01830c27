//! A second executor: its own tools, notes, children, waits and result, and no model. Its process dies at every commit.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    definition::Definition,
    executor::{AskedBy, CallPlan, Drive, Effect, Executor},
    failure::FailureKind,
    journal::{CommitError, Committed, Entry, Journal, StoreError},
    log::Log as _,
    message::ToolUse,
    record::{Body, Collect, Outcome, PartBudget, Record, Status},
    run::Run,
    runs::{Interest, Runs, Start},
    time::{Clock as _, Timestamp},
    tool::{CallResult, MAX_RESULT_BYTES, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Woken},
    usage::Usage,
    values::KeyValue as _,
    view::RunView,
    wait::{Cause, Wait},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    house::{House, Plan, Wall, ask},
    resuming::die_after,
    waiting::{Late, count, log, post, value},
};

/// Notes its input, measures it with a tool of its own, asks two agents, meets others by a log, a value and a time, waits for a
/// moment, and says what came of it.
struct Steps(Late, Option<Arc<Death>>);

impl Executor for Steps {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(State::default())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Measure), Arc::new(Consult), Arc::new(Meet(self.0.clone(), self.1.clone()))]
    }
}

#[derive(Default)]
struct State {
    input: String,
    noted: Option<(u32, Timestamp)>,
    results: Vec<String>,
    started: u32,
    waited: bool,
}

impl Drive for State {
    fn apply(&mut self, _: &Run, record: &Record) {
        match &record.body {
            Body::Accepted(accepted) => {
                self.input = accepted.input.as_ref().map(ToString::to_string).unwrap_or_default();
            }
            Body::Note { version, value } => {
                assert_eq!(value["input"], self.input.as_str());
                self.noted = Some((*version, record.at));
            }
            Body::CallStarted(started) => {
                assert!(started.by_executor);
                self.started = started.index + 1;
            }
            Body::CallDone(done) => self.results.push(done.text.clone()),
            Body::Parked { wait } if wait.until.is_some() => self.waited = true,
            _ => {}
        }
    }

    fn decide(&self, run: &Run, _: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() {
            return Vec::new();
        }
        let Some((_, begun)) = self.noted else {
            return vec![Effect::Note { version: 7, value: json!({ "input": self.input }) }];
        };
        let call = |index: u32, name: &str, input: Value| {
            let tool_use = ToolUse { id: format!("own_{index}"), name: name.into(), input };
            Effect::Call(CallPlan { turn: 0, index, tool_use, masked: false, asked_by: AskedBy::Executor })
        };
        match (self.started, self.results.len()) {
            (0, 0) => vec![call(0, "Measure", json!({ "text": self.input }))],
            (1, 1) => vec![call(1, "Consult", json!({ "prompt": self.results[0] }))],
            (2, 2) => vec![call(2, "Meet", json!({ "by": "log" }))],
            (3, 3) => vec![call(3, "Meet", json!({ "by": "value" })), call(4, "Meet", json!({ "by": "time" }))],
            (4, _) => vec![call(4, "Meet", json!({ "by": "time" }))],
            (5, 5) if !self.waited => vec![Effect::Wait { until: begun.after(Duration::from_millis(40)) }],
            (5, 5) => vec![Effect::Finish(Box::new(Outcome {
                status: Status::Completed,
                stop_reason: None,
                error: None,
                final_text: Some(self.results.join(" | ")),
                usage: run.view.usage,
                cost: run.view.cost,
                warnings: run.accepted.warnings.clone(),
            }))],
            _ => Vec::new(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

struct Measure;

#[async_trait]
impl Tool for Measure {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Text>("Measure", "Says how long a text is.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Text { text } = serde_json::from_value(input)?;
        let usage = Usage { input_tokens: 3, ..Usage::default() };
        Ok(Step::Done(CallResult { text: format!("{} bytes", text.len()), cost: None, usage }))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    prompt: String,
}

struct Consult;

#[async_trait]
impl Tool for Consult {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Prompt>("Consult", "Asks two agents.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Prompt { prompt } = serde_json::from_value(input)?;
        let start = |agent: &str| Start {
            input: Some(json!({ "for": agent })),
            tools: Some(vec!["Pro*".into()]),
            volumes: Some(Vec::new()),
            budget_tokens: Some(50_000),
            max_iterations: Some(3),
            timeout_ms: Some(3_600_000),
            ..Start::new(agent.parse().expect("a name"), prompt.clone())
        };
        Ok(Step::Spawn { starts: vec![start("alice"), start("bob")], collect: Collect::Many })
    }
}

#[derive(Deserialize, JsonSchema)]
struct By {
    by: String,
}

/// Waits until a message, a value or a time is there, and counts itself once. What it waits for comes from a task that dies with the
/// process, so after some time it brings it itself.
struct Meet(Late, Option<Arc<Death>>);

#[async_trait]
impl Tool for Meet {
    fn card(&self) -> ToolCard {
        ToolCard::new::<By>("Meet", "Meets others.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let By { by } = serde_json::from_value(input)?;
        let store = self.0.get();
        let failed = |error: StoreError| ToolError::Failed(error.to_string());
        let bring = {
            let (store, by) = (store.clone(), by.clone());
            async move {
                match by.as_str() {
                    "log" => drop(post(&*store, "meeting", "hello", None).await),
                    "value" => drop(count(&*store, "meeting", |_| None).await),
                    _ => {}
                }
            }
        };
        let is_there = match by.as_str() {
            "log" => store.head(&log("meeting")).await.map_err(failed)? > 0,
            "value" => store.find_value(&value("meeting"), Timestamp::from_millis(1)).await.map_err(failed)?.is_some(),
            _ => context.woken == Some(Woken::ByTime),
        };
        if is_there {
            self.die(true).await;
            let number = count(&*store, "met", |next| Some(context.once(0, json!(next)))).await?;
            self.die(false).await;
            return Ok(Step::done(format!("met {by} as number {number}")));
        }
        match context.woken {
            Some(Woken::ByTime) => bring.await,
            _ => drop(tokio::spawn(bring)),
        }
        let until = Some(Wall.wall().after(Duration::from_millis(20)));
        Ok(Step::Wait(match by.as_str() {
            "log" => Wait { on: vec![Cause::Log { log: log("meeting"), after: 0 }], until },
            "value" => Wait { on: vec![Cause::Value { key: value("meeting"), revision: 0 }], until },
            _ => Wait { on: Vec::new(), until },
        }))
    }
}

impl Meet {
    /// Dies before or after its effect, when that is due.
    async fn die(&self, before: bool) {
        if let Some(death) = &self.1
            && death.is_due(before)
        {
            death.dead.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

fn plan() -> Plan {
    plan_dying(None)
}

fn plan_dying(death: Option<Arc<Death>>) -> Plan {
    let late = Late::default();
    let mut plan = Plan::new(json!([{ "text": "{{agent}} heard {{prompt}}" }])).agent("worker", |definition| {
        definition.executor = "steps".into();
        (definition.provider, definition.model) = (String::new(), String::new());
    });
    let steps = Steps(late.clone(), death);
    plan.executors = BTreeMap::from([("steps".to_owned(), Arc::new(steps) as Arc<dyn Executor>)]);
    plan.seams = late;
    plan
}

fn start() -> Start {
    Start { input: Some(json!({ "a": 1 })), ..ask("worker", "go") }
}

async fn check(house: &House, view: &RunView) {
    assert_eq!((view.status, view.error.as_ref()), (Status::Completed, None));
    let text = view.final_text.as_deref().expect("a result");
    assert!(text.starts_with("7 bytes | ") && text.contains("alice heard 7 bytes"), "{text}");
    assert!(text.contains("bob heard 7 bytes"), "{text}");
    assert_eq!((view.provider.as_str(), view.model.as_str()), ("steps", ""));
    assert_eq!(view.usage.total(), 3, "what a call used is counted once");
    let children = house.children(view).await;
    assert_eq!(children.len(), 2, "each child was started once");
    for child in &children {
        let Body::Accepted(accepted) = &house.journal(child).await[0].body else { panic!("a beginning") };
        assert_eq!(accepted.input, Some(json!({ "for": child.agent })));
        assert_eq!((&*accepted.tools, accepted.max_iterations), (&["Probe".to_owned()][..], 3));
        let budget = PartBudget { run: child.run, tokens: Some(50_000), cost: None };
        assert_eq!((&accepted.part_budgets, accepted.narrowed_volumes.as_deref()), (&vec![budget], Some(&[][..])));
        assert!(accepted.deadline.is_some());
    }
    let met = house.store.find_value(&value("met"), Timestamp::from_millis(1)).await.expect("a read");
    assert_eq!(met.map(|kept| kept.value), Some(json!(3)), "each meeting was counted once");
    assert_eq!(text.matches("met ").count(), 3, "{text}");
    let replay = house.engine.replay(&house.caller, view.run).await.expect("a replay");
    assert!(replay.ok && replay.same_version, "{replay:?}");
    assert!(replay.steps.iter().any(|step| step.recorded.starts_with("note ")), "{replay:?}");
}

#[tokio::test]
async fn a_run_that_asks_no_model_uses_its_executors_tools_notes_children_and_waits() {
    let house = House::new(plan());
    let view = house.finish(house.start(start(), Interest::Outcome).await).await;
    check(&house, &view).await;
    let kinds = house.kinds(&view).await;
    let count = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
    assert_eq!(
        (count("note"), count("call_started"), count("call_done"), count("finished")),
        (1, 5, 5, 1),
        "{kinds:?}"
    );
    assert!(count("call_waiting") >= 4 && count("parked") >= 4, "{kinds:?}");
    assert_eq!(view.deadline, None, "the usual deadline is for runs of a model");
}

#[tokio::test]
async fn no_model_can_call_the_tools_of_an_executor() {
    let rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Measure", "input": { "text": "x" } }] }, { "text": "{{last}}" } ]);
    let house = House::new(Plan { rules, ..plan() }.agent("alice", |definition| definition.tools = vec!["*".into()]));
    let view = house.run("alice", "x").await;
    let text = view.final_text.expect("a text");
    assert!(text.starts_with("unknown tool \"Measure\"; "), "{text}");
}

/// Calls its own tool once and finishes with the result.
struct Reads;

impl Executor for Reads {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(ReadsState::default())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Produce)]
    }
}

#[derive(Default)]
struct ReadsState {
    input: Value,
    started: bool,
    result: Option<(String, bool)>,
}

impl Drive for ReadsState {
    fn apply(&mut self, _: &Run, record: &Record) {
        match &record.body {
            Body::Accepted(accepted) => self.input = accepted.input.clone().unwrap_or_default(),
            Body::CallStarted(_) => self.started = true,
            Body::CallDone(done) => self.result = Some((done.text.clone(), done.is_error)),
            _ => {}
        }
    }

    fn decide(&self, run: &Run, _: Timestamp) -> Vec<Effect> {
        match &self.result {
            _ if run.view.status.is_terminal() => Vec::new(),
            None if self.started => Vec::new(),
            None => {
                let tool_use = ToolUse { id: "own".into(), name: "Produce".into(), input: self.input.clone() };
                let asked_by = AskedBy::Executor;
                vec![Effect::Call(CallPlan { turn: 0, index: 0, tool_use, masked: false, asked_by })]
            }
            Some((text, is_error)) => vec![Effect::Finish(Box::new(Outcome {
                status: if *is_error { Status::Failed } else { Status::Completed },
                stop_reason: None,
                error: None,
                final_text: Some(text.clone()),
                usage: run.view.usage,
                cost: run.view.cost,
                warnings: Vec::new(),
            }))],
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Bytes {
    bytes: usize,
}

struct Produce;

#[async_trait]
impl Tool for Produce {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Bytes>("Produce", "Returns a text of a length.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Bytes { bytes } = serde_json::from_value(input)?;
        Ok(Step::Done(CallResult { text: "x".repeat(bytes), cost: None, usage: Usage::default() }))
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_for_an_executor_is_an_error_and_not_cut() {
    let mut plan = Plan::new(json!([])).agent("worker", |definition| {
        definition.executor = "reads".into();
        (definition.provider, definition.model) = (String::new(), String::new());
    });
    plan.executors = BTreeMap::from([("reads".to_owned(), Arc::new(Reads) as Arc<dyn Executor>)]);
    let house = House::new(plan);
    let run = async |bytes: usize| {
        let start = Start { input: Some(json!({ "bytes": bytes })), ..ask("worker", "go") };
        let started = house.start(start, Interest::Outcome).await;
        let view = house.finish(started).await;
        (view.status, view.final_text.expect("the result"))
    };
    let (status, text) = run(MAX_RESULT_BYTES).await;
    assert_eq!((status, text.len()), (Status::Completed, MAX_RESULT_BYTES));
    let (status, text) = run(MAX_RESULT_BYTES + 1).await;
    assert_eq!(status, Status::Failed, "{} bytes", text.len());
    assert_eq!(text, "result_too_large: the result of Produce has 1048577 bytes, and the limit is 1048576");
}

#[test]
fn an_executor_that_is_not_there_is_refused_and_ends_what_needs_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let view = die_at(directory.path(), Dies { after: 2, before_commit: false }).expect("it dies");
    let directory = directory.path().to_owned();
    die_after(async move {
        let house = House::at(&directory, Plan { executors: BTreeMap::new(), ..plan() });
        let Err(refused) = house.engine.start(&house.caller, start(), None, Interest::None).await else {
            panic!("there is no such executor")
        };
        assert_eq!((refused.kind, refused.code), (FailureKind::Invalid, "unknown_executor"));
        house.engine.resume().await.expect("resumed");
        let ended = house.engine.wait(&house.caller, view.run, None).await.expect("an end");
        let error = ended.error.as_ref().expect("an error");
        assert_eq!((ended.status, error.code.as_str()), (Status::Failed, "unknown_executor"));
    });
}

/// Where a process dies: at its `after`th commit or effect, before or after that is true.
#[derive(Clone, Copy)]
struct Dies {
    after: usize,
    before_commit: bool,
}

/// Counts commits and effects, and ends the process at one of them.
struct Death {
    at: Dies,
    passed: AtomicUsize,
    dead: Notify,
}

impl Death {
    fn new(at: Dies) -> Arc<Self> {
        Arc::new(Self { at, passed: AtomicUsize::new(0), dead: Notify::new() })
    }

    /// Whether to die here, before or after something is true.
    fn is_due(&self, before: bool) -> bool {
        let passed = match before {
            true => self.passed.fetch_add(1, Ordering::SeqCst) + 1,
            false => self.passed.load(Ordering::SeqCst),
        };
        passed > self.at.after || (passed == self.at.after && self.at.before_commit == before)
    }
}

/// A journal that never answers from its last commit on.
struct Dying {
    journal: Arc<dyn Journal>,
    death: Arc<Death>,
}

#[async_trait]
impl Journal for Dying {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        if self.death.is_due(true) {
            self.death.dead.notify_one();
            return std::future::pending().await;
        }
        let committed = self.journal.commit(entry).await;
        if self.death.is_due(false) {
            self.death.dead.notify_one();
            return std::future::pending().await;
        }
        committed
    }
}

/// Starts a run in a process that dies after it was accepted; nothing when the run ended before.
fn die_at(directory: &Path, at: Dies) -> Option<RunView> {
    let directory = directory.to_owned();
    die_after(async move {
        let death = Death::new(at);
        let mut plan = plan_dying(Some(death.clone()));
        let dying = death.clone();
        plan.wrap_journal = Arc::new(move |journal| Arc::new(Dying { journal, death: dying.clone() }));
        let house = House::at(&directory, plan);
        let started = house.start(start(), Interest::Outcome).await;
        let view = (*started.view).clone();
        tokio::select! {
            biased;
            () = death.dead.notified() => Some(view),
            _ = house.finish(started) => None,
        }
    })
}

#[test]
fn it_goes_on_after_its_process_died_at_any_commit() {
    let mut deaths = 0;
    for before_commit in [true, false] {
        for after in 2.. {
            let directory = tempfile::tempdir().expect("a directory");
            let Some(view) = die_at(directory.path(), Dies { after, before_commit }) else { break };
            deaths += 1;
            let directory = directory.path().to_owned();
            die_after(async move {
                let house = House::at(&directory, plan());
                house.engine.resume().await.expect("resumed");
                let ended = house.engine.wait(&house.caller, view.run, None).await.expect("an end");
                check(&house, &ended).await;
            });
        }
    }
    assert!(deaths >= 30, "{deaths} deaths are not every commit");
}
