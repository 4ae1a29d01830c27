//! Everything that the goals of a project have outside of its data: checkouts, and refs in repositories of the user.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_checkout::{self as checkout, Checkouts, ResultBranch, Sandbox};
use drawloom_contract::redact::Redactor;
use drawloom_process::{Confined, Launcher, Limits, Network};

use super::workspace::told;
use crate::{clock::SystemClock, data_dir::DataDir, environment, exit::CommandError, resolve::LAUNCHER};

/// What was removed, and what was not.
#[derive(Debug, Default)]
pub(crate) struct ForgottenGoals {
    pub refs: u64,
    /// Branches with results, which stay, with their repositories.
    pub branches: Vec<(PathBuf, String)>,
    /// Refs that may be left, with the reasons.
    pub problems: Vec<String>,
}

/// Removes the checkouts of a project, whose data is owned, and the refs of its goals. Refs of a repository that is gone or cannot be
/// changed are only reported.
pub(crate) async fn forget_all(data: &DataDir, root: &Path) -> Result<ForgottenGoals, CommandError> {
    let mut done = ForgottenGoals::default();
    if !root.is_dir() {
        return Ok(done);
    }
    let failed = |error: checkout::Error| CommandError::failed("cannot_remove", told(&error));
    let checkouts = open(data, root).map_err(failed)?;
    for goal in checkouts.list().await.map_err(failed)? {
        match checkouts.forget(&goal, ResultBranch::Keep).await {
            Ok(forgotten) => {
                done.refs += forgotten.refs as u64;
                done.problems.extend(forgotten.left);
                done.branches.extend(forgotten.repository.zip(forgotten.branch.map(|(branch, _)| branch)));
            }
            Err(error) => {
                done.problems.push(format!("refs/drawloom/{goal}/ of its repository may be left: {}", told(&error)));
                checkouts.forget_directory(&goal).await.map_err(failed)?;
            }
        }
    }
    fs::remove_dir_all(root)
        .map_err(|error| CommandError::failed("cannot_remove", format!("cannot remove {}: {error}", root.display())))?;
    Ok(done)
}

fn open(data: &DataDir, root: &Path) -> Result<Checkouts, checkout::Error> {
    let given = ["PATH", "HOME"].into_iter();
    let environment = given.filter_map(|name| Some((name.to_owned(), environment::variable(name)?))).collect();
    Checkouts::new(checkout::Parts {
        root: root.to_owned(),
        launcher: Launcher::this_program(&[LAUNCHER]),
        temporary: data.path().join("tmp"),
        clock: Arc::new(SystemClock),
        redactor: Arc::new(Redactor::new([""; 0])),
        environment,
        sandbox: Sandbox {
            confined: Confined::Yes,
            network: Network::None,
            readable: Vec::new(),
            writable: Vec::new(),
            home: environment::home(),
            limits: Limits::default(),
        },
        directories: Vec::new(),
        config: checkout::Config::default(),
    })
}
