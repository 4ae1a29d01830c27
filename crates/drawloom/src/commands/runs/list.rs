//! `drawloom runs list`.

use clap::Args;

use drawloom_contract::{
    ids::{AgentName, BatchId, RunId, SessionId, UserId},
    record::Status,
    time::{Clock as _, Timestamp},
};
use drawloom_wire::runs::{ListRuns, RunResult};

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::Session,
    connect::{self, Executing, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, ago, count, duration, first_line, money},
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
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

fn status(text: &str) -> Result<Status, String> {
    Status::ALL.iter().copied().find(|status| status.as_str() == text).ok_or_else(|| {
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
        let (page, currency, executing) = connect::with(session, "runs list", Need::Journal, async |it| {
            let page = it.backend.call(&ask).await?;
            let currency = it.backend.currency(page.runs.iter().map(|run| run.cost)).await;
            Ok((page, currency, it.executing()))
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => {
                let mut value = serde_json::to_value(&page).expect("a page has only text keys");
                for (run, shown) in page.runs.iter().zip(value["runs"].as_array_mut().into_iter().flatten()) {
                    executing.mark(run, shown);
                }
                output.json(&value);
            }
            Format::Human if page.runs.is_empty() => output.line("no runs"),
            Format::Human => {
                let now = SystemClock.wall();
                output.table(COLUMNS, page.runs.iter().map(|run| row(run, executing, now, &currency)));
                if let Some(next) = page.next {
                    output.note(format!("there may be more: --before {next}"));
                }
                if let Some(run) = page.runs.iter().find(|run| executing.is_interrupted(run)) {
                    let run = run.run_id.to_string();
                    output.note(format!("what is interrupted has no process: {}", connect::how_to_go_on(&run)));
                }
            }
        }
        Ok(Exit::Done)
    }
}

const COLUMNS: [Column; 8] = [
    Column::new("run"),
    Column::new("agent").shrinks_to(6).optional(1),
    Column::new("status"),
    Column::new("accepted").optional(3),
    Column::new("took").right().optional(5),
    Column::new("tokens").right().optional(6),
    Column::new("cost").right().optional(4),
    Column::new("ended by").shrinks_to(10).optional(2),
];

fn row(run: &RunResult, executing: Executing, now: Timestamp, currency: &str) -> [Text; 8] {
    let status = match run.position {
        _ if executing.is_interrupted(run) => Text::interrupted(),
        Some(position) => Text::new(format!("queued, place {position}")).style(Style::Dim),
        None => Text::status(run.status),
    };
    let accepted = match since(&run.timings.accepted_at, now) {
        Some(millis) => Text::new(ago(millis)).style(Style::Dim),
        None => Text::new(&run.timings.accepted_at),
    };
    let ended = match (&run.error, run.stop_reason) {
        (Some(error), _) => Text::new(first_line(&format!("{}: {}", error.code, error.message), 60)).style(Style::Bad),
        (None, Some(reason)) => Text::new(reason.as_str()),
        (None, None) => Text::new(""),
    };
    [
        Text::new(run.run_id.to_string()),
        Text::new(run.agent.to_string()).style(Style::Bold),
        status,
        accepted,
        Text::new(run.timings.total_ms.map(duration).unwrap_or_default()),
        Text::new(count(run.usage.total())),
        Text::new(run.cost.map(|cost| money(cost, currency)).unwrap_or_default()),
        ended,
    ]
}

/// Milliseconds from an RFC 3339 time to `now`.
fn since(time: &str, now: Timestamp) -> Option<u64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    u64::try_from(now.since(Timestamp::from_millis(time.as_millisecond())).as_millis()).ok()
}
