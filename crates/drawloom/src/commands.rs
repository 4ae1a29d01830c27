//! Commands, one file each. They add looks; every rule is behind the backend they talk to.

pub mod agents;
pub mod batch;
pub mod call;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod replay;
pub mod run;
pub mod runs;
pub mod serve;
pub mod validate;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::{
    cli::{Cli, Command, Globals},
    environment,
    exit::{CommandError, Exit},
    logging,
    output::{Format, Output},
};

/// What every command gets: where things are, and where its words go.
pub struct Session {
    /// Where things are.
    pub globals: Globals,
    /// Where its words go.
    pub output: Output,
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return crate::output::usage(&error),
    };
    let format = if cli.command.as_ref().is_some_and(wants_json) { Format::Json } else { Format::Human };
    let session = Session { globals: cli.globals, output: Output::new(format, environment::no_colour()) };
    let ended = match cli.command {
        Some(command) => perform(&session, command),
        None => {
            session.output.write(&Cli::command().render_help().to_string());
            Ok(Exit::Done)
        }
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            session.output.error(&error);
            error.exit.into()
        }
    }
}

fn wants_json(command: &Command) -> bool {
    match command {
        Command::Serve(serve) => serve.look.json,
        Command::Run(run) => run.look.json,
        Command::Batch(batch) => batch.look.json,
        Command::Runs(runs) => runs.look().json,
        Command::Replay(replay) => replay.look.json,
        Command::Agents(agents) => agents.look().json,
        Command::Validate(validate) => validate.look.json,
        Command::Doctor(doctor) => doctor.look.json,
        Command::Demo(demo) => demo.look.json,
        // What these print is for programs anyway.
        Command::Config(_) | Command::Call(_) | Command::Completions(_) => true,
    }
}

fn perform(session: &Session, command: Command) -> Result<Exit, CommandError> {
    let default_log = if matches!(command, Command::Serve(_)) { "info" } else { "warn" };
    logging::start(session.globals.log.as_deref().unwrap_or(default_log))?;
    match command {
        Command::Validate(validate) => return validate.perform(session),
        Command::Config(config) => return config.perform(session),
        Command::Completions(completions) => return completions.perform(session),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("no_runtime", format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(async {
        match command {
            Command::Serve(serve) => serve.perform(session).await,
            Command::Run(run) => run.perform(session).await,
            Command::Batch(batch) => batch.perform(session).await,
            Command::Runs(runs) => runs.perform(session).await,
            Command::Replay(replay) => replay.perform(session).await,
            Command::Agents(agents) => agents.perform(session).await,
            Command::Doctor(doctor) => doctor.perform(session).await,
            Command::Demo(demo) => demo.perform(session).await,
            Command::Call(call) => call.perform(session).await,
            Command::Validate(_) | Command::Config(_) | Command::Completions(_) => Ok(Exit::Done),
        }
    })
}
