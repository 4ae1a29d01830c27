//! Verifying a commit outside of any worker: a fresh checkout of its tree, set up, with protected paths as the base has them.

mod held;
mod protect;
mod run;

use std::{path::PathBuf, time::Duration};

use drawloom_contract::time::Instant;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use protect::Tampered;
use protect::{Protected, ProtectedFile};
pub use run::CommandResult;

use crate::{
    checkouts::Checkouts,
    error::Error,
    names,
    oid::Oid,
    places::{blocking, read_json, write_json},
    state::Goal,
};

/// What to verify.
#[derive(Debug, Clone)]
pub struct Verify {
    pub commit: Oid,
    pub commands: Vec<VerifyCommand>,
    /// Globs of paths that workers must not change, such as tests and the configuration of verifiers. They are restored from
    /// the base, byte for byte: what workers changed, added or deleted there has no effect, and a command that changes one of them
    /// fails.
    pub protect: Vec<String>,
    /// What protected paths are restored from; the base of the goal when absent.
    pub base: Option<Oid>,
    /// Whether the commands must fail on the base.
    pub witness: bool,
    /// The name of the checkout.
    pub key: String,
    /// How long all commands may take together, the witness included; without a limit when absent.
    pub within: Option<Duration>,
}

/// A command that must succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyCommand {
    pub name: String,
    pub program: Program,
    /// In seconds; the configured timeout when absent.
    pub timeout_seconds: Option<u64>,
}

/// How a command is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// For `/bin/sh -c`.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

/// The result of a verification. It is about exactly this tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Whether all commands succeeded, no protected path was changed, and the witness, if one was asked for, was red.
    pub passed: bool,
    /// The tree of the commit.
    pub tree: Oid,
    /// The tree that was checked out: the same with protected paths of the base.
    pub protected_tree: Oid,
    /// Of the commands and of what they run with.
    pub digest: String,
    pub results: Vec<CommandResult>,
    /// Whether the commands failed on the base. Absent when no witness was asked for, or the commands failed.
    pub red_before: Option<bool>,
    /// Protected paths that the commit changed; they were restored.
    pub tampered: Vec<Tampered>,
    /// Tracked files that the commands changed.
    pub changed_by_commands: Vec<String>,
    /// Why it did not pass, and what else is noteworthy, in sentences.
    pub reasons: Vec<String>,
    /// Whether the results are those of an earlier run with the same tree and commands.
    pub cached: bool,
}

/// What the commands answered for one tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outcome {
    results: Vec<CommandResult>,
    changed: Vec<String>,
}

impl Outcome {
    fn is_green(&self) -> bool {
        self.results.iter().all(|result| result.ok)
    }

    /// Whether a command said no. One that did not finish said nothing.
    fn is_red(&self) -> bool {
        self.results.iter().any(|result| !result.timed_out && result.exit_code.is_some_and(|code| code != 0))
    }
}

impl Checkouts {
    /// Runs the commands on a fresh checkout of the commit's tree. Results for a tree are remembered, unless a command timed out.
    pub async fn verify(&self, goal: &str, verify: &Verify) -> Result<Verified, Error> {
        names::check("key", &verify.key)?;
        let _lock = self.lock(goal, &format!(".verify/{}", verify.key)).await;
        let goal = self.goal(goal).await?;
        let base = verify.base.as_ref().unwrap_or(&goal.record.prepared.base);
        let (tree, base_tree) = tokio::try_join!(self.tree_of(&goal, &verify.commit), self.tree_of(&goal, base))?;
        let Protected { tree: protected_tree, tampered, files, unused } =
            self.protect(&goal, verify, &tree, &base_tree).await?;
        let digest = self.digest_of(&goal, verify, &base_tree);
        let until = verify.within.map(|within| self.parts.clock.now().after(within));
        let (outcome, cached) = self.outcome(&goal, verify, (&protected_tree, &files, &digest), until).await?;
        let before = match verify.witness && outcome.is_green() {
            true => Some(self.outcome(&goal, verify, (&base_tree, &files, &digest), until).await?.0),
            false => None,
        };
        let red_before = before.as_ref().map(Outcome::is_red);
        let mut reasons = reasons(&outcome, before.as_ref(), &tampered);
        reasons.extend(unused.iter().map(|glob| format!("the protected glob {glob:?} matches no file of the base")));
        Ok(Verified {
            // A commit that changes what it must not change is not accepted, whatever the commands say of the rest.
            passed: outcome.is_green() && red_before != Some(false) && tampered.is_empty(),
            tree,
            protected_tree,
            digest,
            results: outcome.results,
            red_before,
            tampered,
            changed_by_commands: outcome.changed,
            reasons,
            cached,
        })
    }

    /// Of the commands and of all that can change their answer, besides the tree.
    fn digest_of(&self, goal: &Goal, verify: &Verify, base_tree: &Oid) -> String {
        let sandbox = &self.parts.sandbox;
        let surroundings = format!("{:?} {:?} {:?}", sandbox.confined, sandbox.network, sandbox.limits);
        let path = self.parts.environment.iter().find(|(name, _)| name == "PATH");
        let asked = (&verify.commands, &verify.protect, base_tree, self.setup_of(goal));
        hex(&serde_json::to_vec(&(asked, surroundings, path)).unwrap_or_default())
    }

    /// What the commands answer for a tree, and whether that was known.
    async fn outcome(
        &self,
        goal: &Goal,
        verify: &Verify,
        (tree, protected, digest): (&Oid, &[ProtectedFile], &str),
        until: Option<Instant>,
    ) -> Result<(Outcome, bool), Error> {
        let path: PathBuf = goal.places.verdict(&hex(format!("{tree} {digest}").as_bytes()));
        let known = path.clone();
        if let Some(known) = blocking(move || read_json(&known)).await? {
            return Ok((known, true));
        }
        let outcome = self.run_commands(goal, verify, (tree, protected), until).await?;
        if !outcome.results.iter().any(|result| result.timed_out || result.exit_code.is_none()) {
            let saved = outcome.clone();
            blocking(move || write_json(&path, &saved)).await?;
        }
        Ok((outcome, false))
    }
}

fn reasons(outcome: &Outcome, before: Option<&Outcome>, tampered: &[Tampered]) -> Vec<String> {
    let mut reasons = Vec::new();
    for result in outcome.results.iter().filter(|result| !result.ok) {
        let how = result.error.clone().unwrap_or_else(|| "it failed".into());
        reasons.push(format!("the command {:?} failed: {how}", result.name));
    }
    if let Some(before) = before.filter(|before| !before.is_red()) {
        reasons.push(match before.results.iter().find(|result| !result.ok) {
            None => "the commands succeed on the base too, so they do not show that anything was done".into(),
            Some(result) => format!(
                "on the base the command {:?} did not finish, so it does not show that anything was done: {}",
                result.name,
                result.error.as_deref().unwrap_or("it was ended")
            ),
        });
    }
    for tampered in tampered {
        reasons.push(format!(
            "the protected path {} was {}; it was verified as the base has it, and the work must leave it so",
            tampered.path,
            tampered.how()
        ));
    }
    for path in &outcome.changed {
        reasons.push(format!("the commands changed the tracked file {path}; it was restored before the next command, and the change is not part of the commit"));
    }
    reasons
}

/// The digest of these bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
