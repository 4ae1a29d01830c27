//! What differs between CLIs: how one is called, and what its output means.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use drawloom_contract::{activity::Activity, money::Cost};
use drawloom_process::{End, Line};
use serde_json::Value;

use crate::{
    error::Error,
    input::Mode,
    reply::{Problem, ProblemKind, Reply},
    seed::Seed,
    state::State,
};

/// A call of a CLI, before it is turned into arguments.
pub(crate) struct Request<'a> {
    pub(crate) prompt: &'a str,
    /// Empty when there is none.
    pub(crate) system: &'a str,
    pub(crate) model: Option<&'a str>,
    pub(crate) session: Session<'a>,
    pub(crate) schema: Option<&'a Value>,
    pub(crate) max_cost: Option<Cost>,
    pub(crate) directory: &'a Path,
    /// Where the files of the invocation will be.
    pub(crate) files: &'a Path,
    pub(crate) home: &'a Path,
    /// Arguments for the mode, and those of the config.
    pub(crate) extra: &'a [String],
}

/// Which session a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session<'a> {
    /// A new one; CLIs that can be told an id are told this one.
    New(&'a str),
    Resume(&'a str),
}

/// Where a mode is to hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) mode: Mode,
    /// Whether our sandbox holds the process.
    pub(crate) confined: bool,
    /// Whether the directory is a checkout that nothing else uses.
    pub(crate) isolated: bool,
    pub(crate) is_root: bool,
}

/// How a mode is asked of a CLI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModeArgs {
    pub(crate) args: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

impl ModeArgs {
    pub(crate) fn of(args: &[&str]) -> Self {
        Self { args: args.iter().map(|arg| (*arg).to_owned()).collect(), environment: Vec::new() }
    }
}

/// A call of a CLI as it is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) args: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// The standard input; empty when absent.
    pub(crate) input: Option<String>,
    /// Files that the CLI reads, by name.
    pub(crate) files: Vec<(&'static str, String)>,
}

/// One CLI.
pub(crate) trait Preset: Send + Sync {
    /// What people call it.
    fn title(&self) -> &str;

    /// The program's usual name.
    fn program(&self) -> &str;

    /// Environment variables of its login and its own settings: names, or beginnings with a `*`.
    fn variables(&self) -> &'static [&'static str];

    /// What it keeps on the machine: which fields of which files are its login, which files its sessions.
    fn state(&self, home: &Path, environment: &BTreeMap<String, String>) -> State;

    /// How the mode is asked of it; nothing when it cannot be.
    fn mode(&self, setting: Setting) -> Option<ModeArgs>;

    /// Whether a session can be continued.
    fn resumes(&self) -> bool;

    /// How it is had to make databases that its state begins with, where that takes long.
    fn seed(&self) -> Option<Seed> {
        None
    }

    /// Whether it begins a session under the id that it is given.
    fn takes_session_id(&self) -> bool {
        false
    }

    /// What it reports of its calls.
    fn metering(&self) -> Metering;

    /// Whether what it reports of a continued session is the sum of all its processes.
    fn reports_sums(&self) -> bool {
        false
    }

    /// Why it cannot have a login, when that shows without asking it.
    fn missing_login(&self, _: &Path, _: &BTreeMap<String, String>) -> Option<String> {
        None
    }

    /// The arguments that make it tell whether it is logged in, by its exit code.
    fn login_status(&self) -> Option<&'static [&'static str]> {
        None
    }

    fn invocation(&self, request: &Request<'_>) -> Result<Invocation, Error>;

    fn reader(&self) -> Box<dyn Reader>;
}

/// Reads the output of one process.
pub(crate) trait Reader: Send {
    fn line(&mut self, line: &Line);

    /// The session, as soon as the CLI has named it.
    fn session(&self) -> Option<&str>;

    /// What the CLI does now, and what this process used so far. Its texts may be long. Absent while the output does not say it.
    fn activity(&self) -> Option<&Activity> {
        None
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>) -> Reply;
}

/// What a CLI reports of a call, so that a budget can count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metering {
    /// Tokens and cost.
    Cost,
    /// Tokens alone.
    Tokens,
    /// Neither.
    Nothing,
}

