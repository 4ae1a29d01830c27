//! Commands, one file each. They add looks; every rule is behind the backend they talk to.

pub mod adopt;
pub mod agents;
pub mod artifacts;
pub mod backup;
pub mod batch;
pub mod call;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod import;
pub mod init;
pub mod logs;
pub mod man;
pub mod mcp;
pub mod memory;
pub mod models;
pub mod prune;
pub mod replay;
pub mod restore;
pub mod run;
pub mod runs;
pub mod serve;
pub mod skills;
pub mod status;
pub mod stop;
pub mod trust;
pub mod validate;

use std::process::ExitCode;

use clap::CommandFactory as _;
use drawloom_contract::time::Clock as _;
use jiff::tz::TimeZone;

use crate::{
    cli::{Cli, Command, Globals},
    clock::SystemClock,
    environment,
    exit::{CommandError, Exit},
    logging,
    output::{Appearance, Format, LocalTime, Output},
};

/// What every command gets: where things are, and where its words go.
pub struct Session {
    /// Where things are.
    pub globals: Globals,
    /// Where its words go.
    pub output: Output,
    /// The zone in which people are told times.
    pub zone: TimeZone,
}

impl Session {
    /// The user's zone as it is now.
    pub(crate) fn local_time(&self) -> LocalTime {
        LocalTime::at(SystemClock.wall(), &self.zone)
    }
}

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return crate::output::usage(&error),
    };
    let format = if cli.command.as_ref().is_some_and(wants_json) { Format::Json } else { Format::Human };
    let look = appearance(&cli.globals);
    let session = Session { globals: cli.globals, output: Output::new(format, look), zone: environment::time_zone() };
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

fn appearance(globals: &Globals) -> Appearance {
    Appearance {
        colour: globals.color,
        no_colour: environment::no_colour(),
        width: globals.width.or_else(environment::columns),
    }
}

fn wants_json(command: &Command) -> bool {
    match command {
        Command::Init(init) => init.look.json,
        Command::Import(import) => import.look().json,
        Command::Skills(skills) => skills.look().json,
        Command::Serve(serve) => serve.look.json,
        Command::Run(run) => run.look.json,
        Command::Batch(batch) => batch.look.json,
        Command::Runs(runs) => runs.look().json,
        Command::Memory(memory) => memory.look().json,
        Command::Replay(replay) => replay.look.json,
        Command::Artifacts(artifacts) => artifacts.look().json,
        Command::Agents(agents) => agents.look().json,
        Command::Models(models) => models.look().json,
        Command::Backup(backup) => backup.look.json,
        Command::Restore(restore) => restore.look.json,
        Command::Prune(prune) => prune.look.json,
        Command::Validate(validate) => validate.look.json,
        Command::Trust(trust) => trust.look.json,
        Command::Doctor(doctor) => doctor.look.json,
        Command::Demo(demo) => demo.look.json,
        Command::Status(status) => status.look.json,
        Command::Stop(stop) => stop.look.json,
        Command::Restart(restart) => restart.look.json,
        Command::Adopt(adopt) => adopt.look.json,
        Command::Logs(_) => false,
        Command::Mcp(mcp) => mcp.wants_json(),
        Command::Config(config) => config.wants_json(),
        // What these print is for programs anyway.
        Command::Call(_) | Command::Completions(_) | Command::Man(_) => true,
    }
}

fn perform(session: &Session, command: Command) -> Result<Exit, CommandError> {
    let default_log = if matches!(command, Command::Serve(_)) { "info" } else { "warn" };
    let globals = &session.globals;
    let filter = globals.log.as_deref().unwrap_or(default_log);
    logging::start(filter, globals.log_format, appearance(globals))?;
    match command {
        Command::Init(init) => return init.perform(session),
        Command::Import(import) => return import.perform(session),
        Command::Skills(skills) => return skills.perform(session),
        Command::Status(status) => return status.perform(session),
        Command::Man(man) => return man.perform(session),
        Command::Mcp(mcp) => return mcp.perform(session),
        Command::Validate(validate) => return validate.perform(session),
        Command::Config(config) => return config.perform(session),
        Command::Trust(trust) => return trust.perform(session),
        Command::Completions(completions) => return completions.perform(session),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("no_runtime", format!("cannot start the async runtime: {error}")))?;
    let code = runtime.block_on(async {
        match command {
            Command::Serve(serve) => serve.perform(session).await,
            Command::Run(run) => run.perform(session).await,
            Command::Batch(batch) => batch.perform(session).await,
            Command::Runs(runs) => runs.perform(session).await,
            Command::Memory(memory) => memory.perform(session).await,
            Command::Replay(replay) => replay.perform(session).await,
            Command::Artifacts(artifacts) => artifacts.perform(session).await,
            Command::Agents(agents) => agents.perform(session).await,
            Command::Models(models) => models.perform(session).await,
            Command::Backup(backup) => backup.perform(session).await,
            Command::Restore(restore) => restore.perform(session).await,
            Command::Prune(prune) => prune.perform(session).await,
            Command::Doctor(doctor) => doctor.perform(session).await,
            Command::Demo(demo) => demo.perform(session).await,
            Command::Call(call) => call.perform(session).await,
            Command::Adopt(adopt) => adopt.perform(session).await,
            Command::Stop(stop) => stop.perform(session).await,
            Command::Restart(restart) => restart.perform(session).await,
            Command::Logs(logs) => logs.perform(session).await,
            Command::Init(_)
            | Command::Import(_)
            | Command::Skills(_)
            | Command::Status(_)
            | Command::Man(_)
            | Command::Mcp(_)
            | Command::Validate(_)
            | Command::Config(_)
            | Command::Trust(_)
            | Command::Completions(_) => Ok(Exit::Done),
        }
    });
    // A file operation that hangs must not keep the process: all that counts is journaled.
    runtime.shutdown_timeout(LEAVE);
    code
}

/// How long the process waits for operations that cannot be interrupted, such as a read of a dead disk.
const LEAVE: std::time::Duration = std::time::Duration::from_millis(500);

/// Seconds of an age as people write it: `90`, `90s`, `15m`, `2h`, `30d`, `4w`.
pub(crate) fn age(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()));
    let each = match unit.trim() {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(format!("{text:?} is not an age; write it like 30d, 12h, 15m or 90s")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    number.checked_mul(each).ok_or_else(|| format!("{text:?} is too long"))
}
