//! What callers are told of a goal: its status while it runs, and its result. Both are read from the journal alone.

use std::{collections::BTreeSet, path::PathBuf};

use drawloom_contract::{
    failure::RunError,
    money::{Amount, Cost},
    record::{Body, Outcome, Record, Status},
    time::Timestamp,
    usage::Usage,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    event::{Projection, is_error, stop_reason, without_nulls},
    state::{Noted, Reply, State},
    workspace::{ChangedFolder, Cleaned, CommandResult, Diffed, Prepared, Trigger, Verified},
};

/// A goal's journal, read from its beginning.
#[derive(Default)]
pub struct Story {
    pub(crate) state: State,
    events: u64,
    projection: Projection,
    outcome: Option<Outcome>,
    /// When the last record was written.
    pub(crate) last: Option<Timestamp>,
}

/// The files that differ from the base.
struct ChangedFiles {
    files: BTreeSet<String>,
    /// How many there are, also those that are not listed.
    count: u64,
    /// Those that are not listed.
    folders: Vec<ChangedFolder>,
}

/// Where a goal stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GoalStatus {
    pub running: bool,
    /// `idle`, `intake`, `decompose`, `execute`, `verify`, `review`, `done` or `failed`.
    pub phase: String,
    pub iteration: u32,
    pub events: u64,
    pub started_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

impl Story {
    /// Takes in the next record; the event that it is, if it is one.
    pub fn apply(&mut self, record: &Record) -> Option<crate::event::LoopEvent> {
        self.state.apply(record);
        self.last = Some(record.at);
        if let Body::Finished(outcome) = &record.body {
            self.outcome = Some((**outcome).clone());
        }
        let mut event = self.projection.apply(record)?;
        self.events += 1;
        if event.kind == "run_finished" {
            event.data["summary"] = self.summary().into();
        }
        Some(event)
    }

    /// The story of these records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut story = Self::default();
        for record in records {
            story.apply(record);
        }
        story
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    pub fn status(&self) -> GoalStatus {
        let phase = match &self.outcome {
            Some(outcome) if outcome.status == Status::Completed => "done".to_owned(),
            Some(_) => "failed".to_owned(),
            None => self.phase(),
        };
        GoalStatus {
            running: self.outcome.is_none(),
            phase,
            iteration: self.iteration(),
            events: self.events,
            started_at: self.state.began.map(|at| at.as_millis() as f64 / 1000.0),
            completed: self.outcome.as_ref().map(|outcome| outcome.status == Status::Completed),
            stop_reason: self.stop_reason(),
        }
    }

    fn phase(&self) -> String {
        let latest =
            self.state.notes.values().filter(|noted| noted.kind == "phase_changed").max_by_key(|noted| noted.number);
        match latest {
            Some(noted) => noted.data["to"].as_str().unwrap_or("idle").to_owned(),
            None if self.state.notes.contains_key("intake") => "intake".into(),
            None => "idle".into(),
        }
    }

    pub fn iteration(&self) -> u32 {
        self.state.notes.values().map(|noted| noted.iteration).max().unwrap_or_default()
    }

    pub fn stop_reason(&self) -> Option<String> {
        let outcome = self.outcome.as_ref()?;
        Some(stop_reason(outcome.status, outcome.error.as_ref().map(|error| error.message.as_str())))
    }

    /// The error that ended it, when that was neither done nor a guard.
    pub fn error(&self) -> Option<&RunError> {
        self.outcome.as_ref()?.error.as_ref().filter(|error| is_error(&error.code))
    }

    /// What all roles used.
    pub fn spent(&self) -> (Usage, Cost) {
        (self.state.usage, self.state.cost)
    }

    /// What a worker answered in the call whose files have this name.
    pub fn output(&self, label: &str) -> Option<String> {
        let step = self.state.steps.values().find(|step| step.input["label"] == label)?;
        let end = step.end.as_ref()?;
        Reply::of(&end.text, end.is_error).ok().map(|reply| reply.output)
    }

    /// The goal's branch and base, once they are known.
    pub fn prepared(&self) -> Option<Prepared> {
        let end = self.state.steps.get("prepare")?.end.as_ref()?;
        serde_json::from_str(&end.text).ok().filter(|_| !end.is_error)
    }

