//! Goals without isolation: workers change the user's own checkout, one after another. Checkpoints, verification and the goal's branch
//! are those of every goal. Nothing there is reset or removed by us: only workers change files, and only checkpoints read them.

use std::{fs, path::Path};

use sha2::{Digest as _, Sha256};

use crate::{
    add::Kind,
    checkouts::Checkouts,
    clean::states,
    error::Error,
    git::Repository,
    names::shown,
    oid::Oid,
    places::{blocking, check_real, make_directory, write_file},
    scan::Scan,
    state::{Goal, State},
};

/// Most paths that an error names.
const MOST_NAMED: usize = 5;

/// Refuses a checkout with changes: they could not be told from those of workers.
pub(crate) fn check_clean(goal: &Goal, scan: &Scan, is_head: bool) -> Result<(), Error> {
    let directory = goal.record.prepared.repository.clone();
    if !is_head {
        return Err(Error::InPlace { directory, reason: "the base is not what is checked out".into() });
    }
    if scan.changed.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = scan.changed.keys().take(MOST_NAMED).map(|path| shown(path)).collect();
    let more = scan.changed.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(Error::NotClean { directory, files: format!("{}{more}", named.join(", ")) })
}

impl Goal {
    /// Says what it means to work in the user's checkout.
    pub(crate) fn warn_in_place(&mut self) {
        if self.record.options.in_place {
            let (base, prepared) = (format!("refs/drawloom/{}/base", self.record.goal), &mut self.record.prepared);
            prepared.warnings.push(format!(
                "not isolated: workers change {} itself, one at a time; its state before is kept as {base} (to go back: git reset --hard \
                 {base} && git clean -fd)",
                prepared.repository.display()
            ));
        }
    }
}

impl Checkouts {
    /// Claims the user's checkout for a goal that works in it. Two goals that change the same files would commit each other's work.
    pub(crate) async fn claim(&self, goal: &Goal) -> Result<(), Error> {
        if !goal.record.options.in_place {
            return Ok(());
        }
        let directory = goal.record.prepared.repository.clone();
        let (reference, claim) = (claim_of(&directory), self.claim_object(goal, "-w").await?);
        self.make_durable(goal, vec![claim.clone()]).await?;
        match self.move_ref(goal, &reference, &claim, None).await {
            Err(Error::RefTaken { .. }) => {
                self.check_free(goal).await?;
                self.move_ref(goal, &reference, &claim, None).await?;
            }
            claimed => claimed?,
        }
        let (path, top) = (goal.places.in_place(), directory.display().to_string());
        blocking(move || write_file(&path, top.as_bytes())).await
    }

    /// Refuses a checkout that another goal has.
    pub(crate) async fn check_free(&self, goal: &Goal) -> Result<(), Error> {
        let directory = goal.record.prepared.repository.clone();
        let reference = claim_of(&directory);
        let Some(found) = self.read_ref(goal, &reference).await? else { return Ok(()) };
        let held = self.git(goal, Repository::Ours).args(["cat-file", "blob", found.as_str()]).ok().await?.text()?;
        match held == goal.name() {
            true => Ok(()),
            false => Err(Error::InPlaceTaken { directory, goal: held, reference }),
        }
    }

    /// Gives the user's checkout back. Every end of a goal comes here.
    pub(crate) async fn release(&self, goal: &Goal) -> Result<(), Error> {
        if !goal.record.options.in_place {
            return Ok(());
        }
        let reference = claim_of(&goal.record.prepared.repository);
        let claim = self.claim_object(goal, "--no-filters").await?;
        if self.read_ref(goal, &reference).await?.as_ref() == Some(&claim) {
            let _ = fs::remove_file(goal.record.common.join(format!("{reference}.lock")));
            let git = self.git(goal, Repository::Users);
            git.args(["update-ref", "--no-deref", "-d", &reference, claim.as_str()]).ok().await?;
        }
        Ok(())
    }

    /// The object that a claim is: the name of its goal.
    async fn claim_object(&self, goal: &Goal, option: &str) -> Result<Oid, Error> {
        let git = self.git(goal, Repository::Shared).args(["hash-object", option, "--stdin"]);
        git.input(goal.name().as_bytes().to_vec()).ok().await?.oid()
    }

    /// The next worker in the user's checkout. It replaces the one before, whose work is in a checkpoint.
    pub(crate) async fn take_over(&self, goal: &Goal, name: &str, commit: &Oid) -> Result<State, Error> {
        self.check_branch(goal).await?;
        let tree = self.tree_of(goal, commit).await?;
        let port = self.lease_ports(goal.name(), name, None).await?;
        for (other, _) in states(goal).await?.into_iter().filter(|(_, state)| state.kind == Kind::Writer) {
            let path = goal.places.state(&other);
            fs::remove_file(&path).map_err(Error::file("remove", path))?;
        }
        make_directory(&goal.places.temporary(name))?;
        let state = State {
            kind: Kind::Writer,
            parent: commit.clone(),
            parent_tree: tree,
            resetting: None,
            number: 0,
            checkpoints: Vec::new(),
            // The user's checkout is set up as the user wants it.
            is_set_up: true,
            port,
        };
        goal.save_state(name, &state).await?;
        Ok(state)
    }

    /// Refuses to go on when another branch was checked out: its files would look like the work of the next worker.
    async fn check_branch(&self, goal: &Goal) -> Result<(), Error> {
        let prepared = &goal.record.prepared;
        check_real(&prepared.repository)?;
        self.check_opened_again(&goal.record.opened())?;
        let git = self.git_in(goal.name(), &prepared.repository);
        let found = git.args(["symbolic-ref", "--quiet", "--short", "HEAD"]).run(&[0, 1]).await?;
        let found = if found.code == 0 { Some(found.text()?) } else { None };
        if found == prepared.base_branch {
            return Ok(());
        }
        let called = |branch: &Option<String>| branch.clone().unwrap_or_else(|| "no branch".into());
        let reason = format!("{} is checked out now, and it was {}", called(&found), called(&prepared.base_branch));
        Err(Error::InPlace { directory: prepared.repository.clone(), reason })
    }
}

/// The ref that says which goal has a checkout of the user. It is in the repository, so that other servers see it too.
fn claim_of(directory: &Path) -> String {
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("refs/drawloom/in-place/{name}")
}
