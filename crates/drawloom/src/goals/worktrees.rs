//! What callers may do with the checkouts of goals: look at them, commit what lies in them, remove them.

use async_trait::async_trait;
use drawloom_checkout::{self as checkout, Checkouts, Cleanup, Contents, KeptCheckout, Kind, Oid, Step};
use drawloom_contract::{
    failure::{Explain as _, Failure, FailureKind},
    ids::RunId,
};
use drawloom_server::{Which, Worktrees};
use drawloom_wire::worktrees::{
    CommitWorktree, DiffWorktree, RemoveWorktree, SavedCheckout, Worktree, WorktreeChange, WorktreeCheckout,
    WorktreeCommit, WorktreeCommits, WorktreeDiff, WorktreeLeftOut, WorktreeRemoved,
};

use super::{
    Repositories,
    workspace::{reason, seconds, told},
};

/// Bytes of a difference when the caller names no limit.
const USUAL_DIFF: u64 = 1_000_000;

/// Most files that an error names.
const MOST_NAMED: usize = 5;

impl Repositories {
    async fn opened(&self) -> Result<&Checkouts, Failure> {
        self.checkouts().await.map_err(|problem| Failure::new(FailureKind::Broken, "checkouts", problem))
    }
}

/// An error of checkouts, for callers.
fn failed(error: &checkout::Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let failure = Failure::new(error.kind(), error.code(), format!("{error}{cause}"));
    match (error.hint(), error) {
        (Some(hint), _) => failure.with_hint(hint),
        (None, checkout::Error::UnknownGoal { .. } | checkout::Error::UnknownCheckout { .. }) => {
            failure.with_hint("`drawloom worktree list` lists the checkouts of goals")
        }
        (None, _) => failure,
    }
}

fn change(change: checkout::Change) -> WorktreeChange {
    let status = serde_json::to_value(change.status).ok().and_then(|status| status.as_str().map(str::to_owned));
    WorktreeChange { path: change.path, status: status.unwrap_or_default(), from: change.from }
}

/// What a commit leaves out, except what can be made again: ignored files, compiled files, and those of the setup command.
fn left_out(files: Vec<checkout::LeftOut>) -> Vec<WorktreeLeftOut> {
    let files = files.into_iter().filter(|file| !file.reason.can_be_made_again());
    files.map(|file| WorktreeLeftOut { path: file.path, reason: reason(file.reason) }).collect()
}

fn described(kept: KeptCheckout, contents: Result<Contents, checkout::Error>) -> WorktreeCheckout {
    let (contents, problem) = match contents {
        Ok(contents) => (Some(contents), None),
        Err(error) => (None, Some(told(&error))),
    };
    let bytes = contents.as_ref().map_or(0, |contents| contents.bytes);
    let (changed, left) = contents.map(|contents| (contents.changed, contents.left_out)).unwrap_or_default();
    WorktreeCheckout {
        name: kept.name,
        path: kept.path,
        read_only: kept.kind == Kind::ReadOnly,
        commit: kept.commit.to_string(),
        checkpoints: kept.checkpoints,
        bytes,
        uncommitted: changed.into_iter().map(|change| change.path).collect(),
        left_out: left_out(left),
        problem,
    }
}

/// The names of the checkouts to commit: the one that was named, or all that workers write to.
async fn chosen(checkouts: &Checkouts, request: &CommitWorktree) -> Result<Vec<String>, Failure> {
    if let Some(name) = &request.checkout {
        return Ok(vec![name.clone()]);
    }
    let info = checkouts.info(&request.run_id.to_string()).await.map_err(|error| failed(&error))?;
    Ok(info.checkouts.into_iter().filter(|kept| kept.kind == Kind::Writer).map(|kept| kept.name).collect())
}

