//! Forgetting a goal: its refs in the user's repository and its directory. Its branch, which has its result, stays.

use std::path::PathBuf;

use drawloom_process::sweep;

use crate::{checkouts::Checkouts, error::Error, git::Repository, places::blocking, state::Goal};

/// What was removed with a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    pub repository: PathBuf,
    /// The refs that were removed.
    pub refs: Vec<String>,
    /// The goal's branch, when the repository has it.
    pub branch: Option<String>,
}

impl Checkouts {
    /// Removes the refs of a goal and everything in its directory, with files that no commit has. If the refs cannot be removed, the
    /// directory stays, because only it knows them. No command of the goal may run.
    pub async fn forget(&self, goal: &str) -> Result<Forgotten, Error> {
        let goal = self.goal(goal).await?;
        self.release(&goal).await?;
        let refs = self.remove_refs(&goal).await?;
        let branch = goal.record.prepared.branch.clone();
        let head = self.read_ref(&goal, &format!("refs/heads/{branch}")).await?;
        self.forget_directory(goal.name()).await?;
        let repository = goal.record.prepared.repository;
        Ok(Forgotten { repository, refs, branch: head.map(|_| branch) })
    }

    /// Removes the directory of a goal whose repository is gone.
    pub async fn forget_directory(&self, goal: &str) -> Result<(), Error> {
        let directory = self.places(goal).goal().to_owned();
        self.release_ports(goal);
        blocking(move || {
            let failed = |error| Error::file("remove", &directory)(error);
            let swept = sweep(&directory).map_err(failed)?;
            match swept.kept.into_iter().next() {
                Some((path, error)) => Err(Error::file("remove", path)(error)),
                None => std::fs::remove_dir(&directory).map_err(failed),
            }
        })
        .await
    }

    async fn remove_refs(&self, goal: &Goal) -> Result<Vec<String>, Error> {
        let below = format!("refs/drawloom/{}/", goal.name());
        let list =
            self.git(goal, Repository::Users).args(["for-each-ref", "--format=%(objectname) %(refname)", &below]);
        let listed = list.ok().await?.text()?;
        let (mut refs, mut input) = (Vec::new(), String::new());
        for (oid, name) in listed.lines().filter_map(|line| line.split_once(' ')) {
            refs.push(name.to_owned());
            input.push_str(&format!("option no-deref\ndelete {name} {oid}\n"));
        }
        if !refs.is_empty() {
            self.git(goal, Repository::Users).args(["update-ref", "--stdin"]).input(input.into_bytes()).ok().await?;
        }
        Ok(refs)
    }
}
