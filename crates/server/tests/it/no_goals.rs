//! Goals without a repository, for tests of the operations.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Caller,
    definition::Definition,
    failure::Failure,
    ids::{RunId, RunKey},
};
use drawloom_goal::{GoalInput, Story};
use drawloom_server::{GOAL_AGENT, GoalHost, Which, Worktrees};
use drawloom_wire::{
    goals::{
        BackendList, Diagnosis, Doctor, GoalLanded, GoalLeft, GoalRemoved, GoalTrigger, ListBackends, Orchestrate,
        OrchestrateLand,
    },
    worktrees::{
        CommitWorktree, DiffWorktree, RemoveWorktree, Worktree, WorktreeCommits, WorktreeDiff, WorktreeRemoved,
    },
};

/// A host whose goals all go to the mock backend and work nowhere.
#[derive(Default)]
pub(crate) struct NoGoals {
    started: Mutex<Vec<RunId>>,
    /// Goals with a folder.
    pub(crate) kept: Mutex<BTreeSet<RunId>>,
}

#[async_trait]
impl GoalHost for NoGoals {
    fn complete(&self, _: &Caller, request: &Orchestrate) -> Result<GoalInput, Failure> {
        Ok(GoalInput::new(request.goal.clone(), "mock"))
    }

    fn agent(&self) -> Arc<Definition> {
        Arc::new(drawloom_testkit::definition(GOAL_AGENT, "goal", ""))
    }

    fn started(&self, key: RunKey) {
        self.started.lock().expect("no panic").push(key.run);
    }

    fn folder(&self, run: RunId) -> PathBuf {
        PathBuf::from("/goals").join(run.to_string())
    }

    async fn left(&self, _: &RunKey) -> Result<Vec<GoalLeft>, Failure> {
        Ok(Vec::new())
    }

    async fn backends(&self, _: &ListBackends) -> BackendList {
        BackendList {
            backends: Vec::new(),
            default: "mock".into(),
            resolved_default: "mock".into(),
            timeouts: Vec::new(),
        }
    }

    async fn diagnose(&self, _: &Caller, _: &Doctor) -> Result<Diagnosis, Failure> {
        let (backends, checks) = (Vec::new(), Vec::new());
        Ok(Diagnosis { ok: false, backends, checks, timeouts: Vec::new(), recommendations: Vec::new() })
    }

    async fn land(&self, _: &Caller, _: &Story, _: &OrchestrateLand) -> Result<GoalLanded, Failure> {
        let (branch, commit, message) = (String::new(), String::new(), String::new());
        let (landed, moved, already_landed) = (false, false, false);
        let repository = PathBuf::new();
        Ok(GoalLanded { landed, moved, already_landed, repository, branch, commit, message, command: None })
    }

    async fn triggers(&self, _: &Story, _: RunId) -> Option<Vec<GoalTrigger>> {
        None
    }

    fn check_repository(&self, _: &Caller, _: &Story) -> Result<(), Failure> {
        Ok(())
    }

    fn check_continued(&self, _: &Caller, _: &GoalInput) -> Result<(), Failure> {
        Ok(())
    }

    async fn remove(&self, key: &RunKey, _: &Story) -> Result<GoalRemoved, Failure> {
        Ok(GoalRemoved { run_id: key.run, repository: None, branch: None, commit: None, refs: 0, bytes: 0, left: None })
    }

    async fn kept(&self) -> Result<BTreeSet<RunId>, Failure> {
        Ok(self.kept.lock().expect("no panic").clone())
    }

    fn worktrees(&self) -> &dyn Worktrees {
        self
    }
}

#[async_trait]
impl Worktrees for NoGoals {
    async fn list(&self, _: Which) -> Result<Vec<RunId>, Failure> {
        Ok(self.started.lock().expect("no panic").clone())
    }

    async fn load(&self, run: RunId) -> Result<Worktree, Failure> {
        Ok(Worktree {
            run_id: run,
            goal: String::new(),
            status: String::new(),
            repository: PathBuf::from("/repository"),
            branch: format!("drawloom/{run}"),
            base: "0".repeat(40),
            head: None,
            bytes: 0,
            checkouts: Vec::new(),
            problem: None,
        })
    }

    async fn diff(&self, request: &DiffWorktree) -> Result<WorktreeDiff, Failure> {
        Ok(WorktreeDiff {
            run_id: request.run_id,
            repository: PathBuf::new(),
            branch: String::new(),
            from: "0".repeat(40),
            to: "0".repeat(40),
            files: Vec::new(),
            insertions: 0,
            deletions: 0,
            text: String::new(),
            truncated: false,
        })
    }

    async fn commit(&self, request: &CommitWorktree) -> Result<WorktreeCommits, Failure> {
        let (repository, branch) = (PathBuf::new(), String::new());
        Ok(WorktreeCommits { run_id: request.run_id, repository, branch, commits: Vec::new() })
    }

    async fn remove(&self, request: &RemoveWorktree) -> Result<WorktreeRemoved, Failure> {
        let (repository, branch, removed, saved) = (PathBuf::new(), String::new(), Vec::new(), Vec::new());
        Ok(WorktreeRemoved { run_id: request.run_id, repository, branch, removed, bytes: 0, saved })
    }
}