#[async_trait]
impl Worktrees for Repositories {
    async fn list(&self, which: Which) -> Result<Vec<RunId>, Failure> {
        // Without a folder nothing was prepared, and a list makes none.
        if !self.root().is_dir() {
            return Ok(Vec::new());
        }
        let checkouts = self.opened().await?;
        let names = match which {
            Which::WithCheckouts => checkouts.list_with_checkouts().await,
            Which::All => checkouts.list().await,
        };
        let mut runs: Vec<RunId> =
            names.map_err(|error| failed(&error))?.iter().filter_map(|name| name.parse().ok()).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.to_string()));
        Ok(runs)
    }

    async fn load(&self, run: RunId) -> Result<Worktree, Failure> {
        let (checkouts, goal) = (self.opened().await?, run.to_string());
        let (info, problem) = checkouts.describe(&goal).await.map_err(|error| failed(&error))?;
        let bytes = checkouts.usage(&goal).await.map_err(|error| failed(&error))?.bytes;
        let mut listed = Vec::new();
        for kept in info.checkouts {
            let contents = checkouts.contents(&goal, &kept.name).await;
            listed.push(described(kept, contents));
        }
        Ok(Worktree {
            run_id: run,
            goal: String::new(),
            status: String::new(),
            repository: info.prepared.repository,
            branch: info.prepared.branch,
            base: info.prepared.base.to_string(),
            head: info.head.map(String::from),
            bytes,
            checkouts: listed,
            problem: problem.map(|error| told(&error)),
        })
    }

    async fn diff(&self, request: &DiffWorktree) -> Result<WorktreeDiff, Failure> {
        let (checkouts, goal) = (self.opened().await?, request.run_id.to_string());
        let info = checkouts.info(&goal).await.map_err(|error| failed(&error))?;
        let base = info.prepared.base;
        let (from, to): (Oid, Oid) = match &request.checkout {
            Some(name) => {
                let contents = checkouts.contents(&goal, name).await.map_err(|error| failed(&error))?;
                (if request.uncommitted { contents.parent } else { base }, contents.tree)
            }
            None if request.uncommitted => {
                return Err(Failure::new(FailureKind::Invalid, "needs_checkout", "uncommitted needs a checkout")
                    .with_hint("`drawloom worktree list` lists the checkouts of goals"));
            }
            None => (base.clone(), info.head.unwrap_or(base)),
        };
        let most = usize::try_from(request.max_bytes.unwrap_or(USUAL_DIFF)).unwrap_or(usize::MAX);
        let diff = checkouts.diff(&goal, &from, &to, most).await.map_err(|error| failed(&error))?;
        Ok(WorktreeDiff {
            run_id: request.run_id,
            repository: info.prepared.repository,
            branch: info.prepared.branch,
            from: from.into(),
            to: to.into(),
            files: diff.files.into_iter().map(change).collect(),
            insertions: diff.insertions,
            deletions: diff.deletions,
            text: diff.text,
            truncated: diff.truncated,
        })
    }

    async fn commit(&self, request: &CommitWorktree) -> Result<WorktreeCommits, Failure> {
        let (checkouts, goal) = (self.opened().await?, request.run_id.to_string());
        let prepared = checkouts.info(&goal).await.map_err(|error| failed(&error))?.prepared;
        let at = self.now();
        let key = format!("hand-{}", at.as_millis());
        let mut commits = Vec::new();
        for name in chosen(checkouts, request).await? {
            let usual = format!("commit the checkout {name} by hand");
            let step = Step { message: request.message.as_deref().unwrap_or(&usual), at: seconds(at), key: &key };
            let made = checkouts.checkpoint(&goal, &name, &step).await.map_err(|error| failed(&error))?;
            if let (Some(commit), Some(reference)) = (made.commit, made.reference) {
                commits.push(WorktreeCommit {
                    checkout: name,
                    commit: commit.into(),
                    reference,
                    changed: made.changed.into_iter().map(change).collect(),
                    left_out: left_out(made.left_out),
                });
            }
        }
        let (repository, branch) = (prepared.repository, prepared.branch);
        Ok(WorktreeCommits { run_id: request.run_id, repository, branch, commits })
    }

    async fn remove(&self, request: &RemoveWorktree) -> Result<WorktreeRemoved, Failure> {
        let checkouts = self.opened().await?;
        let worktree = self.load(request.run_id).await?;
        let lost = worktree.checkouts.iter().flat_map(|checkout| {
            checkout.left_out.iter().map(|left| format!("{}/{} ({})", checkout.name, left.path, left.reason))
        });
        let lost: Vec<String> = lost.collect();
        if !lost.is_empty() && !request.discard {
            let more = lost.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = lost.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
            let message = format!("no commit takes these files, and they would be lost: {named}{more}");
            return Err(Failure::new(FailureKind::Conflict, "files_left_out", message)
                .with_hint("copy them first, or pass discard (`--discard`) to lose them"));
        }
        let goal = request.run_id.to_string();
        let cleaned = checkouts.clean(&goal, Cleanup::Always, seconds(self.now())).await;
        let cleaned = cleaned.map_err(|error| failed(&error))?;
        let saved = cleaned.saved.into_iter().map(|(checkout, reference)| SavedCheckout { checkout, reference });
        Ok(WorktreeRemoved {
            run_id: request.run_id,
            repository: worktree.repository,
            branch: worktree.branch,
            removed: worktree.checkouts.into_iter().map(|checkout| checkout.name).collect(),
            bytes: cleaned.bytes,
            saved: saved.collect(),
        })
    }
}