/// How a process ended.
pub(crate) struct Ended<'a> {
    /// The CLI's title.
    pub(crate) title: &'a str,
    /// Its name in the config.
    pub(crate) name: &'a str,
    pub(crate) end: End,
    /// Standard output, shortened in the middle.
    pub(crate) output: &'a str,
    /// Standard error, shortened in the middle.
    pub(crate) errors: &'a str,
    pub(crate) seconds: u64,
}

impl Ended<'_> {
    pub(crate) fn is_success(&self) -> bool {
        self.end == End::Exited(0)
    }

    /// What a process without a result came to: its end and the last that it said.
    pub(crate) fn problem(&self) -> Problem {
        let title = self.title;
        let said = last_words(if self.errors.trim().is_empty() { self.output } else { self.errors });
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        match self.end {
            End::TimedOut => Problem::new(
                ProblemKind::TimedOut,
                format!(
                    "{title} had not finished after {} s and was stopped; raise time_limit_seconds, or give it less to do{said}",
                    self.seconds
                ),
            ),
            End::Exited(0) => {
                Problem::new(ProblemKind::BadOutput, format!("{title} ended without a result that could be read{said}"))
            }
            End::Exited(code) => Problem::new(ProblemKind::Crashed, format!("{title} exited with code {code}{said}")),
            End::Signalled(signal) => {
                Problem::new(ProblemKind::Crashed, format!("{title} was killed by signal {signal}{said}"))
            }
            End::Exceeded(exceeded) => Problem::new(
                ProblemKind::LimitExceeded,
                format!("{title} was stopped: {}", exceeded.told(&format!("clis.{}", self.name))),
            ),
            End::Lost => Problem::new(ProblemKind::Crashed, format!("the supervisor of {title} was killed")),
        }
    }
}

/// The problem of an output that goes on after its result: one of the two may come from another process, so neither counts.
pub(crate) fn went_on_after_result(title: &str) -> Problem {
    let message =
        format!("{title} printed a second result or more of its work after its result, so that none of it counts");
    Problem::new(ProblemKind::BadOutput, message)
}

/// The last lines of a text, within 500 bytes.
pub(crate) fn last_words(text: &str) -> String {
    let text = text.trim();
    let mut from = text.len().saturating_sub(500);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let cut = if from > 0 { text[from..].find('\n').map_or(from, |at| from + at + 1) } else { 0 };
    without_colours(&text[cut..])
}

/// The text without the escape sequences of a terminal.
fn without_colours(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.find(|sign: char| sign.is_ascii_alphabetic()).map_or("", |at| &after[at + 1..]);
    }
    plain + rest
}

/// The system prompt and the prompt as one text, for CLIs that take one.
pub(crate) fn combined(request: &Request<'_>) -> String {
    match request.system {
        "" => request.prompt.to_owned(),
        system => format!("{system}\n\n{}", request.prompt),
    }
}

/// The status code of an HTTP answer that a CLI reports in the words of an error, such as `last status: 429 Too Many Requests`.
pub(crate) fn status_in(message: &str) -> Option<u16> {
    let at = message.find("status")?;
    let digits: String =
        message[at..].chars().skip_while(|sign| !sign.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|status| (400..600).contains(status))
}

/// The kind of problem that a status code of the model's API means.
pub(crate) fn kind_of_status(status: u16) -> Option<ProblemKind> {
    match status {
        401 | 403 => Some(ProblemKind::NotLoggedIn),
        402 => Some(ProblemKind::Budget),
        429 => Some(ProblemKind::RateLimited),
        408 | 500..=599 => Some(ProblemKind::Overloaded),
        _ => None,
    }
}

/// A variable's value, unless it is empty.
pub(crate) fn variable<'a>(environment: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// A directory of the XDG standard: from its variable, or at its usual place in the home.
pub(crate) fn xdg(home: &Path, environment: &BTreeMap<String, String>, name: &str, usual: &str) -> PathBuf {
    variable(environment, name).map_or_else(|| home.join(usual), PathBuf::from)
}
