//! `drawloom goal status`, `tail`, `result` and `list`.

use std::path::{Path, PathBuf};

use clap::Args;
use drawloom_contract::ids::RunId;
use drawloom_wire::goals::{GoalStatus, OrchestrateList, OrchestrateResult, OrchestrateStatus, OrchestrateTail};
use serde_json::Value;

use super::{
    here::repository_of,
    told,
    view::{View, lines},
    workers::Target,
};
use crate::{
    cli::{Look, Quiet},
    commands::Session,
    connect::{self, Connection, Executing, Execution, Need},
    exit::{CommandError, Exit},
    live::activity,
    output::{Column, Format, Style, Text, first_line},
};

/// How many goals a prefix of an id is looked for in.
const MOST_SEARCHED: u32 = 200;

/// The longest text of a goal in a list.
const LONGEST_GOAL: usize = 60;

/// The status of a goal that has not ended and that no process executes.
const INTERRUPTED: &str = "interrupted";

/// A goal as the user wrote it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Named {
    /// Goal: an id, the start of one, or `last`, the newest of this repository
    #[arg(value_name = "GOAL", default_value = "last")]
    goal: String,
}

impl Named {
    pub(crate) fn new(goal: &str) -> Self {
        Self { goal: goal.to_owned() }
    }

    pub(crate) async fn resolve(&self, connection: &Connection) -> Result<RunId, CommandError> {
        self.resolve_among(connection, Among::All).await
    }

    /// The goal of a command that changes a repository. Goals without one are passed over.
    pub(crate) async fn resolve_in_repository(&self, connection: &Connection) -> Result<RunId, CommandError> {
        self.resolve_among(connection, Among::WithRepository).await
    }

    async fn resolve_among(&self, connection: &Connection, among: Among) -> Result<RunId, CommandError> {
        if self.goal == "last" {
            return last(connection, among).await;
        }
        if let Ok(run) = self.goal.parse() {
            return Ok(run);
        }
        let prefix = self.goal.trim_start_matches("r_").to_ascii_lowercase();
        let all = connection.backend.call(&OrchestrateList { limit: Some(MOST_SEARCHED), before: None }).await?.runs;
        let is_meant = |goal: &&GoalStatus| goal.run_id.to_string()[2..].starts_with(&prefix);
        let found: Vec<&GoalStatus> = all.iter().filter(|_| !prefix.is_empty()).filter(is_meant).collect();
        match &found[..] {
            [one] => Ok(one.run_id),
            [] => Err(CommandError::usage("unknown_goal", format!("no goal matches {:?}", self.goal)).with_hint(
                "`drawloom goal list` lists goals; without a name the newest one of this repository is meant",
            )),
            several => {
                let mut error = CommandError::usage("ambiguous_goal", format!("several goals match {:?}", self.goal))
                    .with_hint("write more of the id");
                let described = |goal: &&GoalStatus| format!("{}  {}", goal.run_id, first_line(&goal.goal, 60));
                error.details.extend(several.iter().take(8).map(described));
                Err(error)
            }
        }
    }

    /// What a command needs that follows this goal: a server that continues it, unless it has ended.
    async fn need_to_follow(&self, session: &Session, command: &str) -> Result<Need, CommandError> {
        let is_interrupted = connect::with(session, command, Need::Journal, async |it| {
            let run_id = self.resolve(it).await?;
            let status = it.backend.call(&OrchestrateStatus { run_id }).await?;
            Ok(status.running && it.executing() == Executing::Nothing)
        });
        Ok(match is_interrupted.await? {
            true => Need::Engine(Execution::default()),
            false => Need::Journal,
        })
    }
}

/// Which goals `last` can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those of this repository, and those without one.
    All,
    WithRepository,
}

/// The newest goal of the repository around this folder. In a folder without one it is the newest of all, unless that is unclear and
/// the command changes a repository.
async fn last(connection: &Connection, among: Among) -> Result<RunId, CommandError> {
    let folder = std::env::current_dir().unwrap_or_default();
    let here = repository_of(&folder);
    let (mut before, mut found) = (None, None::<(RunId, Option<PathBuf>)>);
    loop {
        let ask = OrchestrateList { limit: Some(MOST_SEARCHED), before };
        let page = connection.backend.call(&ask).await?.runs;
        for goal in &page {
            let of_goal = goal.repository.as_ref().map(|top| repository_of(top).unwrap_or_else(|| top.clone()));
            let counts = match (&here, &of_goal) {
                (_, None) => among == Among::All,
                (Some(here), Some(of_goal)) => here == of_goal,
                (None, Some(_)) => true,
            };
            match &found {
                _ if !counts => {}
                Some((_, first)) if *first == of_goal => {}
                Some(_) => return Err(unclear(&folder)),
                None if here.is_some() || among == Among::All => return Ok(goal.run_id),
                None => found = Some((goal.run_id, of_goal)),
            }
        }
        match page.last() {
            Some(goal) if page.len() == MOST_SEARCHED as usize => before = Some(goal.run_id),
            _ => break,
        }
    }
    found.map(|(run, _)| run).ok_or_else(|| match here {
        Some(_) => CommandError::usage("no_goals", format!("no goals of the repository around {}", folder.display()))
            .with_hint("start one: drawloom goal run 'Add a test for …'; `drawloom goal list` lists those of other repositories"),
        None => CommandError::usage("no_goals", "no goals yet")
            .with_hint("start one: drawloom goal run 'Add a test for …'"),
    })
}