    /// The head of the goal's branch, and what verification said of it, if it was verified.
    pub fn head(&self) -> Option<(String, Option<Verified>)> {
        // Only merges move the branch. Without one, the head is what the iteration began with.
        let merged = self.noted("merged").pop().and_then(|noted| noted.data["commit"].as_str());
        let ended = || (1..=self.iteration()).rev().find_map(|number| self.state.notes.get(&format!("i{number}/end")));
        let began = self.prepared().and_then(|prepared| prepared.head);
        let head = merged.or_else(|| ended()?.data["head"].as_str()).or(began.as_deref())?;
        let is_about = |number: &u32| {
            let step = self.state.steps.get(&format!("i{number}/verify"));
            step.is_some_and(|step| step.input["verify"]["commit"] == head)
        };
        let verified = (1..=self.iteration()).rev().find(is_about).and_then(|number| self.verified(number));
        Some((head.to_owned(), verified))
    }

    fn verified(&self, iteration: u32) -> Option<Verified> {
        let end = self.state.steps.get(&format!("i{iteration}/verify"))?.end.as_ref()?;
        serde_json::from_str(&end.text).ok().filter(|_| !end.is_error)
    }

    /// The events of a kind, in their order.
    fn noted(&self, kind: &str) -> Vec<&Noted> {
        let mut noted: Vec<&Noted> = self.state.notes.values().filter(|noted| noted.kind == kind).collect();
        noted.sort_by_key(|noted| noted.number);
        noted
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let status = self.status();
        let how = match status.completed {
            Some(true) => "completed",
            Some(false) if self.error().is_some() => "failed",
            Some(false) => "stopped",
            None => "running",
        };
        let plural = if status.iteration == 1 { "" } else { "s" };
        let mut text = format!("{how} in {} iteration{plural}", status.iteration);
        if let Some(reason) = &status.stop_reason {
            text += &format!(" · reason: {reason}");
        }
        let changed = self.changed_files().count;
        if let Some(prepared) = self.prepared().filter(|_| changed > 0) {
            let plural = if changed == 1 { "" } else { "s" };
            let place = match prepared.in_place {
                true => prepared.repository.display().to_string(),
                false => format!("branch {}", prepared.branch),
            };
            text += &format!(" · {place} ({changed} file{plural} changed)");
        }
        text
    }

    /// Whether it ended without its own last step, because it was cancelled or ran out of time: what its workers left is in no
    /// checkpoint of the loop.
    pub fn is_cut_off(&self) -> bool {
        let begun =
            self.state.steps.get("prepare").is_some_and(|step| step.end.as_ref().is_none_or(|end| !end.is_error));
        self.outcome.is_some() && begun && !self.state.notes.contains_key("cleaned")
    }

    fn cleaned(&self) -> Option<Cleaned> {
        serde_json::from_value(self.state.notes.get("cleaned")?.data.clone()).ok()
    }

    /// The result, in the reference's shape and with what it leaves out.
    pub fn result(&self) -> Value {
        let status = self.status();
        let outcome = self.outcome.as_ref();
        let mut result = json!({
            "completed": status.completed.unwrap_or(false),
            "iterations": status.iteration,
            "stop_reason": status.stop_reason,
            "final_output": outcome.and_then(|outcome| outcome.final_text.clone()).or_else(|| last_output(&self.state)).unwrap_or_default(),
            "summary": self.summary(),
            "history": (1..=status.iteration).map(|number| self.iteration_of(number)).collect::<Vec<_>>(),
            "agent_calls": self.state.agent_calls,
            "repeated_calls": self.state.interrupted,
            "usage": self.state.usage,
            "seconds": self.used_time().as_secs(),
            "continues": self.continues(),
            "cost": Amount(self.state.cost),
            "warnings": self.warnings(),
        });
        if let Some(Ok(input)) = &self.state.input {
            result["goal"] = input.goal.clone().into();
            let criteria = self.state.notes.get("intake/end").and_then(|noted| noted.data["success_criteria"].as_str());
            result["success_criteria"] = criteria.unwrap_or(&input.success_criteria).into();
        }
        if let Some(error) = self.error() {
            result["error"] = json!(error);
        }
        if let Some(prepared) = self.prepared() {
            let cleaned = self.cleaned().unwrap_or_default();
            let changed = self.changed_files();
            let (needs_acceptance, more) = self.triggers();
            let path: Option<PathBuf> = if prepared.in_place { Some(prepared.path) } else { cleaned.kept };
            result["worktree"] = json!({
                "path": path,
                "repository": prepared.repository,
                "in_place": prepared.in_place.then_some(true),
                "branch": prepared.branch,
                "base": prepared.base,
                "head": self.head().map(|(head, _)| head),
                "changed_files": changed.files,
                "changed_count": changed.count,
                "changed_folders": (!changed.folders.is_empty()).then_some(changed.folders),
                "needs_acceptance": needs_acceptance,
                "needs_acceptance_more": (more > 0).then_some(more),
                "checkpoints": self.checkpoints(),
            });
        }
        without_nulls(result)
    }

