//! Removing a goal that has ended: its refs, its checkouts, its folder, and its branch if that is wanted.

use std::{fs, path::PathBuf};

use drawloom_process::sweep;
use serde::Serialize;

use crate::{
    checkouts::Checkouts,
    clean::bytes_in,
    error::Error,
    git::Repository,
    names,
    oid::Oid,
    places::{blocking, make_directory},
    state::Goal,
};

/// What was removed of a goal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// The repository, if the goal had one that still exists.
    pub repository: Option<PathBuf>,
    /// The goal's branch with the commit that it was at, if there was one. It stays if it was to be kept.
    pub branch: Option<(String, Oid)>,
    /// How many other refs were removed.
    pub refs: usize,
    pub bytes: u64,
    /// What may be left in the repository, which is gone or replaced, with the reason.
    pub left: Option<String>,
}

/// What becomes of the goal's branch, which has its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultBranch {
    Keep,
    Remove,
}

impl Checkouts {
    /// Removes everything of a goal. Removing its branch is refused while the branch is checked out anywhere. Can be repeated.
    pub async fn forget(&self, goal: &str, branch: ResultBranch) -> Result<Forgotten, Error> {
        names::check("goal", goal)?;
        let mut forgotten = Forgotten::default();
        if let Some(mut found) = self.find_goal(goal).await? {
            let _refs = self.lock_refs(goal).await;
            found.record.is_cleaned = true;
            match self.check_opened_again(&found.record.opened()) {
                Ok(()) => {
                    self.release(&found).await?;
                    self.remove_refs(&found, branch, &mut forgotten).await?;
                    forgotten.repository = Some(found.record.prepared.repository);
                }
                // What git would open there is not the repository of the goal.
                Err(reason) => forgotten.left = Some(left_in(&found, &reason)),
            }
        }
        forgotten.bytes = self.forget_directory(goal).await?;
        Ok(forgotten)
    }

    /// Whether the repository of a goal is where the goal was prepared. Also true of a goal without one.
    pub async fn has_repository(&self, goal: &str) -> Result<bool, Error> {
        let Some(mut found) = self.find_goal(goal).await? else { return Ok(true) };
        found.record.is_cleaned = true;
        Ok(self.check_opened_again(&found.record.opened()).is_ok())
    }

    /// Removes the directory of a goal, and nothing of its repository. Returns the number of bytes.
    pub async fn forget_directory(&self, goal: &str) -> Result<u64, Error> {
        names::check("goal", goal)?;
        self.release_ports(goal);
        let (root, path) = (self.parts.root.clone(), self.places(goal).goal().to_owned());
        let name = format!(".removed-{goal}");
        blocking(move || {
            let bytes = bytes_in(&path);
            let aside = root.join(name);
            make_directory(&aside)?;
            // First moved away as a whole: after a crash no half of it is taken for a goal.
            match fs::rename(&path, aside.join("removed")) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file("remove", &path)(error));
                }
                Ok(()) | Err(_) => {}
            }
            if let Some((path, error)) = sweep(&aside).map_err(Error::file("remove", &aside))?.kept.into_iter().next() {
                return Err(Error::file("remove", path)(error));
            }
            fs::remove_dir(&aside).map_err(Error::file("remove", aside))?;
            Ok(bytes)
        })
        .await
    }

    async fn remove_refs(&self, goal: &Goal, result: ResultBranch, forgotten: &mut Forgotten) -> Result<(), Error> {
        let branch = &goal.record.prepared.branch;
        let removes = result == ResultBranch::Remove;
        if removes && let Some(worktree) = self.checked_out(goal, branch).await? {
            return Err(Error::CheckedOut { branch: branch.clone(), worktree });
        }
        let of_goal = format!("refs/drawloom/{}/", goal.name());
        let full = format!("refs/heads/{branch}");
        let asked = ["for-each-ref", "--format=%(objectname) %(refname)", &of_goal, &full];
        let listed = self.git(goal, Repository::Users).args(asked).ok().await?.text()?;
        let mut input = Vec::new();
        for (id, reference) in listed.lines().filter_map(|line| line.split_once(' ')) {
            if removes || reference != full {
                input.extend_from_slice(format!("delete {reference} {id}\n").as_bytes());
            }
            match reference == full {
                true => forgotten.branch = Some((branch.clone(), Oid::parse(id)?)),
                false => forgotten.refs += 1,
            }
        }
        if !input.is_empty() {
            let git = self.git(goal, Repository::Users).setting("core.logAllRefUpdates=false");
            git.args(["update-ref", "--no-deref", "--stdin"]).input(input).ok().await?;
        }
        Ok(())
    }
}

fn left_in(goal: &Goal, reason: &Error) -> String {
    let (name, prepared) = (goal.name(), &goal.record.prepared);
    let repository = prepared.repository.display();
    let cause = std::error::Error::source(reason).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!(
        "the branch {} and refs/drawloom/{name}/ may be left in the repository that was {repository}: {reason}{cause}",
        prepared.branch
    )
}
