//! `drawloom runs show`: a run with its prompt, its turns, its calls and the tree below it; or a batch.

mod tree;
mod turns;

use clap::Args;
use futures::StreamExt as _;

use drawloom_contract::{ids::BatchId, money::Cost, record::Status};
use drawloom_wire::{
    batches::GetBatch,
    events::Event,
    runs::{GetRun, Include, ListRuns, RunResult},
};

use crate::{
    cli::Look,
    commands::{
        Session,
        runs::{
            Handle, Named,
            list::{self, Spent},
        },
    },
    connect::{self, Connection, Executing, Need},
    exit::{CommandError, Exit},
    output::{
        ASSUMED, Format, INTERRUPTED, LocalTime, Output, Style, Text, assumed_money, count, duration, money, shown,
        wrap,
    },
};

use tree::Tree;

pub(super) const HELP: &str = "\
Examples:
  drawloom runs show last             the newest run
  drawloom runs show last --calls     the same with the inputs and outputs of its calls
  drawloom runs show b_01a1           the runs of a batch";

/// The width of a line, when the terminal does not say.
const USUAL_WIDTH: usize = 120;

/// A shorter time in the queue is not worth a word, in milliseconds.
const NOTABLE_MS: u64 = 100;

/// The code of a run that a caller cancelled: its status says that, so it is not shown as an error.
const CANCELLED: &str = "cancelled";

/// The code of a run that ended with its parent, which says why.
const PARENT_ENDED: &str = "parent_ended";

/// Lines of a prompt that are shown.
const PROMPT_LINES: usize = 8;

/// Show a run or a batch
///
/// A run is shown with its prompt, its model calls, its tool calls with the reason of each failure, and its child runs.
#[derive(Debug, Args)]
pub struct Show {
    /// Run or batch: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Show the input and output of every call
    #[arg(long)]
    calls: bool,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How much of each call is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// A line, and the reason of a failure.
    Brief,
    /// Its input and output too.
    Whole,
}

/// All that is shown.
struct Shown {
    run: RunResult,
    /// What happened so far.
    events: Vec<Event>,
    tree: Tree,
    currency: String,
    executing: Executing,
    local: LocalTime,
}

impl Show {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        connect::with(session, "runs show", Need::Journal, async |connection| {
            match self.run.resolve_any(connection).await? {
                Named::Run(run) => {
                    let ask = GetRun { run_id: Some(run), ..GetRun::default() };
                    let mut result = connection.backend.call(&ask).await?;
                    if self.wait && !result.status.is_terminal() {
                        result = wait(connection, result).await?;
                    }
                    let calls = if self.calls { Calls::Whole } else { Calls::Brief };
                    look(session, connection, &result).await?.present(&session.output, calls);
                }
                Named::Batch(batch) => self.show_batch(session, connection, batch).await?,
            }
            Ok(Exit::Done)
        })
        .await
    }

    async fn show_batch(
        &self,
        session: &Session,
        connection: &Connection,
        batch_id: BatchId,
    ) -> Result<(), CommandError> {
        let mut batch = connection.backend.call(&GetBatch { batch_id, wait_ms: None, result_bytes: Some(0) }).await?;
        while self.wait && batch.results.iter().any(|run| !run.status.is_terminal()) {
            for run in batch.results.iter().filter(|run| !run.status.is_terminal()) {
                refuse_to_wait(connection.executing(), run)?;
            }
            let ask = GetBatch { batch_id, wait_ms: Some(60_000), result_bytes: Some(0) };
            batch = connection.backend.call(&ask).await?;
        }
        let output = &session.output;
        if output.format() == Format::Json {
            output.json(&connection.backend.call(&GetBatch { batch_id, wait_ms: None, result_bytes: None }).await?);
            return Ok(());
        }
        let include = vec![Include::Prompt, Include::ShortId, Include::Tree];
        let ask = ListRuns { batch_id: Some(batch_id), limit: Some(200), include, ..ListRuns::default() };
        let mut runs = connection.backend.call(&ask).await?.runs;
        runs.sort_by_key(|run| run.index);
        let currency = connection.backend.currency([batch.cost]).await;
        let cost = batch.cost.map(|cost| {
            let assumed = runs.iter().find_map(|run| run.assumed_cost);
            format!(", {}", assumed_money(cost, assumed, &currency))
        });
        let tokens = count(batch.usage.total());
        output.line(format!("batch {batch_id}: {} runs, {tokens} tokens{}\n", runs.len(), cost.unwrap_or_default()));
        list::show(output, &runs, Spent::Own, connection.executing(), &session.local_time(), &currency);
        Ok(())
    }
}