    /// What differs from the base: as it was last compared, and what was merged since.
    fn changed_files(&self) -> ChangedFiles {
        let (number, diff) = self.compared().unwrap_or_default();
        let since =
            self.noted("checkpoint").into_iter().filter(|noted| noted.iteration > number && self.is_merged(noted));
        let since: Vec<&Noted> = since.collect();
        let of_some = since.iter().flat_map(|noted| noted.data["changed"].as_array().into_iter().flatten());
        let of_some = of_some.filter_map(|path| path.as_str());
        let files: BTreeSet<String> = diff.paths().chain(of_some).map(str::to_owned).collect();
        let more = since.iter().filter_map(|noted| noted.data["changed_more"].as_u64()).sum::<u64>();
        let count = files.len() as u64 + diff.folders.iter().map(|folder| folder.files).sum::<u64>() + more;
        ChangedFiles { files, count, folders: diff.folders }
    }

    /// Files that make tools of the user run something, as the work was last compared with the base, and how many more there are.
    fn triggers(&self) -> (Vec<Trigger>, u64) {
        self.compared().map(|(_, diff)| (diff.triggers, diff.triggers_more)).unwrap_or_default()
    }

    /// Whether the work was compared with the base after its last merge. A guard can stop a goal in between.
    pub fn is_compared(&self) -> bool {
        let Some((head, _)) = self.head() else { return true };
        let last = (1..=self.iteration()).rev().find_map(|number| self.state.steps.get(&format!("i{number}/diff")));
        let is_last = last.is_some_and(|step| step.input["diff"]["to"] == head && step.end.is_some());
        is_last || self.prepared().is_none_or(|prepared| prepared.base == head)
    }

    /// The last comparison with the base, and its iteration.
    fn compared(&self) -> Option<(u32, Diffed)> {
        (1..=self.iteration()).rev().find_map(|number| {
            let end = self.state.steps.get(&format!("i{number}/diff"))?.end.as_ref().filter(|end| !end.is_error)?;
            Some((number, serde_json::from_str(&end.text).ok()?))
        })
    }

    /// The repository that the goal works in, and its branch once that is known.
    pub fn place(&self) -> (Option<PathBuf>, Option<String>) {
        if let Some(prepared) = self.prepared() {
            return (Some(prepared.repository), Some(prepared.branch));
        }
        let input = self.state.input.as_ref().and_then(|input| input.as_ref().ok());
        (input.and_then(|input| Some(input.workspace.as_ref()?.directory.clone())), None)
    }

    /// Whether what a checkpoint has is on the branch.
    fn is_merged(&self, checkpoint: &Noted) -> bool {
        let is_same =
            |noted: &&Noted| noted.iteration == checkpoint.iteration && noted.data["id"] == checkpoint.data["id"];
        self.noted("merged").iter().any(is_same)
    }

