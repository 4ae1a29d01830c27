//! A call of a CLI as a command of the launcher: program, files, environment, and what it may see and change.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::tool::{ToolContext, ToolError};
use drawloom_process::{Access, Command, Confined, Input, ListedPath, Network, Output, developer_paths, program_paths};

use super::{CallInput, CliRun, SessionPlan};
use crate::{
    arguments,
    config::TIME_LIMIT_SECONDS,
    directory::{self, Workplace},
    environment::{self, Identity},
    error::Error,
    input::Mode,
    known::Cli,
    preset::{Request, Session, Setting},
    seed,
    sessions::{self, Known},
    state::{self, Private, Shown},
};

/// How long processes have between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(5);

/// Most bytes of each output stream that are kept.
const MOST_OUTPUT: usize = 4 * 1024 * 1024;

/// What a continued session is told before the task.
const RESUMED: &str = "Your work on this task was interrupted. Look at what is already done in the working directory, then continue and \
                       finish the task. The task:";

/// What a new session is told when an earlier one has begun the work.
const FRESH: &str = "Work on this task has begun already and was interrupted. Look at what is already done in the working directory, then \
                     continue and finish the task. The task:";

/// A call that is ready to be made.
pub(super) struct Order {
    pub(super) command: Command,
    /// Whether it continues a session.
    pub(super) resumed: bool,
    /// The copy of the CLI's state that it gets; none when it is not confined.
    pub(super) private: Option<Private>,
    files: PathBuf,
}

