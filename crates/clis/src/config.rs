//! The config section `clis`.

use std::{collections::BTreeMap, path::PathBuf};

use drawloom_contract::money::Amount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::script;

/// How long a process of a CLI may take when nothing says otherwise, in seconds.
pub(crate) const TIME_LIMIT_SECONDS: u32 = 3600;

/// The longest time limit, in seconds.
pub(crate) const LONGEST_TIME_LIMIT_SECONDS: u32 = 86_400;

/// What a template can have in its arguments.
pub(crate) const PLACEHOLDERS: [&str; 7] =
    ["{prompt_file}", "{system_file}", "{directory}", "{model}", "{prompt}", "{system}", "{combined}"];

/// Coding CLIs, by the name that agents use as `provider`.
pub type ClisConfig = BTreeMap<String, CliConfig>;

/// A coding CLI that drawloom knows how to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PresetName {
    /// Claude Code, the program `claude`.
    ClaudeCode,
    /// Codex, the program `codex`.
    Codex,
    /// opencode, the program `opencode`.
    Opencode,
    /// aider, the program `aider`.
    Aider,
}

/// A coding CLI. `claude_code`, `codex`, `opencode` and `aider` exist without any config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CliConfig {
    /// The CLI that it is. Defaults to the one whose name this entry has. Excludes `command`.
    #[schemars(extend("x-power" = { "words": "runs the coding CLI {} with its login" }))]
    pub preset: Option<PresetName>,
    /// The program: an absolute path, or a name that `PATH` finds. Defaults to the usual name of the preset.
    #[schemars(extend("x-power" = { "words": "starts the program {} as a coding CLI", "as": "program" }))]
    pub program: Option<String>,
    /// A command for a CLI without a preset: the program and its arguments. `{prompt_file}`, `{system_file}`, `{directory}` and `{model}`
    /// are replaced; without `{prompt_file}` the prompt is the standard input. Its standard output is the result.
    #[schemars(extend("x-power" = { "words": "starts the program {} as a coding CLI", "as": "program" }))]
    pub command: Option<Vec<String>>,
    /// More arguments, added to those of every call.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI the arguments {}", "as": "program" }))]
    pub args: Vec<String>,
    /// Names of further environment variables that are passed to it. Besides them it gets `PATH`, the locale, proxies, toolchains
    /// and the variables of its own login.
    #[schemars(inner(pattern(r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    #[schemars(extend("x-power" = { "words": "gives the coding CLI the variable {}", "as": "variable" }))]
    pub env: Vec<String>,
    /// The model for agents that name none; if absent, the CLI chooses.
    #[schemars(extend("x-harmless" = "chooses among the providers, which are listed"))]
    pub model: Option<String>,
    /// Whether it runs without confinement: it can then read and change whatever drawloom's user can.
    #[schemars(extend("x-power" = { "words": "runs the coding CLI without a sandbox", "as": "flag" }))]
    pub unconfined: bool,
    /// Absolute paths that it can read, besides the system, toolchains and its own settings.
    #[schemars(extend("x-power" = { "words": "lets the coding CLI read {}", "as": "path" }))]
    pub readable_paths: Vec<PathBuf>,
    /// Absolute paths that it can change, besides its directory, a temporary directory and a private copy of its state, such as a cache
    /// of packages.
    #[schemars(extend("x-power" = { "words": "lets the coding CLI change {}", "as": "path" }))]
    pub writable_paths: Vec<PathBuf>,
    /// Directories where it keeps its login, settings and sessions, besides those that drawloom knows of the preset. It gets a private copy.
    pub state: Vec<StateConfig>,
    /// Maximum memory of one process with everything that it starts, in bytes. Defaults to three quarters of the machine's memory.
    #[schemars(range(min = 1_048_576))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_memory_bytes: Option<u64>,
    /// Maximum processes and threads at once of one process and everything that it starts. Defaults to 2048, and 256 for each processor
    /// where that is more.
    #[schemars(range(min = 16))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_processes: Option<u64>,
    /// Time limit of one process, in seconds. Defaults to 3600; a goal whose calls have no limit runs longer than the default, but never
    /// longer than what is set here.
    #[schemars(range(min = 1, max = 86400))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub time_limit_seconds: Option<u32>,
    /// Maximum cost of one process. It is reserved in the budget before the call, and Claude Code stops there by itself.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_cost: Option<Amount>,
    /// Arguments for the mode `read_only`, in place of those of the preset.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI in the mode read_only the arguments {}", "as": "program" }))]
    pub read_only_args: Option<Vec<String>>,
    /// Arguments for the mode `edit`, in place of those of the preset.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI in the mode edit the arguments {}", "as": "program" }))]
    pub edit_args: Option<Vec<String>>,
    /// Arguments for the mode `skip_permissions`, in place of those of the preset.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI in the mode skip_permissions the arguments {}", "as": "program" }))]
    pub skip_permissions_args: Option<Vec<String>>,
}

/// A directory where a CLI keeps its login, settings and sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateConfig {
    /// The directory: an absolute path, or one that begins with `~/`.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI a private copy of files in {}", "as": "path" }))]
    pub path: PathBuf,
    /// The variable that leads the CLI to the directory. Needed only where the machine has no namespaces.
    #[schemars(inner(pattern(r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    #[schemars(extend("x-harmless" = "is set to the path of the private copy"))]
    pub variable: Option<String>,
    /// Files with settings that the copy has, as patterns below the directory. `*` stands for any part of one name, `**` at the end for
    /// all below.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI a copy of the settings {}" }))]
    pub settings: Vec<String>,
    /// Directories below it that the copy shows read-only.
    #[schemars(extend("x-power" = { "words": "shows the coding CLI the settings {}" }))]
    pub shared: Vec<String>,
    /// Files with its login.
    pub login: Vec<LoginConfig>,
    /// Files of sessions, as patterns. They are copied back when the process has ended.
    #[schemars(extend("x-power" = { "words": "keeps sessions of the coding CLI in {}" }))]
    pub sessions: Vec<String>,
}

