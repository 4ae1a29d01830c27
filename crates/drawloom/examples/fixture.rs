//! A server like the shipped one, with fixtures and faults for the durability tests. `DRAWLOOM_FIXTURE` holds what it is
//! to do, as JSON; the arguments are a config file and a data directory.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::AtomicUsize},
};

use drawloom::{Extra, Parts, StoreSeams, Surface, config, data_dir::DataDir, start};
use drawloom_contract::{executor::Executor, time::Timestamp, tool::Tool};
use drawloom_store::Synchronous;
use drawloom_testkit::{
    Fault, KillJournal, KillLog, KillTool, KillValues, Killer, LateStore, Ledger, MarkedModel, Names, ShiftedClock,
    Steps, StoreHandles, step_tools, with_fault, with_log_fault, with_value_fault,
};
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
    /// What the wall clock says at the start; it is written to the file `clock` as an offset.
    begins_at: Option<Timestamp>,
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
    let names = Arc::new(Names::default());
    let killer = Arc::new(Killer { point: fixture.kill, log: fixture.points, names, passed: AtomicUsize::new(0) });
    let ledger: Arc<dyn Tool> = Arc::new(Ledger { file: fixture.ledger });
    let loaded = config::load_files(&[config])?;
    let lock = DataDir::new(directory).lock("fixture")?;
    let with_kill = |inner: Arc<dyn Tool>| -> Arc<dyn Tool> { Arc::new(KillTool { inner, killer: killer.clone() }) };
    let late = Arc::<LateStore>::default();
    let steps: Arc<dyn Executor> = Arc::new(Steps { tools: step_tools(&late).into_iter().map(with_kill).collect() });
    let executors = BTreeMap::from([("steps".to_owned(), steps)]);
    let extra = Extra { tools: vec![ledger], executors, ..Extra::default() };
    let mut parts = Parts::from_config(loaded, lock, Surface::Serve { listen: "127.0.0.1:0".into() }, &extra)?;
    for tool in &mut parts.resolved.tools {
        *tool = with_kill(tool.clone());
    }
    if let (Some(file), Some(begins_at)) = (&fixture.clock, fixture.begins_at) {
        let by = begins_at.as_millis().saturating_sub(parts.clock.wall().as_millis());
        std::fs::write(file, by.to_string())?;
    }
    if let Some(file) = fixture.clock {
        parts.clock = Arc::new(ShiftedClock { inner: parts.clock, file });
    }
    if !fixture.sync {
        parts.store.synchronous = Synchronous::Off;
    }
    parts.wrap_store = Box::new({
        let (killer, clock) = (killer.clone(), parts.clock.clone());
        move |store| {
            let values = Arc::new(KillValues { inner: store.values.clone(), killer: killer.clone() });
            let memory = values.clone();
            let logs = Arc::new(KillLog { inner: store.logs.clone(), killer: killer.clone() });
            let channels = logs.clone();
            let (values, logs) = (with_value_fault(values, fixture.fault), with_log_fault(logs, fixture.fault));
            late.set(StoreHandles { values, logs, clock });
            let journal = Arc::new(KillJournal { inner: store.journal, killer });
            StoreSeams { journal: with_fault(journal, fixture.fault), values: memory, logs: channels }
        }
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
