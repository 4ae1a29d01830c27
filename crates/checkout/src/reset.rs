//! Bringing a writable checkout to another commit.

use std::fs;

use crate::{
    attributes::Attributes,
    checkouts::Checkouts,
    error::Error,
    oid::Oid,
    places::check_real,
    stage::LeftOut,
    state::{Goal, State},
};

/// Most paths that an error names.
const MOST_NAMED: usize = 10;

/// What of a checkout is in no checkpoint: a few paths of each kind.
pub(crate) struct Unsaved {
    /// What the next checkpoint would have.
    pub(crate) changed: Vec<String>,
    /// What checkpoints leave out, except what can be made again.
    pub(crate) left_out: Vec<String>,
}

impl Checkouts {
    /// Brings a writable checkout to a commit, for the next step of its worker. Refused when it has changes that are in no
    /// checkpoint. Ignored files stay, so that builds are quick; files that checkpoints left out stay where the commit has no
    /// file. Its clone is made anew: what the worker did with git in it is gone.
    pub async fn reset(&self, goal: &str, name: &str, commit: &Oid) -> Result<(), Error> {
        let _lock = self.lock(goal, name).await;
        let (goal, mut state) = self.goal_with(goal, name).await?;
        if goal.record.options.in_place {
            let reason = "what the user has checked out is never replaced";
            return Err(Error::Invalid { what: "checkout name", value: name.to_owned(), reason });
        }
        check_real(&goal.places.work(name))?;
        let tree = self.tree_of(&goal, commit).await?;
        if state.resetting.as_ref() != Some(commit) {
            let unsaved = self.unsaved(&goal, name, &state).await?;
            if !unsaved.changed.is_empty() {
                return Err(Error::Unsaved { name: name.to_owned(), paths: unsaved.changed });
            }
            state.resetting = Some(commit.clone());
            goal.save_state(name, &state).await?;
        }
        let next = self.index_of(&goal, name, &state.parent_tree).await?;
        self.write_files(&goal, &goal.places.work(name), &next, &tree).await?;
        let index = goal.places.index(name, &tree);
        fs::rename(&next, &index).map_err(Error::file("replace", index))?;
        self.make_private(&goal, name, commit, &tree).await?;
        let old = goal.places.index(name, &state.parent_tree);
        (state.parent, state.parent_tree, state.resetting) = (commit.clone(), tree.clone(), None);
        goal.save_state(name, &state).await?;
        if old != goal.places.index(name, &tree) {
            let _ = fs::remove_file(old);
        }
        Ok(())
    }

    /// What is in no checkpoint.
    pub(crate) async fn unsaved(&self, goal: &Goal, name: &str, state: &State) -> Result<Unsaved, Error> {
        let index = self.index_of(goal, name, &state.parent_tree).await?;
        let staged = self.stage_work(goal, name, &goal.work(name, state.kind), &index).await?;
        let is_lost = |left: &&LeftOut| !left.reason.can_be_made_again();
        let left_out = staged.left_out.iter().filter(is_lost).take(MOST_NAMED).map(|left| left.path.clone()).collect();
        let mut unsaved = Unsaved { changed: Vec::new(), left_out };
        if !staged.is_empty() {
            let parent = (&state.parent_tree, Attributes::Base);
            if self.write_tree(goal, name, &index, &staged, parent).await? != state.parent_tree {
                unsaved.changed = staged.paths().take(MOST_NAMED).map(|path| crate::names::shown(path)).collect();
            }
        }
        Ok(unsaved)
    }
}
