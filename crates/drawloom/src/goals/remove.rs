//! Removing an ended goal: its branch, refs, checkouts and folder, also when its repository is gone.

use drawloom_checkout as checkout;
use drawloom_contract::{
    failure::{Explain as _, Failure, FailureKind},
    ids::RunKey,
};
use drawloom_goal::Story;
use drawloom_server::GoalHost as _;
use drawloom_wire::goals::GoalRemoved;

use super::{Host, workspace::told};

impl Host {
    pub(super) async fn remove_goal(&self, key: &RunKey, goal: &Story) -> Result<GoalRemoved, Failure> {
        let opened = self.repositories.checkouts().await;
        let checkouts = opened.map_err(|problem| Failure::new(FailureKind::Invalid, "checkouts", problem))?;
        let failed = |error: checkout::Error| Failure::new(error.kind(), error.code(), told(&error));
        let name = key.run.to_string();
        if goal.is_cut_off() {
            // Processes of its workers may still end.
            let over = self.folders.until_over(key).await;
            over.map_err(|problem| Failure::new(FailureKind::Unavailable, "not_kept_yet", problem))?;
            if checkouts.has_repository(&name).await.map_err(failed)? {
                self.left(key).await?;
            }
        }
        let forgotten = checkouts.forget(&name, checkout::ResultBranch::Remove).await.map_err(failed)?;
        let (branch, commit) = forgotten.branch.map(|(branch, at)| (branch, String::from(at))).unzip();
        Ok(GoalRemoved {
            run_id: key.run,
            repository: goal.place().0,
            branch,
            commit,
            refs: forgotten.refs as u64,
            bytes: forgotten.bytes,
            left: forgotten.left,
        })
    }
}
