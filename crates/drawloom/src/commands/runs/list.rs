//! `drawloom runs list`.

use clap::Args;

use drawloom_contract::{
    ids::{AgentName, BatchId, RunId, SessionId, UserId},
    record::Status,
};
use drawloom_wire::runs::{ListRuns, RunResult};

use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    live::duration,
    output::{Format, Style, Text, first_line},
};

/// List runs, newest first
#[derive(Debug, Args)]
pub struct List {
    /// Only in these states: queued, running, waiting, completed, failed, cancelled, timed_out
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<Status>,
    /// Only of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Only of this user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Only of this session
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
    /// Only of this batch
    #[arg(long, value_name = "BATCH")]
    batch: Option<BatchId>,
    /// Only children of this run
    #[arg(long, value_name = "RUN")]
    parent: Option<RunId>,
    /// Only runs older than this one
    #[arg(long, value_name = "RUN")]
    before: Option<RunId>,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

fn status(text: &str) -> Result<Status, String> {
    Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("there are {}", names.join(", "))
    })
}

impl List {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = ListRuns {
            user_id: self.user,
            agent: self.agent,
            status: Some(self.status).filter(|list| !list.is_empty()),
            session_id: self.session,
            batch_id: self.batch,
            parent_run_id: self.parent,
            before: self.before,
            limit: Some(self.limit),
        };
        let page =
            connect::with(session, "runs list", Need::Journal, async |it| it.backend.list_runs(ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&page),
            Format::Human if page.runs.is_empty() => output.line("no runs"),
            Format::Human => {
                output.table(
                    ["run", "agent", "status", "accepted", "took", "tokens", "ended by"],
                    page.runs.iter().map(row),
                );
                if let Some(next) = page.next {
                    output.note(format!("there may be more: --before {next}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn row(run: &RunResult) -> [Text; 7] {
    let status = match run.position {
        Some(position) => Text::new(format!("queued, place {position}")).style(Style::Dim),
        None => Text::status(run.status),
    };
    let took = run.timings.total_ms.map(duration).unwrap_or_default();
    let ended = match (&run.error, run.stop_reason) {
        (Some(error), _) => Text::new(first_line(&format!("{}: {}", error.code, error.message), 60)).style(Style::Bad),
        (None, Some(reason)) => Text::new(reason.as_str()),
        (None, None) => Text::new(""),
    };
    [
        Text::new(run.run_id.to_string()),
        Text::new(run.agent.to_string()).style(Style::Bold),
        status,
        Text::new(&run.timings.accepted_at),
        Text::new(took),
        Text::new(run.usage.total().to_string()),
        ended,
    ]
}