fn unclear(folder: &Path) -> CommandError {
    let message = format!("{} is in no repository, and there are goals of several", folder.display());
    CommandError::usage("unclear_goal", message)
        .with_hint("name the goal, or run the command in its repository; `drawloom goal list` lists goals")
}

/// The repository and branch of a goal, in a line.
pub(crate) fn place_of(repository: &Path, branch: &str) -> String {
    match branch {
        "" => format!("repository {}", repository.display()),
        branch => format!("repository {}, branch {branch}", repository.display()),
    }
}

/// The error of a command that follows a goal whose server is gone.
fn interrupted(run: RunId) -> CommandError {
    CommandError::failed("interrupted", format!("goal {run} is interrupted: no process executes it"))
        .with_hint(connect::how_to_go_on(&run.to_string()))
}

/// Whether a goal has not ended and no process executes it.
fn is_interrupted(status: &GoalStatus, executing: Executing) -> bool {
    status.running && executing == Executing::Nothing
}

/// Show where a goal stands
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    named: Named,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Status {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (status, executing, currency) = connect::with(session, "goal status", Need::Journal, async |it| {
            let run_id = self.named.resolve(it).await?;
            let status = it.backend.call(&OrchestrateStatus { run_id }).await?;
            let currency = it.backend.currency(status.workers.iter().map(|worker| worker.cost)).await;
            Ok((status, it.executing(), currency))
        })
        .await?;
        let output = &session.output;
        if output.format() == Format::Json {
            output.json(&marked(&status, executing));
            return Ok(Exit::Done);
        }
        let row = |name: &str, text: &str| output.line(format!("{name:<10} {text}"));
        row("goal", &status.goal);
        row("id", &status.run_id.to_string());
        if let Some(repository) = &status.repository {
            row("repository", &repository.display().to_string());
        }
        if let Some(branch) = &status.branch {
            row("branch", branch);
        }
        let word = if is_interrupted(&status, executing) { INTERRUPTED } else { &status.status };
        row("status", &output.styled(style_of(word), word));
        row("phase", &status.phase);
        row("iteration", &status.iteration.to_string());
        row("events", &status.events.to_string());
        for (index, worker) in status.workers.iter().enumerate() {
            let what = format!(
                "{}: {}",
                worker.worker,
                activity(&serde_json::to_value(worker).unwrap_or_default(), &currency)
            );
            row(if index == 0 { "workers" } else { "" }, &first_line(&what, 160));
        }
        if let Some(reason) = &status.stop_reason {
            row("reason", reason);
        }
        if let Some(earlier) = &status.continues {
            row("goes on", &format!("from {earlier}"));
        }
        if let Some(next) = &status.continued_by {
            row("continued", &format!("by {next}"));
        }
        for (index, said) in status.said.iter().enumerate() {
            row(if index == 0 { "said" } else { "" }, &first_line(said, 120));
        }
        match status.removed {
            true => row("removed", "its branch, refs and folder; delete its runs with `drawloom runs rm`"),
            false => row("folder", &status.run_dir.display().to_string()),
        }
        for (index, question) in status.questions.iter().enumerate() {
            row(if index == 0 { "asks" } else { "" }, question);
        }
        if let Some(token) = &status.token {
            output.note(format!("answer with: drawloom goal resume {token} --answer '…'"));
        }
        let is_open = status.completed == Some(false) && status.continued_by.is_none() && !status.removed;
        if !status.running && is_open {
            output.note(format!("go on with: drawloom goal resume {}", status.run_id));
        }
        if word == INTERRUPTED {
            output.note(connect::how_to_go_on(&status.run_id.to_string()));
        }
        Ok(Exit::Done)
    }
}

/// A status for programs. The word stays as it is journaled.
fn marked(status: &GoalStatus, executing: Executing) -> Value {
    let mut shown = serde_json::to_value(status).unwrap_or_default();
    if is_interrupted(status, executing) {
        shown["interrupted"] = true.into();
    }
    shown
}

fn style_of(status: &str) -> Style {
    match status {
        "completed" => Style::Good,
        "failed" => Style::Bad,
        "running" => Style::Plain,
        _ => Style::Notice,
    }
}