/// A file with a login of a CLI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoginConfig {
    /// Its name, below the directory.
    #[schemars(extend("x-power" = { "words": "gives the coding CLI a copy of the login {}" }))]
    pub file: String,
    /// Keys of the JSON object in it that are copied back when the CLI has renewed them; `*` for every key.
    #[schemars(extend("x-power" = { "words": "lets the coding CLI renew {} of its login" }))]
    pub fields: Vec<String>,
    /// Where the file names the account, as a JSON pointer such as `/tokens/account_id`. Nothing is copied back once it is another one.
    #[schemars(extend("x-harmless" = "only narrows what is copied back"))]
    pub account: Option<String>,
    /// Where the file says how new the login is, as a JSON pointer to a number or a date. The newer one wins.
    #[schemars(extend("x-harmless" = "only narrows what is copied back"))]
    pub newer: Option<String>,
}

impl PresetName {
    pub(crate) const ALL: [Self; 4] = [Self::ClaudeCode, Self::Codex, Self::Opencode, Self::Aider];

    /// As the config has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Aider => "aider",
        }
    }

    /// The preset of this name, or of an alias.
    pub fn find(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::ClaudeCode),
            "open_code" => Some(Self::Opencode),
            name => Self::ALL.into_iter().find(|preset| preset.as_str() == name),
        }
    }
}

/// What is wrong with the section: the keys that lead there, a sentence, and what to do.
pub fn problems(clis: &ClisConfig) -> Vec<(Vec<String>, String, String)> {
    let mut problems = Vec::new();
    for (name, config) in clis {
        let mut report = |below: &[&str], message: String, hint: &str| {
            let keys = [name.as_str()].into_iter().chain(below.iter().copied()).map(str::to_owned).collect();
            problems.push((keys, message, hint.to_owned()));
        };
        let plain = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
            report(
                &[],
                format!("{name:?} is not a valid name of a CLI"),
                "use at most 32 letters, digits, `-` and `_`",
            );
        }
        match (&config.command, config.preset.or_else(|| PresetName::find(name))) {
            (Some(_), _) if config.preset.is_some() => {
                report(&["command"], "`preset` and `command` exclude each other".into(), "keep one of them");
            }
            (Some(command), _) if command.first().is_none_or(String::is_empty) => {
                report(&["command"], "the command has no program".into(), "list the program first, then its arguments");
            }
            (Some(command), _) => {
                let unknown = command.iter().enumerate().find(|(_, argument)| has_unknown_placeholder(argument));
                if let Some((at, argument)) = unknown {
                    let message = format!("unknown placeholder in {argument:?}");
                    report(
                        &["command", &at.to_string()],
                        message,
                        "use {prompt_file}, {system_file}, {directory} or {model}",
                    );
                }
                if let Some(at) = script::with_placeholder(command) {
                    let message = format!("{:?} is code, and a text in it would run as code", command[at]);
                    let hint = "pass the text as an argument of its own: [sh, -c, 'echo \"$1\"', sh, \"{prompt}\"]";
                    report(&["command", &at.to_string()], message, hint);
                }
                if config.program.is_some() {
                    report(&["program"], "`command` names the program".into(), "remove `program`");
                }
            }
            (None, Some(_)) => {}
            (None, None) => {
                let hint = "add `preset`: claude_code, codex, opencode or aider; or `command`";
                report(&[], format!("the CLI {name:?} has neither `preset` nor `command`"), hint);
            }
        }
        for (at, state) in config.state.iter().enumerate() {
            let at = at.to_string();
            let mut refuse = |below: &[&str], text: &str| {
                let keys: Vec<&str> = ["state", &at].into_iter().chain(below.iter().copied()).collect();
                report(
                    &keys,
                    format!("{text:?} is not a path below the directory"),
                    "use a relative path without `..`",
                );
            };
            let is_below = |text: &str| {
                !text.is_empty() && text.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
            };
            for (key, paths) in
                [("settings", &state.settings), ("shared", &state.shared), ("sessions", &state.sessions)]
            {
                paths.iter().filter(|path| !is_below(path)).for_each(|path| refuse(&[key], path));
            }
            let logins = state.login.iter().filter(|login| !is_below(&login.file));
            logins.for_each(|login| refuse(&["login"], &login.file));
            if !state.path.is_absolute() && !state.path.starts_with("~") {
                let message = format!("{:?} must be an absolute path, or begin with ~/", state.path.display());
                report(&["state", &at, "path"], message, "begin it with / or ~/");
            }
        }
        for (key, paths) in [("readable_paths", &config.readable_paths), ("writable_paths", &config.writable_paths)] {
            for (at, path) in paths.iter().enumerate() {
                let at = at.to_string();
                if !path.is_absolute() {
                    report(&[key, &at], format!("{:?} must be an absolute path", path.display()), "begin it with /");
                } else if let Err(error) = path.metadata() {
                    report(
                        &[key, &at],
                        format!("{:?} must exist: {error}", path.display()),
                        "create it, or remove it here",
                    );
                }
            }
        }
    }
    problems
}

/// Whether something in braces is none of the placeholders. Braces around other text are part of an argument.
fn has_unknown_placeholder(argument: &str) -> bool {
    let word = argument.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|sign| sign.is_ascii_lowercase() || sign == '_');
    word.is_some_and(is_word) && !PLACEHOLDERS.contains(&argument)
}
