//! Merging workers' commits on the goal's branch, without any checkout.

use serde::{Deserialize, Serialize};

use crate::{checkouts::Checkouts, error::Error, git::Repository, git::parts, names::shown, oid::Oid, state::Goal};

/// The outcome of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Merge {
    /// The goal's branch is at this commit now.
    Merged { commit: Oid, tree: Oid },
    /// The branch contains these changes already.
    Nothing,
    /// The branch did not move.
    Conflict {
        files: Vec<String>,
        /// What git says, and the files with conflict markers as a difference, cut.
        output: String,
    },
}

/// Most bytes of the output of a conflict.
const MOST_OUTPUT: usize = 32 * 1024;

/// What `merge-tree` answers.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    tree: Oid,
    conflicts: Vec<Vec<u8>>,
    messages: String,
}

impl Checkouts {
    /// Merges a commit into the goal's branch, which must be at `head`; the base counts as the head of a branch that is not there
    /// yet. A merge that was made already is answered again.
    pub async fn merge(&self, goal: &str, head: &Oid, commit: &Oid, message: &str, at: i64) -> Result<Merge, Error> {
        let _refs = self.lock_refs(goal).await;
        let goal = self.goal(goal).await?;
        let (head_tree, _) = tokio::try_join!(self.tree_of(&goal, head), self.tree_of(&goal, commit))?;
        let (is_in, answer) =
            tokio::try_join!(self.is_ancestor(&goal, commit, head), self.merge_trees(&goal, head, commit))?;
        if is_in {
            return Ok(Merge::Nothing);
        }
        if !answer.conflicts.is_empty() {
            return self.conflict(&goal, commit, answer).await;
        }
        if answer.tree == head_tree {
            return Ok(Merge::Nothing);
        }
        let parents = [head, commit];
        let (merged, changes) = tokio::try_join!(
            self.commit_tree(&goal, &answer.tree, &parents, message, at),
            self.changes(&goal, &head_tree, &answer.tree)
        )?;
        let new = [merged.clone(), answer.tree.clone()];
        self.make_durable(&goal, changes.objects.into_iter().chain(new).collect()).await?;
        self.advance(&goal, head, &merged).await?;
        Ok(Merge::Merged { commit: merged, tree: answer.tree })
    }

    async fn merge_trees(&self, goal: &Goal, head: &Oid, commit: &Oid) -> Result<Answer, Error> {
        let asked = ["merge-tree", "--write-tree", "-z", "--name-only", "--messages", head.as_str(), commit.as_str()];
        let answer = self.git(goal, Repository::Shared).args(asked).run(&[0, 1]).await?;
        let (code, answer) = (answer.code, answer.bytes()?);
        let read = parse(&answer, code == 1);
        read.ok_or_else(|| Error::GitAnswer {
            command: "merge-tree".into(),
            answer: String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned(),
        })
    }

    async fn conflict(&self, goal: &Goal, commit: &Oid, answer: Answer) -> Result<Merge, Error> {
        let files: Vec<String> = answer.conflicts.iter().map(|path| shown(path)).collect();
        let paths = answer.conflicts.iter().filter_map(|path| String::from_utf8(path.clone()).ok()).take(100);
        let paths: Vec<String> = paths.collect();
        let theirs = self.tree_of(goal, commit).await?;
        let (patch, _) = self.patch(goal, &theirs, &answer.tree, &paths, MOST_OUTPUT).await?;
        let messages = drawloom_process::cut(&answer.messages, MOST_OUTPUT / 4);
        let output = self.parts.redactor.clean(format!("{messages}\n{patch}")).into_inner();
        Ok(Merge::Conflict { files, output })
    }

    /// Moves the goal's branch from `head` to `merged`.
    async fn advance(&self, goal: &Goal, head: &Oid, merged: &Oid) -> Result<(), Error> {
        let prepared = &goal.record.prepared;
        let reference = format!("refs/heads/{}", prepared.branch);
        let (found, worktree) =
            tokio::try_join!(self.read_ref(goal, &reference), self.checked_out(goal, &prepared.branch))?;
        let from = match &found {
            Some(found) if found == merged => return Ok(()),
            Some(found) if found == head => Some(head),
            None if *head == prepared.base => None,
            other => {
                let found = other.as_ref().map_or_else(|| "no commit".to_owned(), Oid::to_string);
                return Err(Error::HeadMoved { branch: prepared.branch.clone(), expected: head.clone(), found });
            }
        };
        match worktree {
            Some(worktree) => Err(Error::CheckedOut { branch: prepared.branch.clone(), worktree }),
            None => self.move_ref(goal, &reference, merged, from).await,
        }
    }
}

/// Reads the answer of `merge-tree --write-tree -z --name-only --messages`.
fn parse(answer: &[u8], is_conflict: bool) -> Option<Answer> {
    let mut parts = parts(answer).into_iter();
    let tree = Oid::parse(std::str::from_utf8(&parts.next()?).ok()?).ok()?;
    let mut conflicts = Vec::new();
    if is_conflict {
        conflicts.extend(parts.by_ref().take_while(|part| !part.is_empty()));
    } else {
        parts.next();
    }
    let mut messages = String::new();
    while let Some(count) = parts.next() {
        let count: usize = std::str::from_utf8(&count).ok()?.parse().ok()?;
        let message = parts.nth(count + 1)?;
        messages.push_str(&String::from_utf8_lossy(&message));
    }
    Some(Answer { tree, conflicts, messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_merges_are_read() {
        let tree = "a".repeat(40);
        let clean = parse(format!("{tree}\0").as_bytes(), false).expect("it can be read");
        assert_eq!((clean.tree.as_str(), clean.conflicts.len()), (tree.as_str(), 0));
        let answer = format!(
            "{tree}\0a\0b c\0\x001\0a\0Auto-merging\0Auto-merging a\n\x001\0a\0CONFLICT (contents)\0CONFLICT in a\n\0"
        );
        let conflict = parse(answer.as_bytes(), true).expect("it can be read");
        assert_eq!(conflict.conflicts, [b"a".to_vec(), b"b c".to_vec()]);
        assert_eq!(conflict.messages, "Auto-merging a\nCONFLICT in a\n");
        assert_eq!(parse(b"nonsense\0", false), None);
    }
}
