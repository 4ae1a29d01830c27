//! A server like the shipped one, with fixtures and faults for the durability tests. `DRAWLOOM_FIXTURE` holds what it is
//! to do, as JSON; the arguments are a config file and a data directory.

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Arc};

use drawloom::{Extra, Parts, Surface, config, data_dir::DataDir, start};
use drawloom_contract::tool::Tool;
use drawloom_store::Synchronous;
use drawloom_testkit::{Fault, KillJournal, KillTool, Killer, Ledger, MarkedModel, Names, ShiftedClock, with_fault};
use serde::Deserialize;

/// What the process is to do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    /// The ledger of the tool `Ledger`.
    ledger: PathBuf,
    /// A line for each model call.
    calls: PathBuf,
    /// A line for each point that is passed.
    points: Option<PathBuf>,
    /// Where to die.
    kill: Option<String>,
    /// An agent whose turns kill the process.
    poison: Option<String>,
    /// A file with the milliseconds by which the wall clock is off, read again at every look at that clock.
    clock: Option<PathBuf>,
    /// The mistake to make.
    fault: Option<Fault>,
    /// Whether commits wait for the disk.
    #[serde(default = "yes")]
    sync: bool,
}

fn yes() -> bool {
    true
}

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == drawloom::LAUNCHER => Ok(drawloom_process::launcher::main(arguments)),
        _ => serve().map(|()| ExitCode::SUCCESS),
    }
}

#[tokio::main]
async fn serve() -> anyhow::Result<()> {
    let fixture: Fixture = serde_json::from_str(&std::env::var("DRAWLOOM_FIXTURE")?)?;
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(config), Some(directory)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: fixture CONFIG DATA_DIR");
    };
    let killer = Arc::new(Killer { point: fixture.kill, log: fixture.points, names: Arc::new(Names::default()) });
    let ledger: Arc<dyn Tool> = Arc::new(Ledger { file: fixture.ledger });
    let loaded = config::load_files(&[config])?;
    let lock = DataDir::new(directory).lock("fixture")?;
    let extra = Extra { tools: vec![ledger], ..Extra::default() };
    let mut parts = Parts::from_config(loaded, lock, Surface::Serve { listen: "127.0.0.1:0".into() }, &extra)?;
    for tool in &mut parts.resolved.tools {
        *tool = Arc::new(KillTool { inner: tool.clone(), killer: killer.clone() });
    }
    if let Some(file) = fixture.clock {
        parts.clock = Arc::new(ShiftedClock { inner: parts.clock, file });
    }
    if !fixture.sync {
        parts.store.synchronous = Synchronous::Off;
    }
    parts.wrap_journal = Box::new({
        let killer = killer.clone();
        move |inner| with_fault(Arc::new(KillJournal { inner, killer }), fixture.fault)
    });
    parts.wrap_model = Box::new(move |_, inner| {
        let (file, poison) = (fixture.calls.clone(), fixture.poison.clone());
        Arc::new(MarkedModel { inner, file, killer: killer.clone(), poison })
    });
    let running = start(parts).await?;
    // Whoever started the process waits for this line.
    writeln!(std::io::stdout(), "{}", running.url.as_deref().unwrap_or_default())?;
    std::future::pending().await
}
