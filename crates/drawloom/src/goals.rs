//! Goals of an instance: their agents, their repository, their folders, and what callers may ask of them.

mod agents;
mod backends;
mod folder;
mod forget;
mod host;
mod left;
mod models;
mod remove;
mod volumes;
mod workspace;
mod worktrees;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::{
    executor::Executor,
    redact::Redactor,
    time::{Clock, Entropy},
    values::KeyValue,
};
use drawloom_goal::{Backends, GoalExecutor, GoalParts, MockExecutor, Prompts, Questions, Role};
use drawloom_process::Launcher;
use drawloom_substrate::files;

use crate::{config::Loaded, exit::CommandError};

pub(crate) use agents::BuiltIn;
pub(crate) use backends::known;
pub(crate) use folder::Folders;
pub(crate) use forget::forget_all;
pub(crate) use host::Host;
pub(crate) use models::GoalModels;
pub(crate) use volumes::{WithCheckouts, open_checkout};
pub(crate) use workspace::Repositories;

/// Longest instructions of a role, in bytes.
const MOST_PROMPT: u64 = 256 * 1024;

/// What goals of an instance share.
pub(crate) struct Shared {
    pub(crate) values: Arc<dyn KeyValue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) launcher: Launcher,
    /// Temporary directories of commands.
    pub(crate) temporary: PathBuf,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// Isolated checkouts.
    pub(crate) checkouts: PathBuf,
}

/// The parts of goals that an instance is made of.
pub(crate) struct Made {
    pub(crate) executors: BTreeMap<String, Arc<dyn Executor>>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) repositories: Arc<Repositories>,
}

/// Makes executors and what they work with.
pub(crate) fn make(
    loaded: &Loaded,
    backends: Backends,
    models: Arc<GoalModels>,
    shared: Shared,
) -> Result<Made, CommandError> {
    let prompts = read_prompts(loaded)?;
    let questions = Arc::new(Questions {
        values: shared.values.clone(),
        clock: shared.clock.clone(),
        entropy: shared.entropy.clone(),
        redactor: shared.redactor.clone(),
    });
    let repositories = Arc::new(Repositories::new(loaded, shared));
    let goal = GoalExecutor::new(GoalParts {
        prompts,
        backends,
        questions: questions.clone(),
        workspace: repositories.clone(),
        models,
    });
    let executors: BTreeMap<String, Arc<dyn Executor>> = BTreeMap::from([
        (drawloom_goal::GOAL.to_owned(), Arc::new(goal) as Arc<dyn Executor>),
        (drawloom_goal::MOCK.to_owned(), Arc::new(MockExecutor) as Arc<dyn Executor>),
    ]);
    Ok(Made { executors, questions, repositories })
}

/// The instructions of roles that the project replaces.
fn read_prompts(loaded: &Loaded) -> Result<Prompts, CommandError> {
    let Some(folder) = &loaded.config.goals.prompts else { return Ok(Prompts::default()) };
    let folder = beside(loaded, folder);
    let mut own = BTreeMap::new();
    for role in Role::ALL {
        let path = folder.join(format!("{role}.md"));
        let refused = |reason: String| {
            CommandError::usage("bad_prompt", format!("cannot read {}: {reason}", path.display()))
                .with_hint("correct the file, or delete it to use the built-in instructions")
        };
        match files::read_text(&path, MOST_PROMPT) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            read => drop(own.insert(role, read.map_err(|error| refused(error.to_string()))?)),
        }
    }
    Ok(Prompts::replaced(own))
}

/// A path of the config, relative to the first config file.
fn beside(loaded: &Loaded, path: &Path) -> PathBuf {
    let folder = loaded.files.first().and_then(|file| file.parent()).unwrap_or(Path::new(""));
    folder.join(path)
}