    /// The commits of the goal's branch, the newest first, and those of workers that did not get there.
    fn checkpoints(&self) -> Vec<String> {
        let line = |noted: &Noted, what: &str, end: &str| {
            let commit = noted.data["commit"].as_str().unwrap_or_default();
            let id = noted.data["id"].as_str().unwrap_or_default();
            format!("{} {what}{id} of iteration {}{end}", commit.get(..12).unwrap_or(commit), noted.iteration)
        };
        let merged = self.noted("merged").into_iter().rev().map(|noted| line(noted, "merge ", ""));
        let others = self.noted("checkpoint").into_iter().rev();
        let others = others.filter(|noted| noted.data["commit"].is_string() && !self.is_merged(noted));
        merged.chain(others.map(|noted| line(noted, "", ", not merged"))).collect()
    }

    /// What the user should know: first of the repository, then of the loop, then of the last verification.
    fn warnings(&self) -> Vec<Value> {
        let prepared = self.prepared().map(|prepared| prepared.warnings).unwrap_or_default();
        let noted = self.noted("warning").into_iter().map(|noted| noted.data["message"].clone());
        let verified = self.noted("verification").pop();
        let verified = verified.and_then(|noted| noted.data["warnings"].as_array().cloned()).unwrap_or_default();
        let repeated = (self.state.interrupted > 0).then(|| {
            format!(
                "{} of the calls of roles were made again because the server ended during them; they may be charged twice",
                self.state.interrupted
            )
        });
        prepared.into_iter().chain(repeated).map(Value::from).chain(noted).chain(verified).collect()
    }

    fn iteration_of(&self, number: u32) -> Value {
        let place = format!("i{number}");
        let note = |name: &str| self.state.notes.get(&format!("{place}/{name}"));
        let subgoals = note("plan").map(|noted| noted.data["subgoals"].clone()).unwrap_or_default();
        let results: Vec<Value> =
            subgoals.as_array().into_iter().flatten().map(|subgoal| self.task_of(&place, subgoal)).collect();
        let verification: Vec<CommandResult> =
            self.verified(number).map(|verified| verified.results).unwrap_or_default();
        json!({
            "iteration": number,
            "subgoals": subgoals,
            "results": results,
            "review": note("verdict").map(|noted| noted.data.clone()),
            "verification": verification,
            "feedback": note("end").map(|noted| noted.data["feedback"].clone()),
        })
    }

    fn task_of(&self, place: &str, subgoal: &Value) -> Value {
        let id = subgoal["id"].as_str().unwrap_or_default();
        let prefix = format!("{place}/w/{id}/");
        let asked =
            self.state.steps.iter().filter(|(key, step)| key.starts_with(&prefix) && step.input.get("role").is_some());
        let mut ends: Vec<_> = asked.filter_map(|(_, step)| step.end.as_ref()).collect();
        ends.sort_by_key(|end| end.at);
        let last = ends.last().map(|end| Reply::of(&end.text, end.is_error));
        let (ok, output, error) = match last {
            Some(Ok(reply)) => (true, reply.output, String::new()),
            Some(Err(failed)) => (false, String::new(), failed.error.message),
            None => (false, String::new(), "not started".into()),
        };
        json!({ "id": id, "ok": ok, "attempts": ends.len(), "output": output, "error": error })
    }
}

/// What workers of the last iteration said, when the goal did not complete.
pub(crate) fn last_output(state: &State) -> Option<String> {
    let aggregated = state
        .steps
        .iter()
        .filter(|(key, step)| key.split('/').nth(1) == Some("review") && step.input.get("role").is_some());
    let Some(prompt) =
        aggregated.max_by_key(|(_, step)| step.began).and_then(|(_, step)| step.input["prompt"].as_str())
    else {
        return workers_output(state);
    };
    let from = prompt.split_once("# What the workers report\n\n")?.1;
    let until =
        ["\n\n# Verification\n", "\n\n# Changed files since", "\n\n# Diff since", "\n\nThe results of the Playwright"];
    let end = until.iter().filter_map(|mark| from.find(mark)).min().unwrap_or(from.len());
    Some(from[..end].to_owned())
}

/// What workers said, when no reviewer was asked.
fn workers_output(state: &State) -> Option<String> {
    let said = state.steps.iter().filter_map(|(key, step)| {
        let (end, id) = (step.end.as_ref()?, key.split('/').nth(2)?);
        let reply = Reply::of(&end.text, end.is_error).ok().filter(|_| step.input["role"] == "subagent")?;
        Some(format!("### {id}\n{}", reply.output))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}
