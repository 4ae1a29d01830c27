//! Measures Drawloom from outside, over HTTP, beside a bare floor that does the same disk work.
//!
//! The load generator runs on this process's one thread. It knows none of Drawloom's crates: what it measures is the
//! server as it is shipped.

mod agent_memory;
mod bash;
mod beside;
mod channels;
mod checkout;
mod floor;
mod goals;
mod grep;
mod http;
mod import;
mod load;
mod mcp;
mod memory;
mod model_server;
mod models;
mod process;
mod report;
mod resume;
mod server;
mod start;
mod targets;
mod throughput;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand, ValueEnum};

use server::Bench;
use targets::Figures;

/// Measure Drawloom's speed and memory, with the machine's floor beside it
#[derive(Debug, Parser)]
#[command(name = "drawloom-bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    /// What to measure; everything when none is named
    sections: Vec<Section>,
    /// How long each row of the throughput table is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The server to measure; without it, `drawloom` is built in release first
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// The tree that `grep` searches; the sources of crates, when absent
    #[arg(long, value_name = "DIRECTORY")]
    tree: Option<PathBuf>,
    /// Another build of the server: runs, publishes, memory sets and goals of both in turns, and nothing else
    #[arg(long, value_name = "PATH", conflicts_with = "sections")]
    beside: Option<PathBuf>,
    /// How many rounds of slices are compared with --beside
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..), requires = "beside")]
    pairs: u16,
    /// Only with as many clients, with --beside
    #[arg(long, requires = "beside")]
    clients: Vec<usize>,
    #[command(subcommand)]
    role: Option<Role>,
}

impl Arguments {
    /// A large tree of text: what was given, or the sources that cargo keeps.
    fn tree(&self) -> Result<PathBuf> {
        if let Some(tree) = &self.tree {
            return Ok(tree.clone());
        }
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        Ok(home.context("neither CARGO_HOME nor HOME is set; give --tree")?.join("registry/src"))
    }
}

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Runs a second, waiting for JSON
    Rest,
    /// Runs a second, over a stream of events
    Sse,
    /// Runs a second, in batches of 32
    Batch,
    /// Runs a second with a model behind HTTP
    Models,
    /// What `drawloom run` adds to a model's stream
    Run,
    /// The tool `Grep` beside ripgrep, on the sources of this build's dependencies
    Grep,
    /// What the tool `Bash` adds to a bare shell
    Bash,
    /// `drawloom import claude-code` of 200 agents and 180 skills beside reading the agents
    Import,
    /// What MCP adds to REST, the thin client, and calls that wait
    Mcp,
    /// Memory: idle, a parked run, a run in flight
    Memory,
    /// Memory of agents: sets beside the floor, a list, a search
    AgentMemory,
    /// Channels: publishes beside the floor, deliveries, wake-ups, followers
    Channels,
    /// The goal loop with the mock team
    Goals,
    /// A checkout of 20,000 files beside `git clone --shared`
    Checkout,
    /// Start to the first answer
    Start,
    /// Time to resume 10,000 runs after `kill -9`
    Resume,
    /// The bare floor and the disk's sync rate
    Floor,
}

/// What this binary is for itself.
#[derive(Debug, Subcommand)]
enum Role {
    /// Be the bare server that the floor is measured on
    #[command(hide = true)]
    FloorServer {
        /// Where its database is
        directory: PathBuf,
        /// A model that each run asks
        #[arg(long)]
        model: Option<SocketAddr>,
    },
    /// Be the model behind HTTP
    #[command(hide = true)]
    ModelServer,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.role {
        Some(Role::FloorServer { directory, model }) => return floor::serve(directory, *model),
        Some(Role::ModelServer) => return model_server::serve(),
        None => {}
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(&arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let bench = Bench::prepare(arguments.server.as_deref())?;
    if let Some(other) = &arguments.beside {
        let slice = Duration::from_secs(arguments.seconds);
        return beside::measure(&bench, other, arguments.pairs.into(), &arguments.clients, slice).await;
    }
    let wants = |section| arguments.sections.is_empty() || arguments.sections.contains(&section);
    let mut figures = Figures::default();
    let throughput =
        throughput::Wanted { rest: wants(Section::Rest), sse: wants(Section::Sse), batch: wants(Section::Batch) };
    if throughput.any() || wants(Section::Floor) {
        throughput::measure(&bench, throughput, Duration::from_secs(arguments.seconds), &mut figures).await?;
    }
    if wants(Section::Models) {
        models::measure(&bench, Duration::from_secs(arguments.seconds), &mut figures).await?;
    }
    if wants(Section::Run) {
        models::measure_run(&bench, &mut figures).await?;
    }
    if wants(Section::Grep) {
        figures.grep = grep::measure(&arguments.tree()?)?;
    }
    if wants(Section::Bash) {
        figures.bash_added = Some(bash::measure(bench.program())?);
    }
    if wants(Section::Import) {
        figures.import = Some(import::measure(bench.program())?);
    }
    if wants(Section::Mcp) {
        mcp::measure(&bench, &mut figures).await?;
    }
    if wants(Section::Memory) {
        memory::measure(&bench, &mut figures).await?;
    }
    if wants(Section::AgentMemory) {
        agent_memory::measure(&bench, Duration::from_secs(arguments.seconds), &mut figures).await?;
    }
    if wants(Section::Channels) {
        channels::measure(&bench, Duration::from_secs(arguments.seconds), &mut figures).await?;
    }
    if wants(Section::Goals) {
        goals::measure(&bench, &mut figures).await?;
    }
    if wants(Section::Checkout) {
        figures.checkout = Some(checkout::measure(&bench).await?);
    }
    if wants(Section::Start) {
        start::measure(&bench, &mut figures).await?;
    }
    if wants(Section::Resume) {
        resume::measure(&bench, &mut figures).await?;
    }
    targets::print(&figures)
}
