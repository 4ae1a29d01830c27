//! Goals as callers see them: read from the journals of their runs.

pub(crate) mod successor;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Caller,
    definition::Definition,
    failure::{Failure, FailureKind},
    ids::{RunId, RunKey},
    record::{Body, Status},
    runs::{Interest, Item, Live},
    view::RunView,
};
use drawloom_goal::{Asked, BUDGET_LIMITED, GoalInput, PLAN_DECLINED, Questions, STAGNATED, Story};
use drawloom_wire::goals::{
    BackendList, Diagnosis, Doctor, GoalLanded, GoalLeft, GoalRemoved, GoalResult, GoalStatus, GoalTrigger,
    ListBackends, Orchestrate, OrchestrateLand,
};
use futures::StreamExt as _;
use serde_json::Value;

use crate::{activity, app::App, worktrees::Worktrees};

/// The agent of goals.
pub const GOAL_AGENT: &str = "drawloom/goal";

/// Most characters of a goal in lists.
const SHORT: usize = 120;

/// What the binary knows of goals: programs, directories, repositories.
#[async_trait]
pub trait GoalHost: Send + Sync {
    /// What a request means: backends by name, a directory that exists, all limits. Refuses what this caller may not have.
    fn complete(&self, caller: &Caller, request: &Orchestrate) -> Result<GoalInput, Failure>;

    /// The agent of goals.
    fn agent(&self) -> Arc<Definition>;

    /// A goal was accepted: its folder is kept up to date from here on.
    fn started(&self, key: RunKey);

    /// The folder of a goal.
    fn folder(&self, run: RunId) -> PathBuf;

    /// What workers left of a goal that was cut off, as commits. Waits until its processes are over and the commits are made; a
    /// repeated call answers the same.
    async fn left(&self, key: &RunKey) -> Result<Vec<GoalLeft>, Failure>;

    async fn backends(&self, request: &ListBackends) -> BackendList;

    async fn diagnose(&self, caller: &Caller, request: &Doctor) -> Result<Diagnosis, Failure>;

    /// The changed files of a goal that make tools of the user run something, as they are on its branch. Absent when the repository
    /// cannot be read.
    async fn triggers(&self, goal: &Story, run: RunId) -> Option<Vec<GoalTrigger>>;

    /// Brings the work of a goal to a branch.
    async fn land(&self, caller: &Caller, goal: &Story, request: &OrchestrateLand) -> Result<GoalLanded, Failure>;

    /// Whether this caller may have a goal that goes on from an earlier one.
    fn check_continued(&self, caller: &Caller, goal: &GoalInput) -> Result<(), Failure>;

    /// Whether this caller may change the repository of a goal, and the goal.
    fn check_repository(&self, caller: &Caller, goal: &Story) -> Result<(), Failure>;

    /// Removes the branch, refs, checkouts and folder of a goal that has ended.
    async fn remove(&self, key: &RunKey, goal: &Story) -> Result<GoalRemoved, Failure>;

    /// The goals that have anything outside of the store: a folder, and with it perhaps a branch, refs and checkouts. Their runs are
    /// not deleted, because nothing would find the rest any more.
    async fn kept(&self) -> Result<BTreeSet<RunId>, Failure>;

    /// The checkouts of goals.
    fn worktrees(&self) -> &dyn Worktrees;
}

/// Goals of all callers.
pub struct Goals {
    pub host: Arc<dyn GoalHost>,
    pub questions: Arc<Questions>,
}

/// A goal that was read.
pub(crate) struct Read {
    pub(crate) view: RunView,
    pub(crate) story: Story,
    /// What it asks now.
    pub(crate) asked: Option<Asked>,
    /// What was said to it.
    pub(crate) said: Vec<String>,
    /// The goal that goes on from it.
    pub(crate) continued_by: Option<RunId>,
    /// Whether its branch, refs, checkouts and folder were removed.
    pub(crate) removed: bool,
}

/// Where a goal stands, for those who wait for it.
pub(crate) struct Stand {
    /// How many events it has.
    pub(crate) events: u64,
    /// In words. If it asks something, the questions and how to answer them.
    pub(crate) message: String,
    pub(crate) needs_input: bool,
}

