//! The command lines of `agentloop` and `agentloop-mcp`, for scripts that were written for them: this program, started by one of these
//! names, takes their arguments and answers in their shapes. Everything else is `drawloom goal` and `drawloom mcp`.

use std::{
    ffi::{OsStr, OsString},
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use clap::{Args, Parser, Subcommand};
use drawloom_wire::goals::{BackendList, GoalEvent, GoalResult};
use serde_json::{Value, json};

use crate::{
    cli::{Cli, Command},
    commands::{Session, goal::exit_of},
    exit::Exit,
    output::Format,
};

/// In whose shape a goal's output is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    #[default]
    Usual,
    /// That of `agentloop`.
    Agentloop,
}

/// Drive a goal to done with a team of coding agents
#[derive(Debug, Parser)]
#[command(name = "agentloop", version, max_term_width = 100)]
struct Agentloop {
    #[command(subcommand)]
    command: LoopCommand,
}

#[derive(Debug, Subcommand)]
enum LoopCommand {
    /// Run a goal to its end
    Run(Box<Run>),
    /// List backends
    Backends {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Run {
    /// What is to be achieved; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    goal: Option<String>,
    /// Read the goal from a file
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    goal_file: Option<PathBuf>,
    /// How the reviewer knows that the goal is met; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    criteria: Option<String>,
    /// Read the criteria from a file
    #[arg(long, value_name = "FILE", conflicts_with = "criteria")]
    criteria_file: Option<PathBuf>,
    /// Who works: claude_code, codex, opencode, aider, mock or auto
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: String,
    /// The git repository to change; without it, roles only answer
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Maximum iterations
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    max_iterations: u32,
    /// Timeout of one call of a coding CLI [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<u64>,
    /// Maximum seconds in all
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_seconds: Option<u64>,
    /// A command that must succeed on the work; can be repeated
    #[arg(long = "verify", value_name = "COMMAND", allow_hyphen_values = true)]
    verify: Vec<String>,
    /// Timeout of each verify command
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    verify_timeout: Option<u64>,
    /// Ask for browser tests, and verify with `npx playwright test`
    #[arg(long)]
    playwright: bool,
    /// Let workers use their tools without asking, inside their checkouts
    #[arg(long)]
    skip_permissions: bool,
    /// Work in the directory itself
    #[arg(long)]
    no_isolate: bool,
    /// The model of all roles
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    /// Print a line of JSON on stderr after every iteration
    #[arg(long)]
    progress: bool,
    /// Never ask anything
    #[arg(long)]
    non_interactive: bool,
    /// Ask what must be known before planning: the exit code is 3, and --resume goes on
    #[arg(long)]
    ask: bool,
    /// Continue a goal that asked something, with --answer
    #[arg(long, value_name = "TOKEN")]
    resume: Option<String>,
    /// An answer, in the order of the questions; can be repeated
    #[arg(long = "answer", value_name = "TEXT", allow_hyphen_values = true)]
    answers: Vec<String>,
}

/// Seconds as they may be written there, with a fraction; a part of a second counts as a whole one.
fn seconds(text: &str) -> Result<u64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    match number.is_finite() && number > 0.0 && number < 1e12 {
        true => Ok(number.ceil() as u64),
        false => Err(format!("{text:?} is not a number of seconds above 0")),
    }
}

/// The command line as ours, when the program was started by a name of the reference and its arguments are that name's.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Option<Result<Cli, clap::Error>> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = Path::new(arguments.first()?).file_name().and_then(OsStr::to_str)?;
    let first = arguments.get(1).and_then(|word| word.to_str());
    // A copy of the program under this name still has to be able to start its server.
    let is_ours = first.is_some_and(|word| !word.starts_with('-') && !matches!(word, "run" | "backends" | "help"));
    match name {
        "agentloop-mcp" if first.is_none_or(|word| word.starts_with('-')) => {
            let words = ["drawloom", "mcp", "--toolsets", "goal"].map(OsString::from);
            Some(Cli::read_from(words.into_iter().chain(arguments.into_iter().skip(1)).collect()))
        }
        "agentloop" if !is_ours => Some(Agentloop::try_parse_from(arguments).and_then(Agentloop::into_ours)),
        _ => None,
    }
}

impl Agentloop {
    fn into_ours(self) -> Result<Cli, clap::Error> {
        let words = match self.command {
            LoopCommand::Run(run) => run.words(),
            LoopCommand::Backends { json } => {
                let json = json.then(|| "--json".into());
                ["goal", "backends"].map(OsString::from).into_iter().chain(json).collect()
            }
        };
        let mut cli = Cli::read_from([OsString::from("drawloom")].into_iter().chain(words).collect())?;
        if let Some(Command::Goal(goal)) = &mut cli.command {
            goal.set_shape(Shape::Agentloop);
        }
        Ok(cli)
    }
}