/// The run when it has ended.
async fn wait(connection: &Connection, mut run: RunResult) -> Result<RunResult, CommandError> {
    while !run.status.is_terminal() {
        refuse_to_wait(connection.executing(), &run)?;
        let ask = GetRun { run_id: Some(run.run_id), wait_ms: Some(60_000), ..GetRun::default() };
        run = connection.backend.call(&ask).await?;
    }
    Ok(run)
}

/// Refuses to wait for a run that no server executes.
pub(super) fn refuse_to_wait(executing: Executing, run: &RunResult) -> Result<(), CommandError> {
    let run = run.run_id;
    match executing {
        Executing::Server | Executing::Here => Ok(()),
        Executing::Process(pid) => {
            let message = format!("process {pid} executes run {run} without a server, so --wait cannot follow it");
            Err(CommandError::usage("needs_server", message).with_hint("wait for that process"))
        }
        Executing::Nothing => {
            let message = format!("run {run} is interrupted: no process executes it");
            Err(CommandError::usage("interrupted", message).with_hint(connect::how_to_go_on(&run.to_string())))
        }
    }
}

async fn look(session: &Session, connection: &Connection, run: &RunResult) -> Result<Shown, CommandError> {
    let include = vec![Include::Prompt, Include::ShortId];
    let run = connection.backend.call(&GetRun { run_id: Some(run.run_id), include, ..GetRun::default() }).await?;
    let tree = Tree::read(connection, run.run_id).await?;
    let executing = connection.executing();
    let mut events = Vec::new();
    let mut stream = connection.backend.follow_past(run.run_id).await?;
    while let Some(event) = stream.next().await {
        events.push(event?);
    }
    let costs = tree.runs().map(|child| child.cost).chain([run.cost]);
    let currency = connection.backend.currency(costs.collect::<Vec<_>>()).await;
    Ok(Shown { run, events, tree, currency, executing, local: session.local_time() })
}

impl Shown {
    fn present(&self, output: &Output, calls: Calls) {
        if output.format() == Format::Json {
            let marked = |run: &RunResult| {
                let mut value = serde_json::to_value(run).expect("a result has only text keys");
                self.executing.mark(run, &mut value);
                value
            };
            let mut value = marked(&self.run);
            value["below"] = self.tree.runs().map(marked).collect();
            if calls == Calls::Whole {
                value["calls"] = turns::calls_json(&self.events);
            }
            return output.json(&value);
        }
        self.show_facts(output);
        turns::show(output, &self.events, self.run.status, &self.currency, calls);
        if !self.tree.is_empty() {
            output.line("");
            self.show_branch(output, &self.run, "", "");
            if self.tree.is_cut() {
                output.line(output.styled(Style::Notice, "… and more: `drawloom runs list --parent RUN` lists them"));
            }
        }
        if let Some(text) = &self.run.final_text {
            output.line("");
            output.line(text);
        }
        let is_marked = |run: &RunResult| run.assumed_cost.is_some();
        if is_marked(&self.run) || self.tree.runs().any(is_marked) {
            output.note(output.beside(Style::Dim, ASSUMED));
        }
    }

    fn show_facts(&self, output: &Output) {
        let run = &self.run;
        let line = |name: &str, value: String| {
            output.line(format!("{} {value}", output.styled(Style::Dim, &format!("{name:<9}"))));
        };
        line("run", output.styled(Style::Bold, &run.run_id.to_string()));
        // Runs of other executors ask no model.
        let asks = if run.model.is_empty() { run.provider.clone() } else { format!("{}/{}", run.provider, run.model) };
        line("agent", format!("{} ({asks})", run.agent));
        let position = run.position.map(|position| format!(", place {position} in the queue")).unwrap_or_default();
        let reason = run.stop_reason.map(|reason| format!(" ({})", reason.as_str())).unwrap_or_default();
        let over = match run.tree.filter(|tree| tree.failed_children > 0 && run.status != Status::Cancelled) {
            Some(tree) => {
                let said = format!(", {} of {} child runs failed", tree.failed_children, tree.children);
                output.styled(Style::Notice, &said)
            }
            None => String::new(),
        };
        let why = cancelled_why(run).map(|why| format!(": {why}")).unwrap_or_default();
        line("status", format!("{}{why}{reason}{position}{over}", self.status(output, run)));
        if self.executing.is_interrupted(run) {
            line("", connect::how_to_go_on(&run.run_id.to_string()));
        }
        if let Some(error) = run.error.as_ref().filter(|_| run.status != Status::Cancelled) {
            line("error", output.styled(Style::Bad, &format!("{} ({})", shown(&error.message), error.code)));
            if let Some(hint) = &error.hint {
                line("hint", hint.clone());
            }
        }
        if let Some(prompt) = &run.prompt {
            for (number, text) in excerpt(prompt, output.width().unwrap_or(USUAL_WIDTH).saturating_sub(10)).enumerate()
            {
                line(if number == 0 { "prompt" } else { "" }, text);
            }
        }
        self.show_times(&line);
        self.show_spent(&line);
        line("handle", run.agent_id.to_string());
        line("session", run.session_id.to_string());
        line("user", run.user_id.to_string());
        if let Some(parent) = run.parent_run_id {
            line("parent", format!("{parent} (depth {})", run.depth));
        }
        if let Some(first) = run.retry_of {
            line("retry of", first.to_string());
        }
        if let Some(retry) = run.retried_as {
            line("retried as", retry.to_string());
        }
        if let Some(batch) = run.batch_id {
            line("batch", format!("{batch}, index {}", run.index.unwrap_or_default()));
        }
        for note in &run.notes {
            line("note", shown(note));
        }
        for warning in &run.warnings {
            line("warning", output.styled(Style::Notice, &shown(warning)));
        }
    }

