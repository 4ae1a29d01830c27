//! Whether a CLI is installed and logged in, for `doctor` and the list of backends.

use std::{
    fs::{self, DirBuilder, File},
    os::unix::fs::DirBuilderExt as _,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use drawloom_process::{Access, Command, Confined, End, Input, Limits, Network, Output};

use crate::{
    call::find_program,
    environment::{self, Identity},
    executor::Parts,
    known::Cli,
    preset::last_words,
};

/// How long each question may take.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// What was found out about a CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Where the program is; absent when it is not installed.
    pub path: Option<PathBuf>,
    /// What it answers to `--version`.
    pub version: Option<String>,
    pub logged_in: Login,
}

/// Whether a CLI has a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    Yes,
    /// It has none, for this reason.
    No(String),
    /// Only a call would tell.
    Unknown,
}

impl Probe {
    pub fn installed(&self) -> bool {
        self.path.is_some()
    }
}

/// Asks a CLI for its version and its login. It starts at most two short processes, unconfined, as the user would.
pub async fn probe(cli: &Cli, parts: &Parts) -> Probe {
    let (preset, environment) = (cli.preset(), &parts.environment);
    let Some(path) = find_program(cli.program(), environment) else {
        return Probe { path: None, version: None, logged_in: Login::Unknown };
    };
    let version = match cli.config.command.is_some() {
        true => None,
        false => {
            ask(cli, parts, &path, &["--version"]).await.filter(|(end, _)| *end == End::Exited(0)).map(|(_, said)| said)
        }
    };
    let logged_in = match (preset.missing_login(&parts.home, environment), preset.login_status()) {
        (Some(reason), _) => Login::No(reason),
        (None, None) => Login::Unknown,
        (None, Some(arguments)) => match ask(cli, parts, &path, arguments).await {
            Some((End::Exited(0), _)) => Login::Yes,
            Some((End::Exited(_), said)) if !said.is_empty() => Login::No(said),
            _ => Login::Unknown,
        },
    };
    Probe { path: Some(path), version, logged_in }
}

/// The last line of a text that has words. Brackets at the end of JSON or of a stack trace say nothing.
fn reason_in(said: &str) -> String {
    let has_words = |line: &&str| line.chars().filter(|sign| sign.is_alphabetic()).count() >= MIN_LETTERS;
    let line = said.lines().map(str::trim).rev().find(has_words).unwrap_or_default();
    let unquoted = line.trim_end_matches(',').split_once("\": \"").map(|(_, value)| value.trim_end_matches('"'));
    unquoted.unwrap_or(line).to_owned()
}

/// Letters of a line that says something.
const MIN_LETTERS: usize = 3;

/// Runs the program with these arguments; how it ended, and the last line that it said.
async fn ask(cli: &Cli, parts: &Parts, program: &std::path::Path, arguments: &[&str]) -> Option<(End, String)> {
    let names: Vec<&str> =
        cli.preset().variables().iter().copied().chain(cli.config.env.iter().map(String::as_str)).collect();
    let environment = environment::of(&parts.environment, &names, Identity::Users).ok()?;
    let place = parts.temporary.join(format!("probe-{}-{}", std::process::id(), cli.name));
    let directory = place.with_extension("directory");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    let command = Command {
        program: program.to_string_lossy().into_owned(),
        args: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        directory: Arc::new(File::open(&directory).ok()?),
        access: Access::ReadWrite,
        readable: Vec::new(),
        writable: Vec::new(),
        guarded: Vec::new(),
        network: Network::Host,
        environment: environment.into_iter().collect(),
        input: Input::Empty,
        output: Output::Together { most: 16 * 1024 },
        confined: Confined::No,
        home: Some(parts.home.clone()),
        temporary: place,
        limits: Limits::default(),
        time_limit: TIME_LIMIT,
        grace: Duration::from_secs(1),
    };
    let finished = parts.launcher.run(&command, parts.clock.as_ref()).await.ok();
    let _ = fs::remove_dir_all(&directory);
    let finished = finished?;
    let said = last_words(&finished.output.into_text());
    Some((finished.end, reason_in(&said)))
}

#[cfg(test)]
mod tests {
    use super::reason_in;

    #[test]
    fn a_reason_is_the_last_line_with_words() {
        assert_eq!(reason_in("Checking\nNot logged in\n"), "Not logged in");
        assert_eq!(reason_in("{\n  \"loggedIn\": false,\n  \"error\": \"Not logged in\"\n}\n"), "Not logged in");
        assert_eq!(reason_in("}\n]\n"), "");
    }
}
