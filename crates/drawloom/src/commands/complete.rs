//! `drawloom complete`: names for the shell that completes a command line. Hidden: the scripts of `drawloom completions` call it. It starts
//! nothing, reads only the config and the store, and has no output when it does not know better than the script.

use std::{path::PathBuf, time::Duration};

use clap::{Arg, Args, Command};
use drawloom_contract::{
    caller::Visible,
    ids::Tenant,
    journal::{RunFilter, RunReader as _},
};
use drawloom_server::GOAL_AGENT;
use drawloom_store::{Found, Store};
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};

use crate::{
    cli::{Cli, Globals, Look},
    commands::Session,
    config, environment,
    exit::{CommandError, Exit},
    operations,
    project::Project,
};

/// How many runs are proposed, the newest first.
const MAX_RUNS: u32 = 50;
/// How long the names may take.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Print the names that can stand at the end of a command line
#[derive(Debug, Args)]
pub struct Complete {
    /// Words of the command line behind the program; the last one is completed
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// What is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Agent,
    Run,
    Goal,
    Operation,
}

impl Kind {
    /// What an argument of a command wants, by the name of its value.
    fn of(path: &[&str], argument: &Arg) -> Option<Self> {
        let name = argument.get_value_names()?.first()?.as_str();
        match (name, path) {
            ("AGENT", _) => Some(Self::Agent),
            ("RUN", _) => Some(Self::Run),
            // The goal of `goal run` is its text.
            ("GOAL", ["goal", "run"]) => None,
            ("GOAL", _) => Some(Self::Goal),
            ("NAME", ["call"]) => Some(Self::Operation),
            _ => None,
        }
    }
}

/// What the words before the last one say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Asked {
    kind: Option<Kind>,
    /// What the name begins with.
    prefix: String,
    config: Vec<PathBuf>,
    data_dir: Option<PathBuf>,
    /// Whether the command is about goals, which have a config of their own where no other is found.
    is_about_goals: bool,
}

impl Complete {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let asked = asked(&self.words);
        let Some(kind) = asked.kind else { return Ok(Exit::Done) };
        let globals = globals(session, &asked);
        let runtime = Handle::current();
        let names = spawn_blocking(move || runtime.block_on(names(kind, &globals)));
        // A shell waits for this: a disk that does not answer must not stop it.
        let Ok(Ok(mut names)) = timeout(MAX_TIME, names).await else { return Ok(Exit::Done) };
        if matches!(kind, Kind::Run | Kind::Goal) && !names.is_empty() {
            names.insert(0, ("last".to_owned(), "the newest".to_owned()));
        }
        for (name, about) in names.iter().filter(|(name, _)| name.starts_with(&asked.prefix)) {
            session.output.line(format!("{name}\t{}", about.lines().next().unwrap_or_default()));
        }
        Ok(Exit::Done)
    }
}

/// Every name of a kind, and what it is.
async fn names(kind: Kind, globals: &Globals) -> Vec<(String, String)> {
    match kind {
        Kind::Operation => operations::cards().map(|card| (card.name().to_owned(), card.summary.to_string())).collect(),
        Kind::Agent => agents(globals),
        Kind::Run => runs(globals, None).await,
        Kind::Goal => runs(globals, Some(GOAL_AGENT)).await,
    }
}

/// Walks the command line as the parser would.
fn asked(words: &[String]) -> Asked {
    let mut whole = Cli::described();
    whole.build();
    let mut asked = Asked::default();
    let Some((last, before)) = words.split_last() else { return asked };
    let (mut command, mut path, mut positional) = (&whole, Vec::new(), 0);
    let mut wanted: Option<&Arg> = None;
    // Bash splits `--agent=x` at the sign.
    for word in before.iter().filter(|word| *word != "=") {
        if let Some(argument) = wanted.take() {
            asked.note(argument, word);
            continue;
        }
        match option(command, word) {
            Some((argument, Some(value))) => asked.note(argument, value),
            Some((argument, None)) => wanted = Some(argument).filter(|argument| argument.get_action().takes_values()),
            None if word.starts_with('-') && word != "-" => {}
            None => match command.find_subcommand(word).filter(|_| positional == 0) {
                Some(below) => {
                    (command, positional) = (below, 0);
                    path.push(below.get_name());
                }
                None => positional += 1,
            },
        }
    }
    asked.is_about_goals = matches!(path.first(), Some(&"goal" | &"worktree"));
    let last = last.trim_start_matches('=');
    if let Some(argument) = wanted {
        (asked.kind, asked.prefix) = (Kind::of(&path, argument), last.to_owned());
    } else if let Some((argument, Some(value))) = option(command, last) {
        // The shell replaces the whole word.
        if Kind::of(&path, argument).is_some() {
            (asked.kind, asked.prefix) = (Kind::of(&path, argument), value.to_owned());
        }
    } else if !last.starts_with('-') {
        let found = command.get_positionals().nth(positional).or_else(|| command.get_positionals().last());
        (asked.kind, asked.prefix) = (found.and_then(|argument| Kind::of(&path, argument)), last.to_owned());
    }
    asked
}

