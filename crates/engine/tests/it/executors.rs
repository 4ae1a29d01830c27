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
    journal::{CommitError, Committed, Entry, Journal},
    message::ToolUse,
    record::{Body, Collect, Outcome, Record, Status},
    run::Run,
    runs::{Interest, Runs, Start},
    time::Timestamp,
    tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
    view::RunView,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    house::{House, Plan, ask},
    resuming::die_after,
};

/// Notes its input, measures it with a tool of its own, asks two agents, waits for a moment, and says what came of it.
struct Steps;

impl Executor for Steps {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(State::default())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Measure), Arc::new(Consult)]
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
        if run.status.is_terminal() {
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
            (2, 2) if !self.waited => vec![Effect::Wait { until: begun.after(Duration::from_millis(40)) }],
            (2, 2) => vec![Effect::Finish(Box::new(Outcome {
                status: Status::Completed,
                stop_reason: None,
                error: None,
                final_text: Some(self.results.join(" | ")),
                usage: run.usage,
                cost: run.cost,
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
        Ok(Step::done(format!("{} bytes", text.len())))
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
        let start = |agent: &str| Start::new(agent.parse().expect("a name"), prompt.clone());
        Ok(Step::Spawn { starts: vec![start("alice"), start("bob")], collect: Collect::Many })
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new(json!([{ "text": "{{agent}} heard {{prompt}}" }])).agent("worker", |definition| {
        definition.executor = "steps".into();
        (definition.provider, definition.model) = (String::new(), String::new());
    });
    plan.executors = BTreeMap::from([("steps".to_owned(), Arc::new(Steps) as Arc<dyn Executor>)]);
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
    let children = house.children(view).await;
    assert_eq!(children.len(), 2, "each child was started once");
    let replay = house.engine.replay(&house.caller, view.run).await.expect("a replay");
    assert!(replay.ok && replay.same_version, "{replay:?}");
    assert!(replay.steps.iter().any(|step| step.recorded.starts_with("note ")), "{replay:?}");
}

#[tokio::test]
async fn a_run_that_asks_no_model_uses_its_executors_tools_notes_children_and_waits() {
    let house = House::new(plan());
    let view = house.finish(house.start(start(), Interest::Outcome).await).await;
    check(&house, &view).await;
    assert_eq!(
        house.kinds(&view).await,
        [
            "accepted",
            "admitted",
            "note",
            "call_started",
            "call_done",
            "call_started",
            "call_waiting",
            "parked",
            "admitted",
            "call_done",
            "parked",
            "admitted",
            "finished"
        ]
    );
    assert_eq!(view.deadline, None, "the usual deadline is for runs of a model");
}

#[tokio::test]
async fn no_model_can_call_the_tools_of_an_executor() {
    let rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Measure", "input": { "text": "x" } }] }, { "text": "{{last}}" } ]);
    let house = House::new(Plan { rules, ..plan() }.agent("alice", |definition| definition.tools = vec!["*".into()]));
    let view = house.run("alice", "x").await;
    let text = view.final_text.expect("a text");
    assert!(text.starts_with("there is no tool `Measure` for this agent"), "{text}");
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

/// Where a process dies: at its `after`th commit, before or after that is true.
#[derive(Clone, Copy)]
struct Dies {
    after: usize,
    before_commit: bool,
}

/// A journal that never answers from its last commit on.
struct Dying {
    journal: Arc<dyn Journal>,
    at: Dies,
    commits: AtomicUsize,
    dead: Arc<Notify>,
}

#[async_trait]
impl Journal for Dying {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if number >= self.at.after {
            if number == self.at.after && !self.at.before_commit {
                self.journal.commit(entry).await?;
            }
            self.dead.notify_one();
            return std::future::pending().await;
        }
        self.journal.commit(entry).await
    }
}

/// Starts a run in a process that dies after it was accepted; nothing when the run ended before.
fn die_at(directory: &Path, at: Dies) -> Option<RunView> {
    let directory = directory.to_owned();
    die_after(async move {
        let dead = Arc::<Notify>::default();
        let died = dead.clone();
        let mut plan = plan();
        plan.wrap_journal =
            Arc::new(move |journal| Arc::new(Dying { journal, at, commits: AtomicUsize::new(0), dead: dead.clone() }));
        let house = House::at(&directory, plan);
        let started = house.start(start(), Interest::Outcome).await;
        let view = (*started.view).clone();
        tokio::select! {
            biased;
            () = died.notified() => Some(view),
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
    assert!(deaths >= 12, "{deaths} deaths are not every commit");
}