impl Order {
    pub(super) fn make(
        tool: &CliRun,
        context: &ToolContext,
        cli: &Cli,
        (program, workplace): (&Path, Workplace),
        input: CallInput,
        known: Option<&Known>,
    ) -> Result<Self, ToolError> {
        let (parts, preset) = (&tool.parts, cli.preset());
        let temporary = tool.temporary(context);
        let files = temporary.with_extension("files");
        let refused = |error: Error| directory::refused(&error);
        let setting = Setting {
            mode: workplace.mode,
            confined: cli.is_confined(),
            isolated: workplace.isolated,
            is_root: rustix::process::geteuid().is_root(),
        };
        let mode = cli.mode_args(setting).map_err(refused)?;
        let identity = if workplace.isolated { Identity::Ours } else { Identity::Users };
        let names: Vec<&str> =
            preset.variables().iter().copied().chain(cli.config.env.iter().map(String::as_str)).collect();
        let mut environment = environment::of(&parts.environment, &names, identity).map_err(refused)?;
        let (session, opening) = session(&input.session, preset.resumes(), known);
        let prompt = if opening.is_empty() { input.prompt } else { format!("{opening}\n\n{}", input.prompt) };
        let named = Some(context.definition.model.as_str()).filter(|model| !model.is_empty());
        let model = input.model.as_deref().or(named).or(cli.config.model.as_deref());
        if let Some(model) = model.filter(|model| model.starts_with('-')) {
            return Err(refused(Error::BadModel { model: model.to_owned() }));
        }
        let extra: Vec<String> = mode.args.iter().chain(&cli.config.args).cloned().collect();
        let request = Request {
            prompt: &prompt,
            system: &input.system,
            model,
            session,
            schema: input.schema.as_ref(),
            max_cost: cli.max_cost(),
            directory: &workplace.path,
            files: &files.join("in"),
            home: &parts.home,
            extra: &extra,
        };
        let resumed = matches!(session, Session::Resume(_));
        let invocation = preset.invocation(&request).map_err(refused)?;
        environment.extend(mode.environment);
        environment.extend(invocation.environment);
        environment.extend(input.environment);
        arguments::check(&program.to_string_lossy(), &invocation.args, &environment).map_err(refused)?;
        let output = output(
            &input.output_dir,
            input.output_name.as_deref(),
            &directory::of_tree(&parts.checkouts, context),
            &files,
        )?;
        let failed = |error: std::io::Error| ToolError::Failed(format!("cannot write the prompt of the CLI: {error}"));
        let stdin = write_files(&files, &invocation.files, invocation.input.as_deref()).map_err(failed)?;
        let (mut readable, mut writable, mut private) = (Vec::new(), Vec::new(), None);
        if cli.is_confined() {
            let tree = directory::of_tree(&parts.checkouts, context);
            let continued = match &input.session {
                SessionPlan::New { .. } | SessionPlan::Fresh { .. } => None,
                SessionPlan::Own { .. } => Some(context.run.run),
                SessionPlan::Of { run, .. } => Some(*run),
            };
            let copy = state::Order {
                cli: &cli.name,
                state: cli.state(&parts.home, &environment),
                temporary: &temporary,
                kept: Some(sessions::kept(&tree, context.run.run)),
                continued: continued.map(|run| sessions::kept(&tree, run)),
                seed: seed::find(parts, cli, program),
                directory: &workplace.path,
                session: match session {
                    Session::New(id) if preset.takes_session_id() => Some(id),
                    Session::New(_) => None,
                    Session::Resume(id) => Some(id),
                },
            };
            let name = format!("{}-{}", context.run.run, context.call);
            let (copy, shown) = private_copy(tool, &name, copy)?;
            let reach = Reach { tool, cli, program, files: &files, workplace: &workplace, environment: &environment };
            (readable, writable) = reach.lists();
            readable.extend(shown.readable);
            writable.extend(shown.writable);
            readable.extend(input.readable.into_iter().map(ListedPath::resolve));
            writable.extend(input.writable.into_iter().map(ListedPath::resolve));
            environment.extend(shown.environment);
            private = Some(copy);
        }
        let time_limit = time_limit(input.time_limit_seconds, cli.config.time_limit_seconds);
        let command = Command {
            program: program.to_string_lossy().into_owned(),
            args: invocation.args,
            directory: workplace.directory,
            // Without confinement the CLI's own mode is all that there is; one without such a mode was refused above.
            access: match (workplace.mode, cli.is_confined()) {
                (Mode::ReadOnly, true) => Access::ReadOnly,
                _ => Access::ReadWrite,
            },
            readable,
            writable,
            guarded: if cli.is_confined() { workplace.guarded } else { Vec::new() },
            network: Network::Host,
            environment: environment.into_iter().collect(),
            input: stdin,
            output: Output::Files {
                stdout: output.0,
                stderr: output.1,
                most: MOST_OUTPUT,
                redactor: context.redactor.clone(),
            },
            confined: if cli.is_confined() { Confined::Yes } else { Confined::No },
            home: Some(parts.home.clone()),
            temporary,
            limits: cli.limits(),
            time_limit,
            grace: GRACE,
        };
        Ok(Self { command, resumed, private, files })
    }