impl Goals {
    /// The goal with its journal so far.
    pub(crate) async fn read(&self, app: &App, caller: &Caller, run: RunId) -> Result<Read, Failure> {
        let view = self.find(app, caller, run).await?;
        let mut story = Story::default();
        let mut live = app.runs.follow(caller, run, 0, Interest::Events).await?;
        while let Some(item) = live.next().await {
            match item? {
                Item::Record(record) => {
                    story.apply(&record);
                    if record.seq >= view.seq {
                        break;
                    }
                }
                Item::Ended(_) => break,
                Item::Delta(_) | Item::Activity(_) => {}
            }
        }
        let asked = match view.status.is_terminal() {
            true => None,
            false => self.questions.find(&key(&view)).await?.filter(|asked| asked.answers.is_none()),
        };
        let said = self.questions.said(&key(&view)).await?.texts;
        let continued_by = match view.status.is_terminal() {
            true => self.questions.successor(&key(&view)).await?,
            false => None,
        };
        let removed = view.status.is_terminal() && self.questions.is_removed(&key(&view)).await?;
        Ok(Read { view, story, asked, said, continued_by, removed })
    }

    /// The run, if it is a goal.
    pub(crate) async fn find(&self, app: &App, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        let view = app.runs.load(caller, run).await?;
        match is_goal(&view) {
            true => Ok(view),
            false => Err(Failure::new(FailureKind::NotFound, "not_a_goal", format!("run {run} is not a goal"))
                .with_hint("orchestrate_list lists goals")),
        }
    }

    /// Returns when the goal has ended or asks something.
    pub(crate) async fn settled(&self, app: &App, caller: &Caller, run: RunId) -> Result<(), Failure> {
        let view = self.find(app, caller, run).await?;
        let (key, mut live) = (key(&view), app.runs.follow(caller, run, 0, Interest::Events).await?);
        loop {
            if parked_or_ended(&mut live).await? {
                return Ok(());
            }
            if self.questions.find(&key).await?.is_some_and(|asked| asked.answers.is_none()) {
                return Ok(());
            }
        }
    }

    pub(crate) fn status(&self, app: &App, read: &Read) -> GoalStatus {
        let status = read.story.status();
        let goal = read.story.result()["goal"].as_str().unwrap_or_default().to_owned();
        let (repository, branch) = read.story.place();
        GoalStatus {
            run_id: read.view.run,
            run_dir: self.host.folder(read.view.run),
            goal: shortened(&goal),
            repository,
            branch,
            status: word(read).into(),
            running: status.running,
            phase: status.phase,
            iteration: status.iteration,
            events: status.events,
            started_at: status.started_at,
            completed: status.completed,
            stop_reason: status.stop_reason,
            continues: read.story.continues(),
            continued_by: read.continued_by,
            removed: read.removed,
            workers: activity::workers(app, read.view.run),
            said: read.said.clone(),
            questions: read.asked.as_ref().map(|asked| asked.questions.clone()).unwrap_or_default(),
            success_criteria: read.asked.as_ref().map(|asked| asked.success_criteria.clone()),
            confirms_criteria: read.asked.as_ref().is_some_and(|asked| asked.confirms_criteria),
            plan: read.asked.as_ref().and_then(|asked| asked.plan.clone()),
            token: read.asked.as_ref().map(|asked| asked.token.clone()),
        }
    }

    /// Where a goal stands.
    pub(crate) async fn stand(&self, app: &App, caller: &Caller, run: RunId) -> Result<Stand, Failure> {
        let read = self.read(app, caller, run).await?;
        let stands = match &read.asked {
            Some(asked) => asks(asked),
            None => read.story.progress(),
        };
        Ok(Stand {
            events: read.story.status().events,
            message: format!("goal {run}: {stands}{}", activity::in_words(app, run)),
            needs_input: read.asked.is_some(),
        })
    }

    /// Reads a goal and says what came of it.
    pub(crate) async fn result_of(&self, app: &App, caller: &Caller, run: RunId) -> Result<GoalResult, Failure> {
        self.result(&self.read(app, caller, run).await?).await
    }

