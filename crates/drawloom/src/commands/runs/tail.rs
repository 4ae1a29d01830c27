//! `drawloom runs tail`: what happens to runs, line by line, like a log.

use std::collections::HashMap;

use clap::Args;
use futures::{StreamExt as _, stream::select_all};

use drawloom_contract::{
    ids::RunId,
    time::{Clock as _, Timestamp},
};
use drawloom_wire::{
    events::Event,
    runs::{Amount, GetRun},
};
use serde_json::Value;

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::{Session, runs::Handle},
    connect::{self, Connection, Executing, NO_SERVER, Need},
    exit::{CommandError, Exit},
    interrupts::Interrupts,
    live::{ActivityLines, describe, event_json},
    output::{Format, LocalTime, Output, Style, first_line, fit, shown},
};

pub(super) const HELP: &str = "\
Examples:
  drawloom runs tail last --tree     the newest run and all its child runs, interleaved
  drawloom runs tail r_01a1 b_02c3   a run and the runs of a batch
  drawloom runs tail last --json     one JSON object per event, for programs";

/// The width of a line, when the terminal does not say.
const USUAL_WIDTH: usize = 160;

/// Columns of the names of runs: at least, so that children that come later seldom move the text, and at most.
const LEAST_NAME: usize = 8;
const NAME: usize = 16;

/// A line with fewer columns for its text leaves the event's name out.
const NARROW: usize = 40;

/// Follow the events of runs, like a log
///
/// Shows what happened so far, then what happens, until the runs end. Ctrl-C stops watching; the runs go on.
#[derive(Debug, Args)]
pub struct Tail {
    /// Runs or batches: ids, starts of ids, `last`, or handles
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Handle>,
    /// Follow all child runs too, in the order in which things happened
    #[arg(long)]
    tree: bool,
    /// Show only events after this one: `seq` of --json
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
    /// Show only what happened within this time, such as 30s, 15m, 2h or 1d
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    since: Option<u64>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Tail {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let interrupts = Interrupts::listen();
        connect::with(session, "runs tail", Need::Journal, async |connection| {
            match interrupts.unless_first(self.follow(session, connection)).await? {
                Some(exit) => Ok(exit),
                None => {
                    if session.output.format() == Format::Human && session.output.is_terminal() {
                        session.output.note(session.output.beside(Style::Dim, "stopped watching"));
                    }
                    Ok(Exit::Done)
                }
            }
        })
        .await
    }

    async fn follow(&self, session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
        let mut streams = Vec::new();
        let mut followed: Vec<RunId> = Vec::new();
        let mut names = Names::default();
        let mut unfollowed: Vec<(RunId, Executing)> = Vec::new();
        for handle in &self.runs {
            for run in handle.resolve_all(connection).await? {
                let now = connection.backend.call(&GetRun { run_id: Some(run), ..GetRun::default() }).await?;
                let executing = connection.executing();
                if !now.status.is_terminal() && matches!(executing, Executing::Process(_) | Executing::Nothing) {
                    unfollowed.push((run, executing));
                }
                names.add(run, now.agent.as_str());
                let place = followed.len();
                followed.push(run);
                let events = match self.tree {
                    true => connection.backend.follow_tree(run, self.from).await?,
                    false => connection.backend.follow(run, self.from).await?,
                };
                streams.push(events.map(move |event| (place, event)));
            }
        }
        let since = self.since.map(|seconds| {
            let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            Timestamp::from_millis(SystemClock.wall().as_millis().saturating_sub(millis))
        });
        let currency = match session.output.format() {
            Format::Human => connection.backend.currency([Some(Amount::default())]).await,
            Format::Json => String::new(),
        };
        let mut lines = Lines {
            output: &session.output,
            names,
            currency,
            local: session.local_time(),
            activity: ActivityLines::default(),
        };
        lines.begin();
        let mut events = select_all(streams);
        let mut exit = Exit::Done;
        while let Some((place, event)) = events.next().await {
            // The server that was followed is gone; the run itself is not.
            let event = match event {
                Err(error) if error.code == NO_SERVER => {
                    unfollowed.push((followed[place], Executing::Nothing));
                    continue;
                }
                event => event?,
            };
            let data = event.json();
            let run = data["run_id"].as_str().and_then(|run| run.parse().ok()).unwrap_or(followed[place]);
            // A child that failed does not make its parent fail.
            if event.name == "error" && run == followed[place] {
                exit = Exit::Failed;
            }
            let at = data["at"].as_str().and_then(LocalTime::parse);
            if since.is_none_or(|since| at.is_none_or(|at| at >= since)) {
                lines.show(run, &event, &data, at);
            }
            if session.output.is_closed() {
                return Ok(exit);
            }
        }
        match unfollowed.first() {
            None => Ok(exit),
            Some((run, executing)) => {
                let (code, message) = match executing {
                    Executing::Process(pid) => (
                        "needs_server",
                        format!("process {pid} executes run {run} without a server, so only its past can be shown"),
                    ),
                    _ => ("interrupted", format!("run {run} is interrupted: no process executes it")),
                };
                let hint = match executing {
                    Executing::Process(_) => "run this again to see more".to_owned(),
                    _ => connect::how_to_go_on(&run.to_string()),
                };
                let details = unfollowed.iter().skip(1).map(|(run, _)| format!("run {run} too")).collect();
                Err(CommandError { details, ..CommandError::failed(code, message) }.with_hint(hint))
            }
        }
    }
}