    /// Removes the files that the CLI read, and its output when that is kept nowhere.
    pub(super) fn remove_files(&self) {
        // What is left is removed at the next start.
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Makes the copy of the CLI's state, and says what the process gets of it.
fn private_copy(tool: &CliRun, name: &str, order: state::Order<'_>) -> Result<(Private, Shown), ToolError> {
    let parts = &tool.parts;
    let has_mounts = parts.launcher.confinement().is_ok_and(|found| found.namespaces.is_on());
    let failed = |error: std::io::Error| ToolError::Failed(format!("cannot copy the state of the CLI: {error}"));
    let cli = order.cli.to_owned();
    let private = Private::make(&parts.copies.join(name), order).map_err(failed)?;
    let shown = private
        .shown(has_mounts)
        .map_err(|path| directory::refused(&Error::NotPrivate { cli, path: path.to_string() }))?;
    Ok((private, shown))
}

/// The session of a call, and what is said before the task.
fn session<'a>(plan: &'a SessionPlan, resumes: bool, known: Option<&'a Known>) -> (Session<'a>, &'static str) {
    let known = known.map(|known| known.session.as_str()).filter(|_| resumes);
    match (plan, known) {
        (SessionPlan::New { new }, _) | (SessionPlan::Of { new, .. }, None) => (Session::New(new), ""),
        (SessionPlan::Of { .. }, Some(known)) => (Session::Resume(known), ""),
        (SessionPlan::Own { .. }, Some(known)) => (Session::Resume(known), RESUMED),
        (SessionPlan::Own { new } | SessionPlan::Fresh { new }, _) => (Session::New(new), FRESH),
    }
}

/// Where the raw output goes: to the directory that the caller names, inside the run's tree, or to files that are removed.
fn output(
    directory: &Option<PathBuf>,
    name: Option<&str>,
    tree: &Path,
    files: &Path,
) -> Result<(PathBuf, PathBuf), ToolError> {
    let at = match directory {
        Some(directory) => directory::inside(tree, directory)?,
        None => files.join("out"),
    };
    let name = name.unwrap_or("cli");
    Ok((at.join(format!("{name}.out")), at.join(format!("{name}.err"))))
}

/// Writes what the CLI reads, and opens its standard input.
fn write_files(files: &Path, named: &[(&'static str, String)], input: Option<&str>) -> std::io::Result<Input> {
    let _ = fs::remove_dir_all(files);
    for directory in [files.to_owned(), files.join("in"), files.join("out")] {
        DirBuilder::new().mode(0o700).create(directory)?;
    }
    let write = |path: &Path, text: &str| {
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?.write_all(text.as_bytes())
    };
    for (name, text) in named {
        write(&files.join("in").join(name), text)?;
    }
    match input {
        None => Ok(Input::Empty),
        Some(text) => {
            let path = files.join("stdin");
            write(&path, text)?;
            Ok(Input::File(Arc::new(File::open(path)?)))
        }
    }
}

/// What a confined process reaches.
struct Reach<'a> {
    tool: &'a CliRun,
    cli: &'a Cli,
    program: &'a Path,
    files: &'a Path,
    workplace: &'a Workplace,
    environment: &'a BTreeMap<String, String>,
}

impl Reach<'_> {
    /// What it may read, and what it may change besides its directory and its state.
    fn lists(&self) -> (Vec<ListedPath>, Vec<ListedPath>) {
        let parts = &self.tool.parts;
        let mut hidden = parts.hidden.clone();
        hidden.push(parts.checkouts.clone());
        let variable = |name: &str| self.environment.get(name).or_else(|| parts.environment.get(name)).cloned();
        let mut readable = developer_paths(&parts.home, &variable, &hidden);
        readable.extend(program_paths(self.program, &hidden));
        readable.extend(self.cli.config.readable_paths.iter().cloned().map(ListedPath::resolve));
        readable.extend(self.workplace.readable.iter().cloned());
        readable.push(ListedPath::resolve(self.files.join("in")));
        (readable, self.cli.config.writable_paths.iter().cloned().map(ListedPath::resolve).collect())
    }
}

/// The program of this name in the operator's `PATH`, or the path that it is.
pub(crate) fn find_program(name: &str, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    let path = environment.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    path.split(':')
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| Path::new(directory).join(name))
        .find(is_program)
}

/// The time limit of a process: what was asked, within what the config says. 0 asks for none, and then only the config's own limits
/// it, not the default.
fn time_limit(asked: Option<u32>, config: Option<u32>) -> Duration {
    let seconds = match asked {
        Some(0) => config.map_or(u64::MAX, u64::from),
        asked => {
            let limit = config.unwrap_or(TIME_LIMIT_SECONDS);
            asked.map_or(limit, |asked| asked.min(limit)).into()
        }
    };
    // A hundred years stand for "no limit": the sum with the current time does not overflow.
    Duration::from_secs(seconds.min(100 * 365 * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_limit_is_limited_by_the_config_alone() {
        let seconds = |asked, config| time_limit(asked, config).as_secs();
        assert_eq!((seconds(None, None), seconds(Some(60), None), seconds(Some(7_200), None)), (3_600, 60, 3_600));
        assert_eq!((seconds(None, Some(10)), seconds(Some(60), Some(10)), seconds(Some(0), Some(10))), (10, 10, 10));
        assert!(seconds(Some(0), None) > 50 * 365 * 86_400);
    }
}
