//! `drawloom runs list`.

use std::cmp::{Ordering, Reverse};

use clap::Args;

use drawloom_contract::{
    ids::{AgentName, RunId, SessionId, UserId},
    record::Status,
};
use drawloom_wire::runs::{Amount, Include, ListRuns, RunPage, RunResult};

use crate::{
    cli::{Look, Quiet},
    commands::{
        Session,
        runs::{Handle, Named},
    },
    connect::{self, Connection, Executing, Need},
    exit::{CommandError, Exit},
    output::{ASSUMED, Column, Format, LocalTime, Output, Style, Text, assumed_money, count, duration, first_line},
    project,
};

pub(super) const HELP: &str = "\
Examples:
  drawloom runs list --active                     list runs that have not ended
  drawloom runs list --since 2h --status failed   list what failed in the last two hours
  drawloom runs list --search invoice             list runs whose prompt contains a text
  drawloom runs list --parent last --sort cost    sort the child runs of the newest run by cost
  drawloom runs list --batch b_01a1 -q            print the run ids of a batch";

/// The states of runs that have not ended.
const ACTIVE: [Status; 3] = [Status::Queued, Status::Running, Status::Waiting];

/// List runs, newest first
#[derive(Debug, Args)]
pub struct List {
    /// Show only runs that have not ended
    #[arg(long, conflicts_with = "status")]
    active: bool,
    /// Show only runs in these states: queued, running, waiting, completed, failed, cancelled, timed_out
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<Status>,
    /// Show only runs that started within this time, such as 30s, 15m, 2h or 1d
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    since: Option<u64>,
    /// Show only runs of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Show only runs whose prompt contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Hide child runs; tokens and cost are those of the run with its child runs
    #[arg(long)]
    top_level: bool,
    /// Show only runs of this user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Show only runs of this session, a label that groups runs
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
    /// Show only runs of this batch
    #[arg(long, value_name = "BATCH")]
    batch: Option<Handle>,
    /// Show only children of this run
    #[arg(long, value_name = "RUN")]
    parent: Option<Handle>,
    /// Show only runs older than this one
    #[arg(long, value_name = "RUN")]
    before: Option<Handle>,
    /// Sort the runs that are shown, the highest first
    #[arg(long, value_name = "COLUMN", value_enum)]
    sort: Option<Sort>,
    /// Show at most this many [default: 20; 200 with --sort]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: Option<u32>,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// A column that runs are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    Took,
    Tokens,
    Cost,
}

/// Whose tokens and cost a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spent {
    /// The run's own.
    Own,
    /// The run's with all its child runs'.
    Total,
}

impl Spent {
    fn tokens(self, run: &RunResult) -> u64 {
        run.tree.filter(|_| self == Self::Total).map_or(run.usage.total(), |tree| tree.tokens)
    }

    /// The cost, and the part of it that is assumed.
    fn cost(self, run: &RunResult) -> Option<(Amount, Option<Amount>)> {
        match run.tree.filter(|_| self == Self::Total) {
            Some(tree) if tree.cost == Amount::default() => None,
            Some(tree) => Some((tree.cost, tree.assumed_cost)),
            None => run.cost.map(|cost| (cost, run.assumed_cost)),
        }
    }
}

fn status(text: &str) -> Result<Status, String> {
    Status::ALL.iter().copied().find(|status| status.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("use one of {}", names.join(", "))
    })
}

impl List {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let spent = if self.top_level { Spent::Total } else { Spent::Own };
        let (mut page, currency, executing) = connect::with(session, "runs list", Need::Journal, async |it| {
            let ask = self.request(it).await?;
            let mut page = whole_page(it, ask.clone()).await?;
            if page.next.is_some() {
                // A full page may be the last one.
                let one = ListRuns { before: page.next, limit: Some(1), include: Vec::new(), ..ask };
                let next = whole_page(it, one).await?;
                page.next = page.next.filter(|_| !next.runs.is_empty());
            }
            let currency = it.backend.currency(page.runs.iter().map(|run| run.cost)).await;
            Ok((page, currency, it.executing()))
        })
        .await?;
        match self.sort {
            None => {}
            Some(Sort::Took) => page.runs.sort_by_key(|run| Reverse(run.timings.total_ms)),
            Some(Sort::Tokens) => page.runs.sort_by_key(|run| Reverse(spent.tokens(run))),
            Some(Sort::Cost) => page.runs.sort_by(|one, other| {
                let cost = |run| spent.cost(run).map(|(cost, _)| cost);
                cost(other).partial_cmp(&cost(one)).unwrap_or(Ordering::Equal)
            }),
        }
        let output = &session.output;
        match output.format() {
            Format::Json => {
                let mut value = serde_json::to_value(&page).expect("a page has only text keys");
                for (run, shown) in page.runs.iter().zip(value["runs"].as_array_mut().into_iter().flatten()) {
                    executing.mark(run, shown);
                }
                output.json(&value);
            }
            Format::Human if self.ids.quiet => output.ids(page.runs.iter().map(|run| run.run_id)),
            Format::Human if page.runs.is_empty() => {
                output.line("no runs");
                project::say_moved(session, project::Tell::Once);
            }
            Format::Human => {
                show(output, &page.runs, spent, executing, &session.local_time(), &currency);
                if let Some(next) = page.next {
                    output.note(format!("there are more: --before {next}"));
                }
                if let Some(run) = page.runs.iter().find(|run| executing.is_interrupted(run)) {
                    let run = run.run_id.to_string();
                    output.note(format!("interrupted runs have no process: {}", connect::how_to_go_on(&run)));
                }
            }
        }
        Ok(Exit::Done)
    }

    async fn request(&self, connection: &Connection) -> Result<ListRuns, CommandError> {
        let run = async |handle: &Option<Handle>| match handle {
            Some(handle) => handle.resolve(connection).await.map(Some),
            None => Ok(None),
        };
        let batch_id = match &self.batch {
            None => None,
            Some(handle) => match handle.resolve_any(connection).await? {
                Named::Batch(batch) => Some(batch),
                Named::Run(run) => {
                    return Err(CommandError::usage("not_a_batch", format!("{run} is a run, not a batch")));
                }
            },
        };
        let status = if self.active { ACTIVE.to_vec() } else { self.status.clone() };
        Ok(ListRuns {
            user_id: self.user.clone(),
            agent: self.agent.clone(),
            status: Some(status).filter(|list| !list.is_empty()),
            session_id: self.session,
            batch_id,
            parent_run_id: run(&self.parent).await?,
            before: run(&self.before).await?,
            roots: self.top_level,
            max_age_seconds: self.since,
            search: self.search.clone(),
            include: vec![Include::Prompt, Include::ShortId, Include::Tree],
            limit: Some(self.limit.unwrap_or(if self.sort.is_some() { 200 } else { 20 })),
            ..ListRuns::default()
        })
    }
}

