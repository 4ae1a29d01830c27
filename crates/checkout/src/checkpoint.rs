//! Checkpoints: what lies in a checkout becomes a commit of ours.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    add::Kind,
    attributes::Attributes,
    checkouts::Checkouts,
    diff::Change,
    error::Error,
    git::Repository,
    names,
    oid::Oid,
    places::{blocking, check_real, copy_index, make_directory},
    stage::{LeftOut, Reason, Rules, Staged, stage},
    state::{Goal, State},
};

/// What a commit of ours says.
#[derive(Debug, Clone)]
pub struct Step<'a> {
    pub message: &'a str,
    /// Its time, in seconds since 1970.
    pub at: i64,
    /// A repeated call with the same key answers what the first one did.
    pub key: &'a str,
}

/// A checkpoint of a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Absent when nothing changed.
    pub commit: Option<Oid>,
    pub tree: Oid,
    /// What the commit builds on, and what `changed` is compared with.
    pub parent: Oid,
    /// The ref that keeps the commit.
    pub reference: Option<String>,
    pub changed: Vec<Change>,
    pub insertions: u64,
    pub deletions: u64,
    /// The first 50 files of each reason that are left out.
    pub left_out: Vec<LeftOut>,
    /// How many files are left out, by reason.
    pub left_out_counts: BTreeMap<Reason, u64>,
}

/// Where a checkpoint goes.
enum Target {
    /// The next number of its checkout.
    Next,
    /// Aside, under a key.
    Aside,
}

impl Checkouts {
    /// Commits what lies in a writable checkout. Call it when no process of the worker runs any more. What the worker did with
    /// git in its clone does not matter: the content of the files does.
    pub async fn checkpoint(&self, goal: &str, name: &str, step: &Step<'_>) -> Result<Checkpoint, Error> {
        names::check("key", step.key)?;
        let _lock = self.lock(goal, name).await;
        let (goal, mut state) = self.goal_with(goal, name).await?;
        if let Some((_, answer)) = state.checkpoints.iter().find(|(key, _)| key == step.key) {
            let answer = answer.clone();
            self.keep_checkpoint(&goal, &answer).await?;
            return Ok(answer);
        }
        let (answer, index) = self.commit_work(&goal, name, &state, step, Target::Next).await?;
        if let Some(commit) = &answer.commit {
            (state.parent, state.parent_tree) = (commit.clone(), answer.tree.clone());
            state.number += 1;
        }
        state.checkpoints.push((step.key.to_owned(), answer.clone()));
        // First the state, then the index and the ref: after a crash the state says what they must be.
        goal.save_state(name, &state).await?;
        let target = goal.places.index(name, &answer.tree);
        fs::rename(&index, &target).map_err(Error::file("replace", target))?;
        self.keep_checkpoint(&goal, &answer).await?;
        Ok(answer)
    }

    /// Keeps what lies in a checkout as `refs/drawloom/<goal>/wip/<key>`, before a call is made again. The next checkpoint is the
    /// same with and without it.
    pub async fn wip(&self, goal: &str, name: &str, step: &Step<'_>) -> Result<Checkpoint, Error> {
        names::check("key", step.key)?;
        let _lock = self.lock(goal, name).await;
        let (goal, state) = self.goal_with(goal, name).await?;
        self.keep_aside(&goal, name, &state, step).await
    }

    pub(crate) async fn keep_aside(
        &self,
        goal: &Goal,
        name: &str,
        state: &State,
        step: &Step<'_>,
    ) -> Result<Checkpoint, Error> {
        let (mut answer, index) = self.commit_work(goal, name, state, step, Target::Aside).await?;
        fs::remove_file(&index).map_err(Error::file("remove", index))?;
        match self.keep_checkpoint(goal, &answer).await {
            // An earlier call with this key kept what lay there then. The checkout still has what came after.
            Err(Error::RefTaken { found, .. }) => answer.commit = Some(Oid::parse(&found)?),
            kept => kept?,
        }
        Ok(answer)
    }

    async fn keep_checkpoint(&self, goal: &Goal, answer: &Checkpoint) -> Result<(), Error> {
        match (&answer.commit, &answer.reference) {
            (Some(commit), Some(reference)) => self.keep_ref(goal, reference, commit).await,
            _ => Ok(()),
        }
    }