/// An option with its value as one word, so that a value can begin with a hyphen.
fn option(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}

impl Run {
    fn words(self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["goal".into(), "run".into()];
        let mut flag = |name: &str, is_set: bool| words.extend(is_set.then(|| OsString::from(format!("--{name}"))));
        flag("json", self.json);
        flag("progress", self.progress);
        if let Some(token) = &self.resume {
            words.push(option("resume", token));
            words.extend(self.answers.iter().map(|answer| option("answer", answer)));
            return words;
        }
        // It asks people only on a terminal, and never about the plan.
        let asks = std::io::stdin().is_terminal() && !self.json && !self.non_interactive && !self.ask;
        flag("yes", true);
        flag("non-interactive", !asks);
        flag("ask", self.ask);
        flag("playwright", self.playwright);
        flag("skip-permissions", self.skip_permissions);
        flag("no-isolate", self.no_isolate);
        flag("no-cwd", self.cwd.is_none());
        words.push(option("backend", &self.backend));
        words.push(option("max-iterations", self.max_iterations.to_string()));
        let texts = [("goal", self.goal), ("criteria", self.criteria), ("model", self.model)];
        words.extend(texts.into_iter().filter_map(|(name, text)| Some(option(name, text?))));
        let paths = [("goal-file", self.goal_file), ("criteria-file", self.criteria_file), ("cwd", self.cwd)];
        words.extend(paths.into_iter().filter_map(|(name, path)| Some(option(name, path?))));
        let times = [
            ("timeout", Some(self.timeout.unwrap_or(0))),
            ("max-seconds", self.max_seconds),
            ("verify-timeout", self.verify_timeout),
        ];
        words.extend(times.into_iter().filter_map(|(name, time)| Some(option(name, time?.to_string()))));
        words.extend(self.verify.iter().map(|command| option("verify", command)));
        words.extend(self.answers.iter().filter(|_| self.ask).map(|answer| option("answer", answer)));
        words
    }
}

/// Shows a result in the shape of `agentloop`, and returns its exit code.
pub(crate) fn told(session: &Session, result: &GoalResult) -> Exit {
    let output = &session.output;
    let exit = exit_of(result);
    if output.format() == Format::Json {
        output.json(&document(result));
        return exit;
    }
    if exit == Exit::NeedsInput {
        output.line("needs_input");
        for (index, question) in result.questions.iter().enumerate() {
            output.line(format!("{}. {question}", index + 1));
        }
        output.line(format!("token={}", result.token.as_deref().unwrap_or_default()));
        return exit;
    }
    let completed = if result.completed == Some(true) { "True" } else { "False" };
    let reason = result.stop_reason.as_deref().unwrap_or_default();
    output.line(format!("completed={completed} iterations={} stop_reason={reason}", result.iterations));
    if let Some(worktree) = &result.worktree {
        let changed = worktree.changed_count;
        output.line(format!("worktree={} ({changed} files changed)", worktree.branch));
    }
    output.line("---");
    let error = result.error.as_ref().map(|error| error.message.as_str());
    output.line(result.final_output.as_deref().filter(|text| !text.is_empty()).or(error).unwrap_or_default());
    exit
}

/// A result as its JSON has it.
fn document(result: &GoalResult) -> Value {
    if exit_of(result) == Exit::NeedsInput {
        return json!({ "status": "needs_input", "questions": result.questions, "token": result.token, "run_id": result.run_id });
    }
    let mut document = json!({
        "completed": result.completed.unwrap_or_default(),
        "iterations": result.iterations,
        "stop_reason": result.stop_reason,
        "final_output": result.final_output.as_deref().unwrap_or_default(),
        "history": result.history.iter().map(iteration).collect::<Vec<_>>(),
        "summary": result.summary,
        "run_id": result.run_id,
        "run_dir": result.run_dir,
    });
    if let Some(worktree) = &result.worktree {
        document["worktree"] = json!({
            "path": worktree.path, "branch": worktree.branch,
            "changed_files": worktree.changed_files, "checkpoints": worktree.checkpoints,
        });
    }
    if let Some(error) = &result.error {
        document["error"] = error.message.clone().into();
    }
    document
}

