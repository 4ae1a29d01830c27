//! The command line: what can be asked, and its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{commands, environment, logging::LogFormat, output::Colour};

/// Shown by `drawloom` alone, below the help.
const NEXT_STEPS: &str = "\
First steps:
  drawloom demo                      a small fan-out with a scripted model: no key, no network
  drawloom init                      a first config, with the keys that the environment has
  drawloom import claude-code        agents, skills, commands and MCP servers of Claude Code
  drawloom run AGENT PROMPT          one run, followed to its end
  drawloom serve                     a server for the agents of the config
  drawloom mcp install               connect Claude Code, Codex, opencode or another MCP host
  drawloom doctor                    what is wrong here, and what to do about it

Exit codes: 0 done, 1 it ran but failed, 2 usage or config, 3 it needs input.";

/// Runs and coordinates teams of AI agents.
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
        let mut words = std::env::args_os();
        if words.any(|word| word == "mcp")
            && let Ok(OnlyMcp { globals, command: McpCommand::Mcp(mcp) }) = OnlyMcp::try_parse()
        {
            return Ok(Self { globals, command: Some(Command::Mcp(mcp)) });
        }
        Self::try_parse()
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

/// Where things are; every command takes these.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// A config file; later ones are laid over earlier ones [default: drawloom.yaml here or above, then the XDG config directory]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Where things are")]
    pub config: Vec<PathBuf>,
    /// The directory that holds the store [default: one for each config, in the XDG data directory]
    #[arg(long, global = true, value_name = "DIR", env = environment::DATA_DIR, hide_env_values = true)]
    #[arg(help_heading = "Where things are")]
    pub data_dir: Option<PathBuf>,
    /// The server to talk to, instead of the one of the data directory
    #[arg(long, global = true, value_name = "URL", env = environment::URL, hide_env_values = true)]
    #[arg(help_heading = "Where things are")]
    pub url: Option<String>,
    /// What is logged to stderr, such as `info` or `drawloom_engine=debug` [default: info for serve, else warn]
    #[arg(long, global = true, value_name = "FILTER", env = environment::LOG, hide_env_values = true)]
    #[arg(help_heading = "Where things are")]
    pub log: Option<String>,
    /// How logs look: `auto` is text on a terminal and JSON elsewhere
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    #[arg(hide_default_value = true, hide_possible_values = true, help_heading = "How it looks")]
    pub log_format: LogFormat,
    /// When colours are used: auto, always or never; NO_COLOR is honoured
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    #[arg(hide_default_value = true, hide_possible_values = true, help_heading = "How it looks")]
    pub color: Colour,
    /// Columns that a line may have, instead of those of the terminal
    #[arg(long, global = true, value_name = "COLUMNS", hide = true)]
    pub width: Option<usize>,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, Args)]
pub struct Look {
    /// Answer in JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first config that works at once
    Init(commands::init::Init),
    /// Bring agents, skills, commands and MCP servers of another program over
    #[command(subcommand)]
    Import(commands::import::Import),
    /// Serve the agents of the config over HTTP until stopped
    Serve(commands::serve::Serve),
    /// Show the project of this folder, its data and its server; it starts nothing
    Status(commands::status::Status),
    /// Stop the server of this project: steps in flight come to their next record
    Stop(commands::stop::Stop),
    /// Start the server of this project in the background, anew when it runs; it takes up what was interrupted
    Restart(commands::stop::Restart),
    /// Show the log of the server that runs in the background
    Logs(commands::logs::Logs),
    /// Move data that no project finds any more into this project; `drawloom status` names it
    Adopt(commands::adopt::Adopt),
    /// Speak MCP on stdin and stdout, for a host such as Claude Code, Codex or opencode
    #[command(after_help = commands::mcp::HELP)]
    Mcp(commands::mcp::Mcp),
    /// Start one run and follow it to its end
    Run(commands::run::Run),
    /// Start many runs at once and wait for all of them
    Batch(commands::batch::Batch),
    /// Look at runs, follow them, stop them
    #[command(subcommand)]
    Runs(commands::runs::Runs),
    /// List, read and download what agents wrote
    #[command(subcommand)]
    Artifacts(commands::artifacts::Artifacts),
    /// Read, change, search and watch what agents and you keep between runs
    #[command(subcommand, after_help = commands::memory::HELP)]
    Memory(commands::memory::Memory),
    /// Fold a run's journal again and compare every decision with today's
    Replay(commands::replay::Replay),
    /// The agents that can be run
    #[command(subcommand)]
    Agents(commands::agents::Agents),
    /// The skills that agents can load
    #[command(subcommand)]
    Skills(commands::skills::Skills),
    /// The models that agents can ask
    #[command(subcommand)]
    Models(commands::models::Models),
    /// Check config files; all mistakes at once
    Validate(commands::validate::Validate),
    /// About the config
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Show what the config can do, and trust it
    #[command(after_help = commands::trust::HELP)]
    Trust(commands::trust::Trust),
    /// Find out what is wrong here
    Doctor(commands::doctor::Doctor),
    /// Copy the store to a file, also while a server runs
    Backup(commands::backup::Backup),
    /// Restore the store from a backup
    Restore(commands::restore::Restore),
    /// Remove runs that ended long ago
    Prune(commands::prune::Prune),
    /// Show a small fan-out with a scripted model: no key, no network
    Demo(commands::demo::Demo),
    /// Call any operation of the API by name
    Call(commands::call::Call),
    /// Print completions for a shell
    Completions(commands::completions::Completions),
    /// Write the manual pages
    #[command(hide = true)]
    Man(commands::man::Man),
}
