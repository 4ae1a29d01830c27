//! The executor `cli`, and what it is made of.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use drawloom_contract::{
    definition::Definition,
    executor::{Drive, Executor},
    time::Clock,
    tool::Tool,
};
use drawloom_process::Launcher;

use crate::{
    call::{CliRun, find_program},
    config::ClisConfig,
    drive::CliDrive,
    known::{Cli, Clis},
    state,
};

/// The executor's name.
pub const EXECUTOR: &str = "cli";

/// What the executor is made of.
#[derive(Clone)]
pub struct Parts {
    /// `clis`, without mistakes.
    pub config: ClisConfig,
    pub launcher: Launcher,
    /// Where temporary directories of commands are.
    pub temporary: PathBuf,
    /// Where isolated checkouts are: `<checkouts>/<root run>/…`.
    pub checkouts: PathBuf,
    /// Where private copies of the state of CLIs are while processes use them.
    pub copies: PathBuf,
    /// Directories that no CLI may read: the data directories of drawloom.
    pub hidden: Vec<PathBuf>,
    /// The operator's environment; CLIs get a part of it.
    pub environment: BTreeMap<String, String>,
    /// The home of drawloom's user, where the CLIs have their logins.
    pub home: PathBuf,
    pub clock: Arc<dyn Clock>,
}

/// Drives runs on coding CLIs.
pub struct CliExecutor {
    tool: Arc<CliRun>,
    callers: Callers,
}

/// Who can call the server that the executor belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Callers {
    /// This process, or those with a token.
    #[default]
    Known,
    /// Every program of the machine: a CLI has the machine's network, so that it could call the server too. Its runs are refused.
    Anyone,
}

impl CliExecutor {
    pub fn new(parts: Parts) -> Self {
        let clis = Clis::new(&parts.config);
        Self { tool: Arc::new(CliRun { parts, clis }), callers: Callers::default() }
    }

    /// The same for a server that these can call.
    pub fn for_callers(&self, callers: Callers) -> Self {
        Self { tool: self.tool.clone(), callers }
    }

    /// The CLIs that agents can name.
    pub fn clis(&self) -> &Clis {
        &self.tool.clis
    }

    /// Whether a CLI is installed and does not lack a login, as far as files and variables tell. No process is started.
    pub fn could_run(&self, cli: &Cli) -> bool {
        let parts = &self.tool.parts;
        find_program(cli.program(), &parts.environment).is_some()
            && cli.preset().missing_login(&parts.home, &parts.environment).is_none()
    }

    /// Brings back what the private copies hold of a server that was killed: logins that were renewed, and sessions.
    pub async fn recover(&self) {
        state::remove_unfinished(&self.tool.parts.copies);
        state::recover(&self.tool.parts.copies, self.tool.parts.clock.as_ref()).await;
    }

    /// What it is made of.
    pub fn parts(&self) -> &Parts {
        &self.tool.parts
    }
}

impl Executor for CliExecutor {
    fn open(&self, definition: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(CliDrive::new(definition, self.callers))
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![self.tool.clone()]
    }
}
