//! What is remembered of a goal and of each checkout, in files that are written whole.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    add::Kind,
    checkouts::{Checkouts, check_names},
    checkpoint::Checkpoint,
    error::Error,
    names,
    oid::Oid,
    places::{Places, blocking, read_json, write_json},
    prepare::{Prepare, Prepared},
    private::write_plain,
};

/// A goal that is prepared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) goal: String,
    pub(crate) directory: PathBuf,
    pub(crate) options: Prepare,
    pub(crate) prepared: Prepared,
    /// The git directory that all worktrees of the user's repository share.
    pub(crate) common: PathBuf,
    /// The inode of that directory, to notice another one in its place.
    #[serde(default)]
    pub(crate) inode: Option<u64>,
    /// Where the user's repository has its objects.
    pub(crate) objects: PathBuf,
    /// Other object directories that it borrows from.
    pub(crate) borrowed: Vec<PathBuf>,
    /// Submodules of the base, as paths.
    pub(crate) submodules: BTreeSet<String>,
    /// The files that every checkout gets as copies.
    pub(crate) included: Vec<String>,
    /// Whether this is about removing its checkouts. That is possible after its repository has left the allowed directories: it was in
    /// them when the goal was prepared, and unsaved work must still get its ref.
    #[serde(skip)]
    pub(crate) is_cleaned: bool,
}

/// A checkout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) kind: Kind,
    /// What the next checkpoint builds on.
    pub(crate) parent: Oid,
    pub(crate) parent_tree: Oid,
    /// The commit that a reset is bringing it to, until it is done.
    pub(crate) resetting: Option<Oid>,
    /// The number of the last checkpoint.
    pub(crate) number: u32,
    /// Answers by key, so that a repeated call gives the same.
    pub(crate) checkpoints: Vec<(String, Checkpoint)>,
    /// Whether the setup command has run.
    pub(crate) is_set_up: bool,
    /// The first of the leased ports.
    pub(crate) port: u16,
}

/// A goal and where it lies.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    pub(crate) record: Record,
    pub(crate) places: Places,
}

impl Goal {
    pub(crate) fn name(&self) -> &str {
        &self.record.goal
    }

    /// Where a checkout is: below our root, or what the user has checked out.
    pub(crate) fn work(&self, name: &str, kind: Kind) -> PathBuf {
        match self.is_in_place(kind) {
            true => self.record.prepared.repository.clone(),
            false => self.places.work(name),
        }
    }

    /// Whether checkouts of this kind are the user's own.
    pub(crate) fn is_in_place(&self, kind: Kind) -> bool {
        kind == Kind::Writer && self.record.options.in_place
    }

    /// What programs in a checkout must be able to read besides, to use git in it.
    pub(crate) fn readable(&self, kind: Kind) -> Vec<PathBuf> {
        let record = &self.record;
        // The git directory of a linked worktree lies elsewhere.
        let common = self.is_in_place(kind).then_some(&record.common);
        [&record.objects].into_iter().chain(&record.borrowed).chain(common).cloned().collect()
    }

    pub(crate) async fn state(&self, name: &str) -> Result<State, Error> {
        let found = self.find_state(name).await?;
        found.ok_or_else(|| Error::UnknownCheckout { goal: self.record.goal.clone(), name: name.to_owned() })
    }

    pub(crate) async fn find_state(&self, name: &str) -> Result<Option<State>, Error> {
        let path = self.places.state(name);
        blocking(move || read_json(&path)).await
    }

    pub(crate) async fn save_state(&self, name: &str, state: &State) -> Result<(), Error> {
        let (path, state) = (self.places.state(name), state.clone());
        blocking(move || write_json(&path, &state)).await
    }
}

impl Checkouts {
    /// The goal, which must be prepared.
    pub(crate) async fn goal(&self, goal: &str) -> Result<Goal, Error> {
        self.find_goal(goal).await?.ok_or_else(|| Error::UnknownGoal { goal: goal.to_owned() })
    }

    pub(crate) async fn find_goal(&self, goal: &str) -> Result<Option<Goal>, Error> {
        names::check("goal", goal)?;
        let places = self.places(goal);
        let own = places.clone();
        let record = blocking(move || {
            let record: Option<Record> = read_json(&own.record())?;
            // Goals of an earlier version have none, and neither have those whose preparation was killed.
            if let Some(record) = record.as_ref().filter(|_| !own.plain_git().join("HEAD").exists()) {
                write_plain(&own, &record.objects)?;
            }
            Ok::<_, Error>(record)
        });
        Ok(record.await?.map(|record| Goal { record, places }))
    }

    /// The goal and one of its checkouts.
    pub(crate) async fn goal_with(&self, goal: &str, name: &str) -> Result<(Goal, State), Error> {
        check_names(goal, name)?;
        let goal = self.goal(goal).await?;
        let state = goal.state(name).await?;
        Ok((goal, state))
    }
}
