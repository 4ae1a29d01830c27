//! What lies in a checkout now: its size, and what no checkpoint has yet.

use serde::Serialize;

use crate::{
    add::Kind,
    attributes::Attributes,
    checkouts::Checkouts,
    clean::bytes_in,
    diff::{Change, Changes},
    error::Error,
    oid::Oid,
    places::{blocking, check_real},
    stage::LeftOut,
};

/// What lies in a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// What it takes on the disk.
    pub bytes: u64,
    /// Its last checkpoint, or what it started from.
    pub parent: Oid,
    /// The tree that a checkpoint would have now. It is in the repository, and no ref keeps it.
    pub tree: Oid,
    /// What a checkpoint would add to `parent`.
    pub changed: Vec<Change>,
    /// What a checkpoint would leave out. Removing the checkout loses it.
    pub left_out: Vec<LeftOut>,
}

impl Checkouts {
    /// Looks at a checkout and makes no commit. A read-only checkout has nothing of its own.
    pub async fn contents(&self, goal: &str, name: &str) -> Result<Contents, Error> {
        let _lock = self.lock(goal, name).await;
        let (goal, state) = self.goal_with(goal, name).await?;
        let work = goal.work(name, state.kind);
        check_real(&work)?;
        let measured = work.clone();
        let mut contents = Contents {
            bytes: blocking(move || bytes_in(&measured)).await,
            parent: state.parent,
            tree: state.parent_tree,
            changed: Vec::new(),
            left_out: Vec::new(),
        };
        if state.kind == Kind::ReadOnly {
            return Ok(contents);
        }
        let index = self.index_of(&goal, name, &contents.tree).await?;
        let staged = self.stage_work(&goal, name, &work, &index).await?;
        if !staged.is_empty() {
            let parent = (&contents.tree, Attributes::Base);
            let tree = self.write_tree(&goal, name, &index, &staged, parent).await?;
            let Changes { files, .. } = self.changes(&goal, &contents.tree, &tree).await?;
            (contents.tree, contents.changed) = (tree, files);
        }
        contents.left_out = staged.left_out;
        Ok(contents)
    }
}
