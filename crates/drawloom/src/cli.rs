//! The command line: what can be asked, and its help.

mod examples;
pub(crate) mod help;
mod look;
mod tips;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{commands, environment, logging::LogFormat, output::Colour};

pub use look::{Layout, Look, Quiet};

/// Shown by `drawloom` alone, below the help.
const NEXT_STEPS: &str = "\
First steps:
  drawloom demo                  run a small team with a scripted model: no key, no network
  drawloom init                  write a config for the API keys in the environment
  drawloom import claude-code    import agents, skills, commands and MCP servers
  drawloom run AGENT PROMPT      start a run and follow it
  drawloom serve                 serve the agents over HTTP
  drawloom mcp install           connect Claude Code, Codex, opencode or another MCP host
  drawloom doctor                find problems and how to fix them

Exit codes: 0 success, 1 failure, 2 usage or config error, 3 input needed.";

/// Run and coordinate teams of AI agents
#[derive(Debug, Parser)]
#[command(name = "drawloom", version, max_term_width = 100, after_help = NEXT_STEPS, subcommand_required = false)]
pub struct Cli {
    /// Where things are.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// What the command line says. Hosts start `mcp` over and over, so for it the other commands are not even described; when
    /// that is not what is meant, they are.
    pub fn read() -> Result<Self, clap::Error> {
        match commands::agentloop::read(std::env::args_os()) {
            Some(read) => read,
            None => Self::read_from(std::env::args_os().collect()),
        }
    }

    /// The same, of these words; the first is the name of the program.
    pub(crate) fn read_from(words: Vec<OsString>) -> Result<Self, clap::Error> {
        if words.iter().any(|word| word == "mcp")
            && let Ok(OnlyMcp { globals, command: McpCommand::Mcp(mcp) }) = OnlyMcp::try_parse_from(&words)
        {
            return Ok(Self { globals, command: Some(Command::Mcp(mcp)) });
        }
        let mut described = Self::described();
        let matches = described.try_get_matches_from_mut(words);
        let matches = matches.map_err(|error| tips::add(error, &described))?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut described))
    }

    /// The command line with the whole help of every command.
    pub fn described() -> clap::Command {
        help::complete(Self::command())
    }

    /// The same, with the global options shown everywhere: for completions and manual pages.
    pub(crate) fn described_in_full() -> clap::Command {
        help::shown(Self::described())
    }
}

/// The part of the command line that `mcp` needs.
#[derive(Debug, Parser)]
#[command(name = "drawloom", disable_help_flag = true, disable_help_subcommand = true)]
struct OnlyMcp {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    #[command(disable_help_flag = true)]
    Mcp(commands::mcp::Mcp),
}