/// An iteration of the history.
fn iteration(found: &Value) -> Value {
    let list = |name: &str| found[name].as_array().cloned().unwrap_or_default();
    let picked = |value: &Value, names: &[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), value[*name].clone())).collect()
    };
    let verification = list("verification");
    let verification = verification.iter().map(|result| {
        json!({
            "name": result["name"], "ok": result["ok"], "exit_code": result["exit_code"], "stdout": result["output"],
            "stderr": "", "error": result["error"],
            "duration": result["duration_ms"].as_f64().unwrap_or_default() / 1000.0,
        })
    });
    json!({
        "iteration": found["iteration"],
        "subgoals": list("subgoals").iter().map(|subgoal| subgoal["description"].clone()).collect::<Vec<_>>(),
        "results": list("results").iter().map(|result| picked(result, &["id", "ok", "error"])).collect::<Vec<_>>(),
        "review": picked(&found["review"], &["gates_passed", "goal_complete", "issues"]),
        "verification": verification.collect::<Vec<_>>(),
    })
}

/// The line that `--progress` prints after an iteration; `verification` is its last event of that kind.
pub(crate) fn progress(finished: &GoalEvent, verification: Option<&GoalEvent>) -> Value {
    let results = verification.filter(|event| event.iteration == finished.iteration);
    let results = results.and_then(|event| event.data["results"].as_array().cloned()).unwrap_or_default();
    json!({
        "iteration": finished.iteration,
        "subgoals_ok": finished.data["subgoals_ok"],
        "subgoals_total": finished.data["subgoals_total"],
        "verification_ok": results.iter().filter(|result| result["ok"] == true).count(),
        "verification_total": results.len(),
        "goal_complete": finished.data["goal_complete"],
    })
}

/// Shows backends: their names, one a line, or a document.
pub(crate) fn backends(session: &Session, list: &BackendList) {
    let names: Vec<&str> = list.backends.iter().map(|backend| backend.name.as_str()).collect();
    match session.output.format() {
        Format::Human => names.iter().for_each(|name| session.output.line(name)),
        Format::Json => session.output.json(&json!({
            "backends": names, "default": list.default, "resolved_default": list.resolved_default,
            "timeouts": list.timeouts,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Option<Result<Cli, clap::Error>> {
        read(line.iter().map(OsString::from))
    }

    #[test]
    fn only_the_names_of_the_reference_mean_its_command_line() {
        assert!(words(&["/usr/bin/drawloom", "run"]).is_none());
        assert!(words(&["agentloop", "serve"]).is_none(), "a copy of the program starts its server");
        assert!(words(&["agentloop-mcp", "serve"]).is_none());
        let listed = words(&["/opt/agentloop", "backends", "--json"]).expect("its name").expect("its arguments");
        assert!(matches!(listed.command, Some(Command::Goal(_))));
        let served = words(&["agentloop-mcp"]).expect("its name").expect("its arguments");
        assert!(matches!(served.command, Some(Command::Mcp(_))));
        for wrong in [&["agentloop"][..], &["agentloop", "run", "--nonsense"], &["agentloop", "run", "--timeout", "-1"]]
        {
            assert!(words(wrong).expect("its name").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_option_of_a_run_is_passed_on() {
        let line = [
            "agentloop",
            "run",
            "--goal",
            "-x",
            "--criteria",
            "--y",
            "--backend",
            "codex",
            "--cwd",
            "d",
            "--max-iterations",
            "2",
            "--timeout",
            "1.5",
            "--max-seconds",
            "60",
            "--verify",
            "a b",
            "--verify",
            "-c",
            "--verify-timeout",
            "9",
            "--playwright",
            "--skip-permissions",
            "--no-isolate",
            "--model",
            "m",
            "--json",
            "--progress",
            "--ask",
            "--answer",
            "one",
        ];
        let Agentloop { command: LoopCommand::Run(run) } = Agentloop::try_parse_from(line).expect("options") else {
            panic!("not a run")
        };
        let passed: Vec<String> = run.words().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let expected = [
            "goal",
            "run",
            "--json",
            "--progress",
            "--yes",
            "--non-interactive",
            "--ask",
            "--playwright",
            "--skip-permissions",
            "--no-isolate",
            "--backend=codex",
            "--max-iterations=2",
            "--goal=-x",
            "--criteria=--y",
            "--model=m",
            "--cwd=d",
            "--timeout=2",
            "--max-seconds=60",
            "--verify-timeout=9",
            "--verify=a b",
            "--verify=-c",
            "--answer=one",
        ];
        assert_eq!(passed, expected);
        let Agentloop { command: LoopCommand::Run(run) } =
            Agentloop::try_parse_from(["agentloop", "run", "--goal", "x"]).expect("options")
        else {
            panic!("not a run")
        };
        assert!(run.words().iter().any(|word| word == "--timeout=0"), "without one a call has no limit");
        assert!(words(&line).expect("its name").is_ok(), "our own command line takes all of them");
    }
}
