//! Commands, one file each. They add looks; every rule is behind the backend they talk to.

pub mod adopt;
pub(crate) mod agentloop;
pub mod agents;
pub mod artifacts;
pub mod backup;
pub mod batch;
pub mod call;
pub mod channels;
pub mod complete;
pub mod completions;
pub mod config;
pub mod cost;
pub mod defs;
pub mod demo;
pub mod doctor;
pub mod evaluations;
pub mod goal;
pub mod import;
pub mod init;
pub mod logs;
pub mod man;
pub mod mcp;
pub mod memory;
pub mod models;
pub mod projects;
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
pub mod worktree;

use std::process::ExitCode;

use drawloom_contract::time::Clock as _;
use drawloom_wire::numbers;
use jiff::tz::TimeZone;

use crate::{
    cli::{Cli, Command, Globals, Layout, Look, help},
    clock::SystemClock,
    environment,
    exit::{CommandError, Exit},
    logging,
    output::{Appearance, Format, LocalTime, Output, guard_panics},
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
    guard_panics();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            let look = Appearance { no_colour: environment::no_colour(), ..Appearance::default() };
            let output = Output::new(Format::Human, look);
            return crate::output::usage(&error, &output);
        }
    };
    let look = cli.command.as_ref().map(look_of).unwrap_or_default();
    let format = match look.layout() {
        Some(Layout::Json | Layout::Yaml) => Format::Json,
        Some(Layout::Wide) | None => Format::Human,
    };
    let mut appearance = appearance(&cli.globals);
    appearance.yaml = look.layout() == Some(Layout::Yaml);
    appearance.wide = look.layout() == Some(Layout::Wide);
    let output = Output::new(format, appearance);
    let mut cli = cli;
    let needs_no_project = match &cli.command {
        Some(Command::Goal(_) | Command::Worktree(_)) => true,
        Some(Command::Mcp(mcp)) => mcp.is_for_goals(),
        _ => false,
    };
    if needs_no_project && let Err(error) = goal::use_own_config(&mut cli.globals) {
        output.error(&error);
        return error.exit.into();
    }
    let session = Session { globals: cli.globals, output, zone: environment::time_zone() };
    let ended = match cli.command {
        Some(command) => perform(&session, command),
        None => {
            session.output.write(&Cli::described().render_help().to_string());
            Ok(Exit::Done)
        }
    };
    logging::flush();
    match ended {
        Ok(_) if session.output.tell_lost() => Exit::Failed.into(),
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
        dumb: environment::dumb_terminal(),
        ..Appearance::default()
    }
}

fn look_of(command: &Command) -> Look {
    match command {
        Command::Init(init) => init.look,
        Command::Import(import) => import.look(),
        Command::Skills(skills) => skills.look(),
        Command::Serve(serve) => serve.look,
        Command::Run(run) => run.look,
        Command::Batch(batch) => batch.look,
        Command::Runs(runs) => runs.look(),
        Command::Cost(cost) => cost.look,
        Command::Memory(memory) => memory.look(),
        Command::Channels(channels) => channels.look(),
        Command::Evaluations(evaluations) => evaluations.look(),
        Command::Defs(defs) => defs.look(),
        Command::Goal(goal) => goal.look(),
        Command::Worktree(worktree) => worktree.look(),
        Command::Replay(replay) => replay.look,
        Command::Artifacts(artifacts) => artifacts.look(),
        Command::Agents(agents) => agents.look(),
        Command::Models(models) => models.look(),
        Command::Backup(backup) => backup.look,
        Command::Restore(restore) => restore.look,
        Command::Prune(prune) => prune.look,
        Command::Validate(validate) => validate.look,
        Command::Trust(trust) => trust.look,
        Command::Doctor(doctor) => doctor.look,
        Command::Demo(demo) => demo.look,
        Command::Status(status) => status.look,
        Command::Stop(stop) => stop.look,
        Command::Restart(restart) => restart.look,
        Command::Adopt(adopt) => adopt.look,
        Command::Projects(projects) => projects.look(),
        Command::Logs(logs) => logs.look,
        Command::Mcp(mcp) => mcp.look(),
        Command::Config(config) => config.look(),
        Command::Call(call) => call.look(),
        Command::Completions(completions) => completions.look,
        Command::Complete(complete) => complete.look,
        Command::Man(man) => man.look,
        Command::Options => Look::default(),
    }
}