impl Asked {
    /// Keeps what says where the project is.
    fn note(&mut self, argument: &Arg, value: &str) {
        match argument.get_id().as_str() {
            "config" => self.config.push(value.into()),
            "data_dir" => self.data_dir = Some(value.into()),
            _ => {}
        }
    }
}

/// The long options whose values are names.
pub(super) fn options() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(Cli::described(), Vec::new())];
    while let Some((command, path)) = open.pop() {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let options = command.get_arguments().filter(|argument| Kind::of(&names, argument).is_some());
        found.extend(options.filter_map(|argument| argument.get_long()).map(str::to_owned));
        for below in command.get_subcommands() {
            open.push((below.clone(), [&path[..], &[below.get_name().to_owned()]].concat()));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The option that a word is, and its value when the word has one.
fn option<'c, 'w>(command: &'c Command, word: &'w str) -> Option<(&'c Arg, Option<&'w str>)> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name))?;
        return Some((argument, value));
    }
    let short = word.strip_prefix('-')?.chars().next()?;
    let argument = command.get_arguments().find(|argument| argument.get_short() == Some(short))?;
    let value = word.get(1 + short.len_utf8()..).filter(|value| !value.is_empty());
    Some((argument, value.filter(|_| argument.get_action().takes_values())))
}

fn globals(session: &Session, asked: &Asked) -> Globals {
    let mut globals = session.globals.clone();
    if !asked.config.is_empty() {
        globals.config.clone_from(&asked.config);
    }
    if asked.data_dir.is_some() {
        globals.data_dir.clone_from(&asked.data_dir);
    }
    let own = environment::default_data_dir().map(|data| data.join("goals/drawloom.yaml"));
    if asked.is_about_goals && config::find(&globals.config).is_err() {
        globals.config.extend(own.filter(|file| file.is_file()));
    }
    globals
}

/// The agents of the config that have no mistakes. The folder need not be trusted, so no `.env` is read.
fn agents(globals: &Globals) -> Vec<(String, String)> {
    let loaded = config::find(&globals.config).ok().and_then(|files| config::load_names(&files));
    let Some(loaded) = loaded else { return Vec::new() };
    let agents = loaded.config.agents.iter();
    agents.map(|(name, agent)| (name.to_string(), agent.description.clone())).collect()
}

/// The newest runs of the store, or only those of an agent.
async fn runs(globals: &Globals, agent: Option<&str>) -> Vec<(String, String)> {
    let Ok(project) = Project::find_data(globals) else { return Vec::new() };
    let Ok(Found::Store(store)) = Store::read(project.data.path()) else { return Vec::new() };
    let filter =
        RunFilter { agent: agent.and_then(|agent| agent.parse().ok()), limit: MAX_RUNS, ..RunFilter::default() };
    let listed = store.list_runs(&Visible::whole(Tenant::default_tenant()), &filter).await.unwrap_or_default();
    let about = |view: &drawloom_contract::view::RunView| format!("{} {}", view.agent, view.status.as_str());
    listed.iter().map(|view| (view.run.to_string(), about(view))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (Option<Kind>, String) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let asked = asked(&words);
        (asked.kind, asked.prefix)
    }

    #[test]
    fn the_last_word_is_what_its_place_in_the_command_line_says() {
        for (line, kind, prefix) in [
            ("run ", Some(Kind::Agent), ""),
            ("run re", Some(Kind::Agent), "re"),
            ("run --embedded re", Some(Kind::Agent), "re"),
            ("run --config x.yaml re", Some(Kind::Agent), "re"),
            ("--config x.yaml run re", Some(Kind::Agent), "re"),
            ("run reader ", None, ""),
            ("runs show r_", Some(Kind::Run), "r_"),
            ("runs tail one ", Some(Kind::Run), ""),
            ("runs ls --agent re", Some(Kind::Agent), "re"),
            ("runs list --agent=re", Some(Kind::Agent), "re"),
            ("runs list --agent = re", Some(Kind::Agent), "re"),
            ("runs list --limit ", None, ""),
            ("goal result ", Some(Kind::Goal), ""),
            ("goal run ", None, ""),
            ("call get_", Some(Kind::Operation), "get_"),
            ("call get_run run_id", None, "run_id"),
            ("ru", None, "ru"),
            ("runs ", None, ""),
            ("run --em", None, ""),
        ] {
            assert_eq!(of(line), (kind, prefix.to_owned()), "{line}");
        }
    }

    #[test]
    fn where_the_project_is_comes_from_the_command_line() {
        let words: Vec<String> = "run -c a.yaml --data-dir=d ".split(' ').map(str::to_owned).collect();
        let asked = asked(&words);
        assert_eq!((asked.config, asked.data_dir), (vec!["a.yaml".into()], Some("d".into())));
    }
}