/// Where things are; every command takes these. `drawloom help options` shows them.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// Read this config file; repeat to merge several, later ones win [default: drawloom.yaml here or in a parent folder, then
    /// the XDG config directory]
    #[arg(long, short, global = true, hide = true, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Keep the store in this directory [default: one per config, in the XDG data directory]
    #[arg(long, global = true, hide = true, value_name = "DIR", env = environment::DATA_DIR, hide_env_values = true)]
    pub data_dir: Option<PathBuf>,
    /// Use the server at this address instead of the project's own
    #[arg(long, global = true, hide = true, value_name = "URL", env = environment::URL, hide_env_values = true)]
    pub url: Option<String>,
    /// Log to stderr what this filter selects, such as `info` or `drawloom_engine=debug` [default: info for serve, else warn]
    #[arg(long, global = true, hide = true, value_name = "FILTER", env = environment::LOG, hide_env_values = true)]
    pub log: Option<String>,
    /// Choose the log format; auto is text on a terminal and JSON elsewhere
    #[arg(long, global = true, hide = true, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    #[arg(hide_default_value = true)]
    pub log_format: LogFormat,
    /// Choose when to use colors; the variable NO_COLOR turns them off
    #[arg(long, global = true, hide = true, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    #[arg(hide_default_value = true)]
    pub color: Colour,
    /// Columns that a line may have, instead of those of the terminal
    #[arg(long, global = true, value_name = "COLUMNS", hide = true)]
    pub width: Option<usize>,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first config
    Init(commands::init::Init),
    /// Import agents, skills, commands and MCP servers from another program
    #[command(subcommand)]
    Import(commands::import::Import),
    /// Serve the agents of the config over HTTP
    Serve(commands::serve::Serve),
    /// Show the project of this folder, its data and its server
    Status(commands::status::Status),
    /// Stop the server of this project
    Stop(commands::stop::Stop),
    /// Start or restart the server of this project in the background
    Restart(commands::stop::Restart),
    /// Show the log of the background server
    Logs(commands::logs::Logs),
    /// Move the data of a folder that was moved into this project
    Adopt(commands::adopt::Adopt),
    /// List and delete the projects of this user
    Projects(commands::projects::Projects),
    /// Serve MCP on stdin and stdout for a host such as Claude Code, Codex or opencode
    #[command(after_help = commands::mcp::HELP)]
    Mcp(commands::mcp::Mcp),
    /// Start a run and follow it
    Run(commands::run::Run),
    /// Start many runs and wait for all of them
    Batch(commands::batch::Batch),
    /// List, show, follow, retry, cancel and delete runs
    #[command(subcommand)]
    Runs(commands::runs::Runs),
    /// Show what runs cost by agent, model, user or day
    Cost(commands::cost::Cost),
    /// List, show and download the files that agents wrote
    #[command(subcommand)]
    Artifacts(commands::artifacts::Artifacts),
    /// Read and change the memory of agents and users
    #[command(subcommand, after_help = commands::memory::HELP)]
    Memory(commands::memory::Memory),
    /// Publish and read messages of channels
    #[command(subcommand, after_help = commands::channels::HELP)]
    Channels(commands::channels::Channels),
    /// Submit and compare evaluations of runs
    #[command(subcommand, after_help = commands::evaluations::HELP)]
    Evaluations(commands::evaluations::Evaluations),
    /// Define agents, channels, skills and volumes at runtime
    #[command(subcommand, after_help = commands::defs::HELP)]
    Defs(commands::defs::Defs),
    /// Drive goals to done: plan, work, verify, review, repeat
    #[command(subcommand, after_help = commands::goal::HELP)]
    Goal(commands::goal::Goal),
    /// List, compare, commit and remove the checkouts of goals
    #[command(subcommand, after_help = commands::worktree::HELP)]
    Worktree(commands::worktree::Worktree),
    /// Re-run recorded decisions offline and report differences
    Replay(commands::replay::Replay),
    /// List and show agents
    #[command(subcommand)]
    Agents(commands::agents::Agents),
    /// List and show skills
    #[command(subcommand)]
    Skills(commands::skills::Skills),
    /// List models
    #[command(subcommand)]
    Models(commands::models::Models),
    /// Check config files and report every error
    Validate(commands::validate::Validate),
    /// Show the config and its schema
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Show what the config can do, and trust it
    #[command(after_help = commands::trust::HELP)]
    Trust(commands::trust::Trust),
    /// Find problems with the config, data, server and machine
    Doctor(commands::doctor::Doctor),
    /// Back up the store to a file
    Backup(commands::backup::Backup),
    /// Restore the store from a backup
    Restore(commands::restore::Restore),
    /// Delete old runs
    Prune(commands::prune::Prune),
    /// Run a small team with a scripted model: no key, no network
    Demo(commands::demo::Demo),
    /// Call any API operation by name
    Call(commands::call::Call),
    /// Print a completion script for a shell
    Completions(commands::completions::Completions),
    /// Print the names that can stand at the end of a command line
    #[command(hide = true)]
    Complete(commands::complete::Complete),
    /// Write manual pages
    #[command(hide = true)]
    Man(commands::man::Man),
    /// List the options that every command takes
    #[command(hide = true)]
    Options,
}