    /// What came of a goal, or where it stands.
    pub(crate) async fn result(&self, read: &Read) -> Result<GoalResult, Failure> {
        let folder = self.host.folder(read.view.run);
        let mut value = read.story.result();
        let ended = read.view.status.is_terminal();
        let word = word(read);
        let run = read.view.run;
        let message = match (word, &read.asked) {
            ("needs_input", Some(asked)) => match &asked.plan {
                Some(_) => "approve or decline the plan: orchestrate_resume with the token and approved".into(),
                None => format!("answer {} question(s) with orchestrate_resume and the token", asked.questions.len()),
            },
            ("running", _) => format!("follow it with orchestrate_tail, or: drawloom goal tail {run}"),
            _ => String::new(),
        };
        let events = folder.join("events.jsonl");
        for (name, field) in [
            ("status", Value::from(word)),
            ("run_id", serde_json::to_value(run).unwrap_or_default()),
            ("run_dir", serde_json::to_value(&folder).unwrap_or_default()),
            ("events_path", serde_json::to_value(&events).unwrap_or_default()),
            ("tail_command", format!("drawloom goal tail {run}").into()),
            ("message", message.into()),
            ("continued_by", serde_json::to_value(read.continued_by).unwrap_or_default()),
        ] {
            value[name] = field;
        }
        if let Some(asked) = &read.asked {
            value["summary"] = asks(asked).into();
            value["questions"] = asked.questions.clone().into();
            value["plan"] = asked.plan.clone().unwrap_or_default();
            value["token"] = asked.token.clone().into();
            value["success_criteria"] = asked.success_criteria.clone().into();
        }
        if read.story.is_cut_off() {
            match self.host.left(&key(&read.view)).await {
                Ok(left) => {
                    if let Some(worktree) = value.get_mut("worktree").and_then(Value::as_object_mut) {
                        worktree.insert("left".into(), serde_json::to_value(left).unwrap_or_default());
                    }
                }
                Err(failure) => {
                    let warning = format!("what its workers left is not kept as commits yet: {}", failure.message);
                    if let Some(warnings) = value["warnings"].as_array_mut() {
                        warnings.push(warning.into());
                    }
                }
            }
        }
        if ended
            && !read.story.is_compared()
            && let Some(triggers) = self.host.triggers(&read.story, run).await
            && let Some(worktree) = value.get_mut("worktree").and_then(Value::as_object_mut)
        {
            worktree.insert("needs_acceptance".into(), serde_json::to_value(triggers).unwrap_or_default());
        }
        if !ended {
            for name in ["completed", "final_output"] {
                value[name] = Value::Null;
            }
        }
        serde_json::from_value(value)
            .map_err(|error| Failure::new(FailureKind::Bug, "bug", format!("a goal's result cannot be read: {error}")))
    }
}

/// What a goal asks, and how to answer.
fn asks(asked: &Asked) -> String {
    let token = &asked.token;
    if asked.plan.is_some() {
        return format!(
            "it waits for the approval of its plan, which orchestrate_status shows; answer with orchestrate_resume, token {token} \
             and approved"
        );
    }
    let numbered = asked.questions.iter().enumerate().map(|(index, question)| format!(" {}. {question}", index + 1));
    let questions = match asked.questions.is_empty() {
        true => format!(" are these criteria right? {}", asked.success_criteria),
        false => numbered.collect(),
    };
    format!("it asks:{questions} Answer with orchestrate_resume, token {token} and answers")
}

/// A goal in a word.
fn word(read: &Read) -> &'static str {
    let code = read.view.error.as_ref().map(|error| error.code.as_str());
    match (read.view.status, code) {
        (Status::Completed, _) => "completed",
        (Status::Cancelled, _) => "cancelled",
        (Status::Failed | Status::TimedOut, Some(BUDGET_LIMITED | STAGNATED | PLAN_DECLINED)) => "stopped",
        (Status::Failed | Status::TimedOut, _) => "failed",
        (Status::Queued | Status::Running | Status::Waiting, _) if read.asked.is_some() => "needs_input",
        (Status::Queued | Status::Running | Status::Waiting, _) => "running",
    }
}

/// Whether a run is a goal, by the agent and the executor that it ran on.
pub(crate) fn is_goal(view: &RunView) -> bool {
    view.agent.as_str() == GOAL_AGENT && view.provider == drawloom_goal::GOAL
}

pub(crate) fn key(view: &RunView) -> RunKey {
    RunKey { tenant: view.tenant.clone(), run: view.run }
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// Reads on until the run is parked, or has ended: then it is true.
async fn parked_or_ended(live: &mut Live) -> Result<bool, Failure> {
    loop {
        match live.next().await {
            Some(Ok(Item::Record(record))) if matches!(record.body, Body::Parked { .. }) => return Ok(false),
            Some(Ok(Item::Ended(_))) | None => return Ok(true),
            Some(Ok(Item::Record(_) | Item::Delta(_) | Item::Activity(_))) => {}
            Some(Err(failure)) => return Err(failure),
        }
    }
}

/// How long one request can wait for events: shorter than hosts wait for an answer.
pub(crate) const LONG_POLL: Duration = Duration::from_secs(50);