/// Show the events of a goal, and follow it
#[derive(Debug, Args)]
pub struct Tail {
    #[command(flatten)]
    named: Named,
    /// Show only events after this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    cursor: u64,
    /// Show the events so far and exit
    #[arg(long)]
    no_follow: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Tail {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let output = &session.output;
        let need = match self.no_follow {
            true => Need::Journal,
            false => self.named.need_to_follow(session, "goal tail").await?,
        };
        connect::with(session, "goal tail", need, async |it| {
            let run_id = self.named.resolve(it).await?;
            let mut cursor = self.cursor;
            let mut view = match self.no_follow {
                true => None,
                false => Some(View::follow(session, it, run_id, Target::Stdout).await?),
            };
            loop {
                let wait_ms = (!self.no_follow).then_some(50_000);
                let ask = OrchestrateTail { run_id, cursor: Some(cursor), limit: None, wait_ms };
                let page = it.backend.call(&ask);
                let page = match &mut view {
                    Some(view) => view.meanwhile(page).await?,
                    None => page.await?,
                };
                for event in &page.events {
                    view.iter_mut().for_each(|view| view.apply(event));
                    match output.format() {
                        Format::Json => output.json_line(event),
                        Format::Human => {
                            let mut shown = lines(event);
                            let text = |name: &str| event.data[name].as_str().map(str::to_owned);
                            shown.extend(match event.kind.as_str() {
                                "run_error" => text("error").map(|error| (Style::Bad, format!("error: {error}"))),
                                "run_finished" => text("summary").map(|summary| (Style::Bold, summary)),
                                _ => None,
                            });
                            for (style, text) in shown {
                                output.line(output.styled(style, &text));
                            }
                        }
                    }
                }
                cursor = page.cursor;
                let is_over = !page.running && !page.more;
                if is_over || (self.no_follow && !page.more) || output.is_closed() {
                    return Ok(Exit::Done);
                }
                if page.events.is_empty() && it.executing() == Executing::Nothing {
                    return Err(interrupted(run_id));
                }
            }
        })
        .await
    }
}

/// Show what came of a goal
#[derive(Debug, Args)]
pub struct ResultOf {
    #[command(flatten)]
    named: Named,
    /// Wait until it has ended, or asks something
    #[arg(long)]
    wait: bool,
    /// Wait at most this many seconds
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    timeout: Option<u64>,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl ResultOf {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let need = match self.wait {
            true => self.named.need_to_follow(session, "goal result").await?,
            false => Need::Journal,
        };
        let result = connect::with(session, "goal result", need, async |it| {
            let run_id = self.named.resolve(it).await?;
            let result = it.backend.call(&OrchestrateResult { run_id, wait: self.wait, timeout: self.timeout }).await?;
            match self.wait && result.status == "running" && it.executing() == Executing::Nothing {
                true => Err(interrupted(run_id)),
                false => Ok(result),
            }
        })
        .await?;
        Ok(told(session, &result))
    }
}

/// List goals, the newest first
#[derive(Debug, Args)]
pub struct List {
    /// List at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl List {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = OrchestrateList { limit: Some(self.limit), before: None };
        let (list, executing) = connect::with(session, "goal list", Need::Journal, async |it| {
            Ok((it.backend.call(&ask).await?, it.executing()))
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => {
                let mut shown = serde_json::to_value(&list).unwrap_or_default();
                shown["runs"] = list.runs.iter().map(|goal| marked(goal, executing)).collect();
                output.json(&shown);
            }
            Format::Human if self.ids.quiet => output.ids(list.runs.iter().map(|goal| goal.run_id)),
            Format::Human if list.runs.is_empty() => output.line("no goals"),
            Format::Human => {
                let columns = [
                    Column::new("id"),
                    Column::new("status"),
                    Column::new("goal").shrinks_to(20),
                    Column::new("iteration").right().optional(1),
                    Column::new("reason").shrinks_to(12).optional(2),
                    Column::new("repository").shrinks_to(12).keeps_end().optional(3),
                ];
                output.table(columns, list.runs.iter().map(|goal| row(goal, executing)));
            }
        }
        Ok(Exit::Done)
    }
}

fn row(goal: &GoalStatus, executing: Executing) -> [Text; 6] {
    let status = if is_interrupted(goal, executing) { INTERRUPTED } else { &goal.status };
    let link = match (goal.continues, goal.continued_by) {
        (_, Some(next)) => Some(format!("continued by {next}")),
        (Some(earlier), None) => Some(format!("goes on from {earlier}")),
        (None, None) => None,
    };
    let reason: Vec<String> = goal.stop_reason.clone().into_iter().chain(link).collect();
    [
        Text::new(goal.run_id.to_string()).style(Style::Dim),
        Text::new(status).style(style_of(status)),
        Text::new(first_line(&goal.goal, LONGEST_GOAL)).style(Style::Bold),
        Text::new(goal.iteration.to_string()),
        Text::new(reason.join("; ")),
        Text::new(goal.repository.as_ref().map(|top| top.display().to_string()).unwrap_or_default()),
    ]
}
