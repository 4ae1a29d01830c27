//! What workers left of goals that were cancelled: commits in the user's repository, made when no process can change it any more.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use drawloom_contract::ids::RunId;
use drawloom_process::{Remains, until_gone};
use drawloom_wire::goals::GoalLeft;

use super::{
    Repositories,
    workspace::{seconds, told},
};

/// How long processes of a goal that has ended may take to end.
const OVER_WITHIN: Duration = Duration::from_secs(60);

impl Repositories {
    /// Commits what lies in the checkouts of a goal that was cut off. `roles` are the runs that worked for it.
    pub(super) async fn keep_left(&self, goal: RunId, roles: &[RunId]) -> Result<Vec<GoalLeft>, String> {
        self.until_over(goal, roles).await?;
        let (goal, at) = (goal.to_string(), seconds(self.now()));
        let kept = self.checkouts().await?.last_checkpoints(&goal, at).await.map_err(|error| told(&error))?;
        let left = kept.into_iter().filter_map(|(checkout, made)| {
            let files = made.changed.into_iter().map(|change| change.path).collect();
            Some(GoalLeft { checkout, reference: made.reference?, commit: made.commit?.into(), files })
        });
        Ok(left.collect())
    }

    /// Returns when no process of the goal can be alive: each one's launcher holds a lock until its whole tree has ended.
    pub(super) async fn until_over(&self, goal: RunId, roles: &[RunId]) -> Result<(), String> {
        for temporary in self.commands_of(goal, roles).await? {
            if until_gone(&temporary, OVER_WITHIN, self.clock()).await == Remains::Running {
                let seconds = OVER_WITHIN.as_secs();
                return Err(format!(
                    "a process of goal {goal} still runs {seconds} seconds after its end; try again later"
                ));
            }
        }
        Ok(())
    }

    /// The temporary directories of the goal's commands: of coding CLIs (`cli-<run>-…`), and of setup and verify commands
    /// (`checkout-<number>-<goal>`).
    async fn commands_of(&self, goal: RunId, roles: &[RunId]) -> Result<BTreeSet<PathBuf>, String> {
        let prefixes: Vec<String> = roles.iter().map(|role| format!("cli-{role}-")).collect();
        let suffix = format!("-{goal}");
        let mut found = BTreeSet::new();
        let failed = |error: std::io::Error| format!("cannot list {}: {error}", self.temporary().display());
        let mut entries = match tokio::fs::read_dir(self.temporary()).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            entries => entries.map_err(failed)?,
        };
        while let Some(entry) = entries.next_entry().await.map_err(failed)? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".lock").unwrap_or(&name);
            let is_command = name.starts_with("checkout-") && name.ends_with(&suffix);
            if is_command || prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                found.insert(self.temporary().join(name));
            }
        }
        Ok(found)
    }
}