    /// Commits what lies in a checkout. Answers the index of that commit too, in a file of its own.
    async fn commit_work(
        &self,
        goal: &Goal,
        name: &str,
        state: &State,
        step: &Step<'_>,
        target: Target,
    ) -> Result<(Checkpoint, PathBuf), Error> {
        if state.kind == Kind::ReadOnly {
            return Err(Error::ReadOnly { name: name.to_owned() });
        }
        let work = goal.work(name, state.kind);
        check_real(&work)?;
        let index = self.index_of(goal, name, &state.parent_tree).await?;
        let staged = self.stage_work(goal, name, &work, &index).await?;
        let tree = match staged.is_empty() {
            true => state.parent_tree.clone(),
            false => self.write_tree(goal, name, &index, &staged, (&state.parent_tree, Attributes::Base)).await?,
        };
        let mut answer = Checkpoint {
            commit: None,
            parent: state.parent.clone(),
            reference: None,
            changed: Vec::new(),
            insertions: 0,
            deletions: 0,
            left_out: staged.left_out,
            left_out_counts: staged.counts,
            tree,
        };
        if answer.tree != state.parent_tree {
            let parents = [&state.parent];
            let (commit, changes) = tokio::join!(
                self.commit_tree(goal, &answer.tree, &parents, step.message, step.at),
                self.changes(goal, &state.parent_tree, &answer.tree)
            );
            let (commit, changes) = (commit?, changes?);
            (answer.changed, answer.insertions, answer.deletions) =
                (changes.files, changes.insertions, changes.deletions);
            let new = [commit.clone(), answer.tree.clone()];
            self.make_durable(goal, changes.objects.into_iter().chain(new).collect()).await?;
            answer.commit = Some(commit);
            answer.reference = Some(match target {
                Target::Next => format!("refs/drawloom/{}/{name}/{}", goal.name(), state.number + 1),
                Target::Aside => format!("refs/drawloom/{}/wip/{}", goal.name(), step.key),
            });
        }
        Ok((answer, index))
    }

    /// A copy of a checkout's index, which has exactly the files of `tree`.
    pub(crate) async fn index_of(&self, goal: &Goal, name: &str, tree: &Oid) -> Result<PathBuf, Error> {
        let (ours, copy) = (goal.places.index(name, tree), goal.places.next_index(name));
        make_directory(&goal.places.indexes(name))?;
        // What a killed git left.
        let _ = fs::remove_file(goal.places.indexes(name).join("next.lock"));
        if copy_index(&ours, &copy).is_err() {
            // Killed between the state and the index: make it again. It has no times of files, so git compares their content.
            let _ = fs::remove_file(&copy);
            self.git(goal, Repository::Ours).index(&copy).args(["read-tree", tree.as_str()]).ok().await?;
        }
        Ok(copy)
    }

    pub(crate) fn rules(&self, goal: &Goal) -> Rules {
        let config = &self.parts.config;
        Rules {
            leave_out: self.leave_out.clone(),
            keep: self.keep.clone(),
            redactor: self.parts.redactor.clone(),
            max_file_bytes: config.max_file_bytes,
            max_total_bytes: config.max_checkpoint_bytes,
            max_new_files: config.max_new_files,
            submodules: goal.record.submodules.iter().cloned().collect(),
            setup: BTreeMap::new(),
        }
    }

    /// Checks and copies what changed in a checkout.
    pub(crate) async fn stage_work(&self, goal: &Goal, name: &str, work: &Path, index: &Path) -> Result<Staged, Error> {
        // In the user's own checkout the user's attributes say what a change is.
        let repository = if goal.record.options.in_place { Repository::Ours } else { Repository::Plain };
        let scan = Arc::new(self.scan(goal, repository, work, index).await?);
        let places = goal.places.clone();
        let rules = Rules { setup: self.files_of_setup(goal, name).await?, ..self.rules(goal) };
        let (from, to) = (work.to_owned(), goal.places.stage(name));
        let included = goal.record.included.clone();
        blocking(move || {
            places.remove(&to)?;
            make_directory(&to)?;
            let mut staged = stage(&from, &to, &scan, &rules)?;
            // Copies of the user's files are not the worker's.
            staged.left_out.retain(|left| !included.contains(&left.path));
            Ok(staged)
        })
        .await
    }

    /// Puts what is staged into the index, which has exactly the files of `parent_tree`, and writes its tree to the user's objects.
    pub(crate) async fn write_tree(
        &self,
        goal: &Goal,
        name: &str,
        index: &Path,
        staged: &Staged,
        (parent_tree, attributes): (&Oid, Attributes),
    ) -> Result<Oid, Error> {
        let to = goal.places.stage(name);
        match attributes {
            Attributes::Base => self.add_with_base_attributes(goal, &to, index, staged, parent_tree).await?,
            Attributes::Files => self.add_staged(goal, &to, index, &staged.deleted, &staged.copied).await?,
        }
        let tree = self.git(goal, Repository::Shared).index(index).args(["write-tree"]).ok().await?.oid()?;
        let places = goal.places.clone();
        blocking(move || places.remove(&to)).await?;
        Ok(tree)
    }

    pub(crate) async fn commit_tree(
        &self,
        goal: &Goal,
        tree: &Oid,
        parents: &[&Oid],
        message: &str,
        at: i64,
    ) -> Result<Oid, Error> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
        let message = format!("{}\n", message.replace('\0', " ").trim_end());
        let git = self.git(goal, Repository::Shared).at(at).args(["commit-tree", tree.as_str()]).args(parents);
        git.input(message.into_bytes()).ok().await?.oid()
    }
}
