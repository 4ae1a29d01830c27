//! `drawloom goal status`, `tail`, `result` and `list`.

use clap::Args;
use drawloom_contract::ids::RunId;
use drawloom_wire::goals::{GoalStatus, OrchestrateList, OrchestrateResult, OrchestrateStatus, OrchestrateTail};

use super::{told, view::lines};
use crate::{
    cli::{Look, Quiet},
    commands::{Session, runs::Handle},
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text},
};

/// A goal as the user wrote it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Named {
    /// Goal: an id, the start of one, or `last`
    #[arg(value_name = "GOAL", default_value = "last")]
    goal: String,
}

impl Named {
    pub(crate) fn new(goal: &str) -> Self {
        Self { goal: goal.to_owned() }
    }

    pub(crate) async fn resolve(&self, connection: &Connection) -> Result<RunId, CommandError> {
        if self.goal == "last" {
            let newest = connection.backend.call(&OrchestrateList { limit: Some(1), before: None }).await?;
            return newest.runs.first().map(|goal| goal.run_id).ok_or_else(|| {
                CommandError::usage("no_goals", "no goals yet")
                    .with_hint("start one: drawloom goal run 'Add a test for …'")
            });
        }
        let handle: Handle = self.goal.parse().unwrap_or_else(|never| match never {});
        handle.resolve(connection).await
    }
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
        let status = connect::with(session, "goal status", Need::Journal, async |it| {
            let run_id = self.named.resolve(it).await?;
            it.backend.call(&OrchestrateStatus { run_id }).await
        })
        .await?;
        let output = &session.output;
        if output.format() == Format::Json {
            output.json(&status);
            return Ok(Exit::Done);
        }
        let row = |name: &str, text: &str| output.line(format!("{name:<10} {text}"));
        row("goal", &status.goal);
        row("id", &status.run_id.to_string());
        row("status", &output.styled(style_of(&status.status), &status.status));
        row("phase", &status.phase);
        row("iteration", &status.iteration.to_string());
        row("events", &status.events.to_string());
        if let Some(reason) = &status.stop_reason {
            row("reason", reason);
        }
        row("folder", &status.run_dir.display().to_string());
        for (index, question) in status.questions.iter().enumerate() {
            row(if index == 0 { "asks" } else { "" }, question);
        }
        if let Some(token) = &status.token {
            output.note(format!("answer with: drawloom goal resume {token} --answer '…'"));
        }
        Ok(Exit::Done)
    }
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
        connect::with(session, "goal tail", Need::Journal, async |it| {
            let run_id = self.named.resolve(it).await?;
            let mut cursor = self.cursor;
            loop {
                let wait_ms = (!self.no_follow).then_some(50_000);
                let ask = OrchestrateTail { run_id, cursor: Some(cursor), limit: None, wait_ms };
                let page = it.backend.call(&ask).await?;
                for event in &page.events {
                    match output.format() {
                        Format::Json => output.json_line(event),
                        Format::Human => {
                            let shown = lines(event);
                            let at = format!("{:>4} {:<2} {:<18}", event.seq, event.iteration, event.kind);
                            output.line(output.styled(Style::Dim, &at));
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
        let result = connect::with(session, "goal result", Need::Journal, async |it| {
            let run_id = self.named.resolve(it).await?;
            it.backend.call(&OrchestrateResult { run_id, wait: self.wait, timeout: self.timeout }).await
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
        let list = connect::with(session, "goal list", Need::Journal, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&list),
            Format::Human if self.ids.quiet => output.ids(list.runs.iter().map(|goal| goal.run_id)),
            Format::Human if list.runs.is_empty() => output.line("no goals"),
            Format::Human => {
                let columns = [
                    Column::new("goal").shrinks_to(20),
                    Column::new("status"),
                    Column::new("phase").optional(1),
                    Column::new("iteration").right(),
                    Column::new("reason").shrinks_to(12).optional(2),
                    Column::new("id").shrinks_to(14),
                ];
                output.table(columns, list.runs.iter().map(row));
            }
        }
        Ok(Exit::Done)
    }
}

fn row(goal: &GoalStatus) -> [Text; 6] {
    [
        Text::new(&goal.goal).style(Style::Bold),
        Text::new(&goal.status).style(style_of(&goal.status)),
        Text::new(&goal.phase),
        Text::new(goal.iteration.to_string()),
        Text::new(goal.stop_reason.as_deref().unwrap_or_default()),
        Text::new(goal.run_id.to_string()).style(Style::Dim),
    ]
}
