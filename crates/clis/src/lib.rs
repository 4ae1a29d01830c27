//! Coding CLIs as executors of runs: Claude Code, Codex, opencode, aider, or any command.
//!
//! A run of an agent with `executor: cli` is one process of the CLI that the agent names, with the CLI's own login, in a volume or in
//! an isolated checkout. [`CliExecutor`] decides (`drive.rs`): call, wait out a rate limit, continue the session, finish. Its tool
//! `cli_run` (`call.rs`) makes one process through the launcher of `process`, which confines and ends it. `presets/` has what
//! differs between CLIs: arguments, environment and the meaning of the output.

mod activity;
mod arguments;
mod call;
mod config;
mod directory;
mod drive;
mod environment;
mod error;
mod executor;
mod input;
mod known;
mod preset;
mod presets;
mod probe;
mod reply;
mod script;
mod seed;
mod sessions;
mod state;

pub use config::{CliConfig, ClisConfig, LoginConfig, PresetName, StateConfig, problems};
pub use environment::{DEEPEST, DEPTH, PROXIES, login_variables, proxies_with_login, without_login};
pub use error::Error;
pub use executor::{Callers, CliExecutor, EXECUTOR, Parts};
pub use input::{Mode, RunInput};
pub use known::{Cli, Clis};
pub use preset::Metering;
pub use probe::{Login, Probe, probe};
pub use reply::{Problem, ProblemKind, Reply};