/// As many runs as were asked for: a search answers in parts.
async fn whole_page(connection: &Connection, mut ask: ListRuns) -> Result<RunPage, CommandError> {
    let wanted = ask.page_size();
    let mut runs = Vec::new();
    loop {
        ask.limit = Some(wanted - u32::try_from(runs.len()).unwrap_or(wanted));
        let page = connection.backend.call(&ask).await?;
        runs.extend(page.runs);
        if page.next.is_none() || ask.search.is_none() || runs.len() >= wanted as usize {
            return Ok(RunPage { runs, next: page.next });
        }
        ask.before = page.next;
    }
}

/// A table of runs. Ids are cut to what tells them apart.
pub(super) fn show(
    output: &Output,
    runs: &[RunResult],
    spent: Spent,
    executing: Executing,
    local: &LocalTime,
    currency: &str,
) {
    let (tokens, cost) = match spent {
        Spent::Own => ("tokens", "cost"),
        Spent::Total => ("total tokens", "total cost"),
    };
    let started = format!("started {}", local.zone());
    let columns = [
        Column::new("run"),
        Column::new("agent").shrinks_to(6),
        Column::new("status"),
        Column::new(&started).optional(5),
        Column::new("took").right().optional(4),
        Column::new(tokens).right().optional(6),
        Column::new(cost).right().optional(1),
        Column::new("parent").only_wide(),
        Column::new("model").only_wide(),
        Column::new("prompt").shrinks_to(8).optional(3),
        Column::new("error").shrinks_to(18),
    ];
    // All ids as long as the longest, so that the column is even.
    let digits = runs.iter().filter_map(|run| run.short_id.as_ref()).map(String::len).max().unwrap_or(usize::MAX);
    output.table(columns, runs.iter().map(|run| row(run, digits, spent, executing, local, currency)));
    if runs.iter().any(|run| spent.cost(run).is_some_and(|(_, assumed)| assumed.is_some())) {
        output.note(output.beside(Style::Dim, ASSUMED));
    }
}

fn row(
    run: &RunResult,
    digits: usize,
    spent: Spent,
    executing: Executing,
    local: &LocalTime,
    currency: &str,
) -> [Text; 11] {
    let id = |id: RunId| Text::new(id.to_string().chars().take(digits).collect::<String>());
    let status = match run.position {
        _ if executing.is_interrupted(run) => Text::interrupted(),
        Some(position) => Text::new(format!("queued #{position}")).style(Style::Dim),
        None => Text::status(run.status),
    };
    let accepted = LocalTime::parse(&run.timings.accepted_at).map(|time| local.brief(time));
    let error = match (&run.error, run.tree) {
        (Some(error), _) => Text::new(first_line(&error.message, 60)).style(Style::Bad),
        (None, Some(tree)) if tree.failed_children > 0 => {
            Text::new(format!("{} of {} child runs failed", tree.failed_children, tree.children)).style(Style::Notice)
        }
        (None, _) => Text::new(""),
    };
    let spent_cost = spent.cost(run);
    let is_estimated = spent_cost.is_some_and(|(_, assumed)| assumed.is_some());
    let cost = spent_cost.map(|(cost, assumed)| assumed_money(cost, assumed, currency));
    [
        id(run.run_id),
        Text::new(run.agent.to_string()).style(Style::Bold),
        status,
        Text::new(accepted.unwrap_or_else(|| run.timings.accepted_at.clone())).style(Style::Dim),
        Text::new(run.timings.total_ms.map(duration).unwrap_or_default()),
        Text::new(format!("{}{}", if is_estimated { "~" } else { "" }, count(spent.tokens(run)))),
        Text::new(cost.unwrap_or_default()),
        run.parent_run_id.map_or(Text::new(""), id).style(Style::Dim),
        Text::new(format!("{}/{}", run.provider, run.model)).style(Style::Dim),
        Text::new(first_line(run.prompt.as_deref().unwrap_or_default(), 60)),
        error,
    ]
}
