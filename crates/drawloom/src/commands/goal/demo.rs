//! `drawloom goal demo`: the loop with a mock team, in a store of its own.

use clap::Args;
use drawloom_wire::goals::{Orchestrate, OrchestrateResult, OrchestrateTail};

use super::{told, view::View, workers::Target};
use crate::{
    cli::Look,
    commands::{Session, demo::no_room},
    config,
    connect::Connection,
    data_dir::{DataDir, Lock},
    environment,
    exit::{CommandError, Exit},
    output::Format,
    parts::{Parts, Surface},
    start::{Running, start, stop_signal},
};

/// The goal of the demo.
const GOAL: &str = "Write a briefing on the orchestrator-worker pattern.";
const CRITERIA: &str = "Covers decomposition, execution, review, and the feedback loop.";

/// Run the loop with a mock team: no key, no model
///
/// The planner makes three subgoals, three workers do them, and the reviewer rejects the first iteration and accepts the second. The loop,
/// its journal and its budget are real.
#[derive(Debug, Args)]
pub struct Demo {
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Demo {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let stop = stop_signal();
        let folder = environment::default_data_dir().map(|data| data.join("goal-demo"));
        let folder = match folder.filter(|folder| std::fs::create_dir_all(folder).is_ok()) {
            Some(folder) => folder,
            None => tempfile::tempdir().map_err(|error| no_room(&error))?.keep(),
        };
        let lock = match DataDir::new(folder.join("data")).lock("goal demo") {
            Ok(lock) => lock,
            // Another demo runs at the same time.
            Err(_) => DataDir::new(tempfile::tempdir().map_err(|error| no_room(&error))?.keep()).lock("goal demo")?,
        };
        let connection = Connection::embedded(bare(lock).await?);
        let shown = tokio::select! {
            shown = show(session, &connection) => shown,
            () = stop => Err(CommandError::failed("interrupted", "the demo was interrupted")),
        };
        connection.close().await;
        shown
    }
}

/// An instance without a config.
pub(super) async fn bare(lock: Lock) -> Result<Running, CommandError> {
    start(Parts::from_config(config::load_files(&[])?, lock, Surface::Embedded, &crate::Extra::default())?).await
}

async fn show(session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
    if session.output.format() == Format::Human {
        session.output.note("A planner, three workers and a reviewer; all of them are mocks, the loop is real.\n");
    }
    let request = Orchestrate {
        goal: GOAL.into(),
        success_criteria: CRITERIA.into(),
        backend: Some("mock".into()),
        ..Orchestrate::default()
    };
    let run_id = connection.backend.call(&request).await?.run_id;
    let mut view = View::follow(session, connection, run_id, Target::Stderr).await?;
    let mut cursor = 0;
    loop {
        let ask = OrchestrateTail { run_id, cursor: Some(cursor), limit: None, wait_ms: Some(50_000) };
        let page = view.meanwhile(connection.backend.call(&ask)).await?;
        page.events.iter().for_each(|event| view.show(event));
        cursor = page.cursor;
        if !page.running && !page.more {
            break;
        }
    }
    view.pause();
    let result = connection.backend.call(&OrchestrateResult { run_id, wait: false, timeout: None }).await?;
    Ok(told(session, &result))
}
