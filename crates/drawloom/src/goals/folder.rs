//! The folder of a goal, for `tail -f`: `events.jsonl`, `status.json` and `result.json`, made from its journal and never read back.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    ids::{RunId, RunKey, Tenant, UserId},
    journal::RunFilter,
    record::Status,
    runs::{Interest, Item, Runs},
};
use drawloom_goal::{LoopEvent, Story};
use drawloom_server::GOAL_AGENT;
use drawloom_wire::goals::GoalLeft;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Repositories;

/// How many goals are looked at when a server starts.
const LOOKED_AT: u32 = 200;

/// How many items of a goal are written at once.
const TOGETHER: usize = 64;

/// Writes the folders of goals.
pub(crate) struct Folders {
    runs: Arc<dyn Runs>,
    repositories: Arc<Repositories>,
    following: Mutex<HashSet<RunKey>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Folders {
    pub(crate) fn new(runs: Arc<dyn Runs>, repositories: Arc<Repositories>) -> Arc<Self> {
        Arc::new(Self { runs, repositories, following: Mutex::default(), tasks: Mutex::default() })
    }

    /// The folder of a goal.
    pub(crate) fn of(&self, run: RunId) -> PathBuf {
        self.repositories.folder(&run.to_string())
    }

    /// Keeps the folder of a goal up to date until it ends.
    pub(crate) fn follow(self: &Arc<Self>, key: RunKey) {
        if !self.following.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
            return;
        }
        let folders = self.clone();
        let task = async move {
            if let Err(error) = folders.write(&key).await {
                tracing::warn!(run = %key.run, %error, "cannot write the folder of a goal");
            }
            folders.following.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        };
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    /// Follows the goals of a tenant that have not ended, and writes what an earlier process did not come to.
    pub(crate) async fn take_up(self: &Arc<Self>, tenant: Tenant) -> Vec<String> {
        let filter = RunFilter {
            agent: Some(GOAL_AGENT.parse().expect("a constant name")),
            limit: LOOKED_AT,
            ..RunFilter::default()
        };
        let listed = self.runs.list(&reader(&tenant), filter).await.unwrap_or_default();
        let mut active = Vec::new();
        for view in listed {
            let is_open = !view.status.is_terminal();
            let folder = self.of(view.run);
            if is_open || (folder.is_dir() && !folder.join("result.json").is_file()) {
                self.follow(RunKey { tenant: tenant.clone(), run: view.run });
            }
            if is_open {
                active.push(view.run.to_string());
            }
        }
        active
    }

    /// Commits what the workers of a goal left that was cut off, once none of their processes is alive.
    pub(crate) async fn left(&self, key: &RunKey) -> Result<Vec<GoalLeft>, String> {
        let roles = self.ended_roles(key).await?;
        self.repositories.keep_left(key.run, &roles).await
    }

    /// Returns when no process of a goal that has ended is alive.
    pub(crate) async fn until_over(&self, key: &RunKey) -> Result<(), String> {
        let roles = self.ended_roles(key).await?;
        self.repositories.until_over(key.run, &roles).await
    }

    /// The runs that worked for a goal that has ended, once they have ended too.
    async fn ended_roles(&self, key: &RunKey) -> Result<Vec<RunId>, String> {
        let reader = reader(&key.tenant);
        let filter = RunFilter { parent: Some(key.run), limit: LOOKED_AT, ..RunFilter::default() };
        let roles = self.runs.list(&reader, filter).await.map_err(|failure| failure.to_string())?;
        for role in roles.iter().filter(|role| !role.status.is_terminal()) {
            let live = self.runs.follow(&reader, role.run, 0, Interest::Events).await;
            let mut live = live.map_err(|failure| failure.to_string())?;
            while !matches!(live.next().await, None | Some(Err(_) | Ok(Item::Ended(_)))) {}
        }
        Ok(roles.iter().map(|role| role.run).collect())
    }

    async fn write(&self, key: &RunKey) -> std::io::Result<()> {
        let folder = self.of(key.run);
        fs::create_dir_all(folder.join("workers"))?;
        // Made anew: what is there may be of a process that died in the middle of a line.
        let mut events = File::create(folder.join("events.jsonl"))?;
        let mut story = Story::default();
        let failed = |failure: drawloom_contract::failure::Failure| std::io::Error::other(failure.to_string());
        let live = self.runs.follow(&reader(&key.tenant), key.run, 0, Interest::Events).await.map_err(failed)?;
        // Events that come together are written together: replacing a file costs more than a step of the loop.
        let mut live = live.ready_chunks(TOGETHER);
        while let Some(items) = live.next().await {
            let (mut lines, mut ended) = (Vec::new(), None);
            for item in items {
                match item.map_err(failed)? {
                    Item::Record(record) => {
                        if let Some(event) = story.apply(&record) {
                            append(&mut lines, &folder, &story, event)?;
                        }
                    }
                    Item::Delta(_) | Item::Activity(_) => {}
                    Item::Ended(view) => ended = Some(view),
                }
            }
            events.write_all(&lines)?;
            if let Some(view) = ended {
                let mut result = story.result();
                result["run_id"] = json!(view.run);
                result["cancelled"] = (view.status == Status::Cancelled).into();
                if story.is_cut_off() {
                    // Without the commits there is no result.json, so that the next start makes them.
                    let left = self.left(key).await.map_err(std::io::Error::other)?;
                    if let Some(worktree) = result.get_mut("worktree") {
                        worktree["left"] = json!(left);
                    }
                }
                replace(&folder.join("result.json"), &result)?;
                replace(&folder.join("status.json"), &status(&story, key.run, &folder))?;
                // After the result, because removing a large checkout takes long.
                self.repositories.empty(&key.run.to_string()).await;
                return Ok(());
            }
            if !lines.is_empty() && story.status().running {
                replace(&folder.join("status.json"), &status(&story, key.run, &folder))?;
            }
        }
        Ok(())
    }
}

/// One who may read every run of a tenant.
fn reader(tenant: &Tenant) -> Caller {
    Caller {
        tenant: tenant.clone(),
        subject: UserId::default_user(),
        scopes: vec![Scope::RunsReadAll],
        proof: Proof::Open,
    }
}

fn append(lines: &mut Vec<u8>, folder: &Path, story: &Story, mut event: LoopEvent) -> std::io::Result<()> {
    // Paths in the file are whole, so that they can be opened from anywhere.
    if let Some(path) = event.data.get("output_path").and_then(Value::as_str).map(|path| folder.join(path)) {
        // A CLI's raw output is there already; other backends have only an answer.
        if let (false, Some(label)) = (path.exists(), path.file_stem().and_then(OsStr::to_str)) {
            fs::write(&path, story.output(label).unwrap_or_default())?;
        }
        event.data["output_path"] = path.display().to_string().into();
    }
    serde_json::to_writer(&mut *lines, &event)?;
    lines.push(b'\n');
    Ok(())
}

fn status(story: &Story, run: RunId, folder: &Path) -> Value {
    let mut status = serde_json::to_value(story.status()).unwrap_or_default();
    status["run_id"] = json!(run);
    status["run_dir"] = folder.display().to_string().into();
    status
}

/// Replaces a file, so that a reader sees the old one or the new one.
fn replace(path: &Path, value: &Value) -> std::io::Result<()> {
    let staged = path.with_extension("json.new");
    fs::write(&staged, serde_json::to_vec_pretty(value)?)?;
    fs::rename(staged, path)
}