/// Names of runs: the agent, and a number when several runs have the same one.
#[derive(Default)]
struct Names {
    names: HashMap<RunId, String>,
    counts: HashMap<String, usize>,
}

impl Names {
    fn add(&mut self, run: RunId, agent: &str) {
        if self.names.contains_key(&run) {
            return;
        }
        let agent = shown(agent);
        let count = self.counts.entry(agent.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { agent } else { format!("{agent}#{count}") };
        self.names.insert(run, name);
    }

    fn of(&self, run: RunId) -> &str {
        self.names.get(&run).map(String::as_str).unwrap_or_default()
    }

    /// Columns that the names take; the first of a tree is known before its children.
    fn width(&self) -> usize {
        self.names.values().map(|name| name.chars().count()).max().unwrap_or(0).clamp(LEAST_NAME, NAME)
    }
}

struct Lines<'a> {
    output: &'a Output,
    names: Names,
    currency: String,
    local: LocalTime,
    activity: ActivityLines,
}

impl Lines<'_> {
    /// Says once in which zone the times are.
    fn begin(&self) {
        if self.output.format() == Format::Human && self.output.is_terminal() {
            let zone = format!("times are in {}", self.local.zone());
            self.output.note(self.output.beside(Style::Dim, &zone));
        }
    }

    fn show(&mut self, run: RunId, event: &Event, data: &Value, at: Option<Timestamp>) {
        if let Some(agent) = data["agent"].as_str() {
            self.names.add(run, agent);
        }
        if self.output.format() == Format::Json {
            let mut shown = event_json(event);
            shown["run_id"] = run.to_string().into();
            return self.output.json_line(&shown);
        }
        if event.name == "activity" && !self.activity.chooses(run, data) {
            return;
        }
        let Some((mark, text)) = describe(event, &self.currency) else { return };
        let line = self.line(run, event, data, at, mark, &text);
        self.output.line(line);
    }

    fn line(&self, run: RunId, event: &Event, data: &Value, at: Option<Timestamp>, mark: &str, text: &str) -> String {
        let style = match &*event.name {
            "done" => Style::Good,
            "error" | "turn_reset" => Style::Bad,
            "tool_result" if data["is_error"].as_bool() == Some(true) => Style::Bad,
            "waiting" | "retry" | "provider_fallback" => Style::Notice,
            "message" => Style::Bold,
            _ => Style::Dim,
        };
        let time = at.map(|at| self.local.clock(at)).unwrap_or_default();
        let names = self.names.width();
        let who = format!("{:<names$}", fit(self.names.of(run), names));
        let name = format!("{:<17}", event.name);
        let width = self.output.width().unwrap_or(USUAL_WIDTH).saturating_sub(12 + 2 + names + 2 + 18 + 2);
        let (name, width) = if width < NARROW { (String::new(), width + 18) } else { (format!("{name} "), width) };
        let text = first_line(text, width.max(10));
        let is_bad = style == Style::Bad;
        let text = if is_bad { self.output.styled(Style::Bad, &text) } else { text };
        format!("{}  {who}  {name}{} {text}", self.output.styled(Style::Dim, &time), self.output.styled(style, mark))
    }
}