fn perform(session: &Session, command: Command) -> Result<Exit, CommandError> {
    let default_log = if matches!(command, Command::Serve(_)) { "info" } else { "warn" };
    let globals = &session.globals;
    let filter = globals.log.as_deref().unwrap_or(default_log);
    logging::start(filter, globals.log_format, appearance(globals))?;
    match command {
        Command::Import(import) => return import.perform(session),
        Command::Skills(skills) => return skills.perform(session),
        Command::Status(status) => return status.perform(session),
        Command::Man(man) => return man.perform(session),
        Command::Mcp(mcp) => return mcp.perform(session),
        Command::Validate(validate) => return validate.perform(session),
        Command::Config(config) => return config.perform(session),
        Command::Trust(trust) => return trust.perform(session),
        Command::Completions(completions) => return completions.perform(session),
        Command::Options => {
            session.output.write(&help::global_options());
            return Ok(Exit::Done);
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failed("no_runtime", format!("cannot start the async runtime: {error}")))?;
    let code = runtime.block_on(async {
        match command {
            Command::Init(init) => init.perform(session).await,
            Command::Serve(serve) => serve.perform(session).await,
            Command::Run(run) => run.perform(session).await,
            Command::Batch(batch) => batch.perform(session).await,
            Command::Runs(runs) => runs.perform(session).await,
            Command::Cost(cost) => cost.perform(session).await,
            Command::Memory(memory) => memory.perform(session).await,
            Command::Channels(channels) => channels.perform(session).await,
            Command::Evaluations(evaluations) => evaluations.perform(session).await,
            Command::Defs(defs) => defs.perform(session).await,
            Command::Goal(goal) => goal.perform(session).await,
            Command::Worktree(worktree) => worktree.perform(session).await,
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
            Command::Complete(complete) => complete.perform(session).await,
            Command::Projects(projects) => projects.perform(session).await,
            Command::Stop(stop) => stop.perform(session).await,
            Command::Restart(restart) => restart.perform(session).await,
            Command::Logs(logs) => logs.perform(session).await,
            Command::Import(_)
            | Command::Skills(_)
            | Command::Status(_)
            | Command::Man(_)
            | Command::Mcp(_)
            | Command::Validate(_)
            | Command::Config(_)
            | Command::Trust(_)
            | Command::Completions(_)
            | Command::Options => Ok(Exit::Done),
        }
    });
    // A file operation that hangs must not keep the process: all that counts is journaled.
    runtime.shutdown_timeout(LEAVE);
    code
}

/// How long the process waits for operations that cannot be interrupted, such as a read of a dead disk.
const LEAVE: std::time::Duration = std::time::Duration::from_millis(500);

/// A value that a user typed: JSON, or text when it is not JSON.
pub(crate) fn json_or_text(text: &str) -> Result<serde_json::Value, CommandError> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => check_numbers(text).map(|()| value),
        Err(_) => Ok(text.into()),
    }
}

/// Refuses integers that would become other numbers.
pub(crate) fn check_numbers(json: &str) -> Result<(), CommandError> {
    numbers::check(json.as_bytes(), "the value")
        .map_err(|failure| CommandError::usage(failure.code, failure.message).with_hint(numbers::HINT))
}

/// Seconds of an age with its unit, as people write it: `90s`, `15m`, `2h`, `30d`, `4w`.
pub(crate) fn age(text: &str) -> Result<u64, String> {
    seconds(text, "d")
}

/// The same for a wait, which is seconds or minutes.
pub(crate) fn wait(text: &str) -> Result<u64, String> {
    seconds(text, "s")
}

/// Seconds; `usual` is the unit that is suggested for a number without one.
fn seconds(text: &str, usual: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len()));
    let each = match unit.trim() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        "" if !number.is_empty() => return Err(format!("{text} has no unit; did you mean {text}{usual}?")),
        _ => return Err(format!("{text:?} is not an age; write it like 30d, 12h, 15m or 90s")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} does not start with a number"))?;
    number.checked_mul(each).ok_or_else(|| format!("{text:?} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_needs_a_unit() {
        assert_eq!(["90s", "15m", "2 h", "30d", "4w"].map(age), [90, 900, 7_200, 2_592_000, 2_419_200].map(Ok));
        assert_eq!(age("30"), Err("30 has no unit; did you mean 30d?".into()));
        assert_eq!(wait("1"), Err("1 has no unit; did you mean 1s?".into()));
        for wrong in ["", "d", "soon", "30 days", "99999999999999999999d", "18446744073709551615w"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