    fn show_times(&self, line: &dyn Fn(&str, String)) {
        let timings = &self.run.timings;
        let accepted = LocalTime::parse(&timings.accepted_at);
        line("started", accepted.map_or_else(|| timings.accepted_at.clone(), |time| self.local.whole(time)));
        let queued = timings.queued_ms.filter(|queued| *queued >= NOTABLE_MS);
        let queued = queued.map(|queued| format!(" ({} in the queue)", duration(queued))).unwrap_or_default();
        if let Some(took) = timings.total_ms {
            line("took", format!("{}{queued}", duration(took)));
        }
    }

    fn show_spent(&self, line: &dyn Fn(&str, String)) {
        let run = &self.run;
        let usage = &run.usage;
        let cached = match usage.cache_read_input_tokens {
            0 => String::new(),
            cached => format!(", {} from the cache", count(cached)),
        };
        let reasoning = match usage.reasoning_tokens {
            0 => String::new(),
            reasoning => format!(" ({} of them reasoning)", count(reasoning)),
        };
        let (input, out) = (count(usage.input_tokens), count(usage.output_tokens));
        line(
            "tokens",
            match run.assumed_cost {
                // Of what was reserved for an interrupted call it is not known what would have been read and what written.
                Some(_) => format!("~{}; estimated for calls that reported no usage", count(usage.total())),
                None => format!("{input} in, {out} out{reasoning}{cached}"),
            },
        );
        if let Some(cost) = run.cost {
            let part = run.assumed_cost.map(|part| format!(", {} of it estimated", money(part, &self.currency)));
            let cost = assumed_money(cost, run.assumed_cost, &self.currency);
            line("cost", format!("{cost}{}", part.unwrap_or_default()));
        }
        if let Some(tree) = run.tree.filter(|tree| tree.children > 0) {
            let cost = match tree.cost.0 {
                Cost(0) => String::new(),
                _ => format!(", {}", assumed_money(tree.cost, tree.assumed_cost, &self.currency)),
            };
            let children = if tree.children == 1 { "1 child".into() } else { format!("{} children", tree.children) };
            line("total", format!("incl. {children}: {} tokens{cost}", count(tree.tokens)));
        }
    }

    fn status(&self, output: &Output, run: &RunResult) -> String {
        match self.executing.is_interrupted(run) {
            true => output.styled(Style::Notice, INTERRUPTED),
            false => output.styled(Text::status_style(run.status), run.status.as_str()),
        }
    }
}

/// Why a run was cancelled, as far as its journal says: the reason that the caller gave, or its parent.
fn cancelled_why(run: &RunResult) -> Option<String> {
    let error = run.error.as_ref().filter(|_| run.status == Status::Cancelled)?;
    match error.code.as_str() {
        CANCELLED => error.message.split_once(": ").map(|(_, reason)| shown(reason)),
        _ => Some(shown(&error.message)),
    }
}

/// The first lines of a prompt, in lines of at most `width` columns.
fn excerpt(prompt: &str, width: usize) -> impl Iterator<Item = String> {
    let prompt = shown(prompt);
    let mut lines: Vec<String> = prompt.trim_end().lines().flat_map(|line| wrap(line, width)).collect();
    let left_out = lines.len().saturating_sub(PROMPT_LINES);
    if left_out > 0 {
        lines.truncate(PROMPT_LINES - 1);
        lines.push(format!("… {} more lines (--json has the whole prompt)", left_out + 1));
    }
    lines.into_iter()
}
