//! `drawloom runs show`: a run with its turns, its calls and the tree below it.

use std::collections::BTreeMap;

use clap::Args;
use futures::StreamExt as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use drawloom_contract::{ids::RunId, money::Cost};
use drawloom_wire::{
    events::Event,
    runs::{Amount, GetRun, ListRuns, RunResult},
};

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Connection, Executing, Need},
    exit::{CommandError, Exit},
    live::{describe, tool_head, tool_line},
    output::{Format, INTERRUPTED, Output, Style, Text, count, duration, first_line, fit, money, shown},
};

/// Runs of a tree that are shown at most.
const MOST_RUNS: usize = 500;
/// The width of a line, when the terminal does not say.
const USUAL_WIDTH: usize = 120;

/// Show one run, with its turns and the tree below it
#[derive(Debug, Args)]
pub struct Show {
    /// The run, or the caller's handle of it
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// All that is shown.
struct Shown {
    run: RunResult,
    /// What happened, unless it goes on.
    events: Vec<Event>,
    tree: Tree,
    currency: String,
    executing: Executing,
}

/// The runs below a run, by parent.
#[derive(Default)]
struct Tree {
    children: BTreeMap<RunId, Vec<RunResult>>,
    size: usize,
    /// Whether some are left out.
    cut: bool,
}

impl Show {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = self.run.ask()?;
        let found = connect::with(session, "runs show", Need::Journal, async |connection| {
            let mut result = connection.backend.call(&ask).await?;
            if self.wait && !result.status.is_terminal() {
                result = wait(connection, result).await?;
            }
            look(connection, result).await
        })
        .await?;
        match session.output.format() {
            Format::Json => {
                let marked = |run: &RunResult| {
                    let mut value = serde_json::to_value(run).expect("a result has only text keys");
                    found.executing.mark(run, &mut value);
                    value
                };
                let mut value = marked(&found.run);
                value["below"] = found.tree.children.values().flatten().map(marked).collect();
                session.output.json(&value);
            }
            Format::Human => found.show(&session.output),
        }
        Ok(Exit::Done)
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
fn refuse_to_wait(executing: Executing, run: &RunResult) -> Result<(), CommandError> {
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

/// How wide figures are, joined and without colours.
fn plain_width(figures: &[String]) -> usize {
    let joined = figures.join(", ");
    let mut width = 0;
    let mut in_code = false;
    for character in joined.chars() {
        match (in_code, character) {
            (false, '\u{1b}') => in_code = true,
            (false, character) => width += character.width().unwrap_or(0),
            (true, character) => in_code = character != 'm',
        }
    }
    width
}

async fn look(connection: &Connection, run: RunResult) -> Result<Shown, CommandError> {
    let mut tree = Tree::default();
    let mut open = vec![run.run_id];
    while let Some(parent) = open.pop() {
        let ask = ListRuns { parent_run_id: Some(parent), limit: Some(200), ..ListRuns::default() };
        let page = connection.backend.call(&ask).await?;
        tree.cut |= page.next.is_some() || tree.size + page.runs.len() > MOST_RUNS;
        let mut children = page.runs;
        // Oldest first, other than in a list; those of one call begin in the same moment.
        children.sort_by(|one, other| {
            let key =
                |run: &RunResult| (run.timings.accepted_at.clone(), run.agent.to_string(), run.run_id.to_string());
            key(one).cmp(&key(other))
        });
        children.truncate(MOST_RUNS - tree.size);
        tree.size += children.len();
        open.extend(children.iter().map(|child| child.run_id));
        if !children.is_empty() {
            tree.children.insert(parent, children);
        }
    }
    let mut events = Vec::new();
    // A run that goes on has no last event to read up to.
    let executing = connection.executing();
    if run.status.is_terminal() || executing.is_interrupted(&run) {
        let mut stream = connection.backend.follow(run.run_id, 0).await?;
        while let Some(event) = stream.next().await {
            events.push(event?);
        }
    }
    let costs = tree.children.values().flatten().map(|child| child.cost).chain([run.cost]);
    let currency = connection.backend.currency(costs.collect::<Vec<_>>()).await;
    Ok(Shown { run, events, tree, currency, executing })
}

impl Shown {
    fn show(&self, output: &Output) {
        self.show_facts(output);
        self.show_turns(output);
        if !self.tree.children.is_empty() {
            output.line("");
            self.show_branch(output, &self.run, "", "");
            if self.tree.cut {
                output.line(output.styled(Style::Notice, "… and more, which `drawloom runs list --parent RUN` shows"));
            }
        }
        if let Some(text) = &self.run.final_text {
            output.line("");
            output.line(shown(text));
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
        let status = self.status(output, run);
        line("status", format!("{status}{reason}{position}"));
        if self.executing.is_interrupted(run) {
            line("", connect::how_to_go_on(&run.run_id.to_string()));
        }
        line("handle", run.agent_id.to_string());
        line("session", run.session_id.to_string());
        line("user", run.user_id.to_string());
        if let Some(parent) = run.parent_run_id {
            line("parent", format!("{parent} (depth {})", run.depth));
        }
        if let Some(batch) = run.batch_id {
            line("batch", format!("{batch}, index {}", run.index.unwrap_or_default()));
        }
        line("accepted", run.timings.accepted_at.clone());
        let queued = run.timings.queued_ms.map(|queued| format!("{} in the queue", duration(queued)));
        let ran = run.timings.run_ms.map(|ran| format!("{} at work", duration(ran)));
        let times: Vec<String> = [queued, ran].into_iter().flatten().collect();
        if !times.is_empty() {
            line("took", times.join(", "));
        }
        let usage = &run.usage;
        let cached = match usage.cache_read_input_tokens {
            0 => String::new(),
            cached => format!(", {} from the cache", count(cached)),
        };
        line("tokens", format!("{} in, {} out{cached}", count(usage.input_tokens), count(usage.output_tokens)));
        if let Some(cost) = run.cost {
            line("cost", money(cost, &self.currency));
        }
        if let Some(tree) = run.tree.filter(|_| self.tree.size > 0) {
            let cost = match tree.cost.0 {
                Cost(0) => String::new(),
                _ => format!(", {}", money(tree.cost, &self.currency)),
            };
            line("tree", format!("{} runs, {} tokens{cost}", self.tree.size + 1, count(tree.tokens)));
        }
        for warning in &run.warnings {
            line("warning", output.styled(Style::Notice, warning));
        }
        if let Some(error) = &run.error {
            line("error", output.styled(Style::Bad, &format!("{} ({})", error.message, error.code)));
            if let Some(hint) = &error.hint {
                line("hint", hint.clone());
            }
        }
    }

    fn status(&self, output: &Output, run: &RunResult) -> String {
        match self.executing.is_interrupted(run) {
            true => output.styled(Style::Notice, INTERRUPTED),
            false => output.styled(Text::status_style(run.status), run.status.as_str()),
        }
    }

    /// One line for each turn and each call.
    fn show_turns(&self, output: &Output) {
        let width = output.width().unwrap_or(USUAL_WIDTH).saturating_sub(8);
        let mut heads = BTreeMap::new();
        let mut lines = Vec::new();
        for event in &self.events {
            let data = event.json();
            match &*event.name {
                "message" => {
                    let text = describe(event, &self.currency).map(|(_, text)| text).unwrap_or_default();
                    let text = first_line(&text, width);
                    lines.push(format!("{:>3}  {text}", data["turn"].as_u64().unwrap_or_default()));
                }
                "tool_call" => {
                    heads.insert(data["call"].as_u64(), tool_head(&data["tool_use"], width));
                }
                "tool_result" => {
                    let head = heads.remove(&data["call"].as_u64()).unwrap_or_default();
                    let (mark, style) = match data["is_error"].as_bool() {
                        Some(true) => ("✗", Style::Bad),
                        _ => ("✓", Style::Good),
                    };
                    let text = output.styled(Style::Dim, &fit(&tool_line(&head, &data), width));
                    lines.push(format!("     {} {text}", output.styled(style, mark)));
                }
                "provider_fallback" | "turn_reset" => {
                    let text = describe(event, &self.currency).map(|(_, text)| text).unwrap_or_default();
                    lines.push(format!("     {} {}", output.styled(Style::Notice, "!"), first_line(&text, width)));
                }
                _ => {}
            }
        }
        // A single turn without calls is the text below.
        if lines.len() > 1 {
            output.line("");
            lines.iter().for_each(|line| output.line(line));
        }
    }

    fn show_branch(&self, output: &Output, run: &RunResult, before: &str, below: &str) {
        let (tokens, cost) = self.sums(run);
        let mut figures = vec![self.status(output, run)];
        figures.extend(run.timings.total_ms.map(duration));
        figures.push(format!("{} tokens", count(tokens)));
        figures.extend(cost.map(|cost| money(cost, &self.currency)));
        let name = output.styled(Style::Bold, run.agent.as_str());
        let line = format!("{}{name}  {}", output.styled(Style::Dim, before), figures.join(", "));
        let id = run.run_id.to_string();
        let plain = before.width() + run.agent.as_str().width() + 2 + plain_width(&figures) + 2 + id.width();
        match (run.run_id == self.run.run_id, output.width().is_none_or(|width| plain <= width)) {
            (true, _) => output.line(line),
            (false, true) => output.line(format!("{line}  {}", output.styled(Style::Dim, &id))),
            (false, false) => {
                output.line(line);
                output.line(output.styled(Style::Dim, &format!("{below}  {id}")));
            }
        }
        if let Some(error) = run.error.as_ref().filter(|_| run.run_id != self.run.run_id) {
            let width = output.width().unwrap_or(USUAL_WIDTH).saturating_sub(below.chars().count() + 2);
            let text = first_line(&format!("{} ({})", error.message, error.code), width);
            output.line(format!("{}  {}", output.styled(Style::Dim, below), output.styled(Style::Bad, &text)));
        }
        let children = self.tree.children.get(&run.run_id).map(Vec::as_slice).unwrap_or_default();
        for (place, child) in children.iter().enumerate() {
            let (branch, onward) = if place + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.show_branch(output, child, &format!("{below}{branch}"), &format!("{below}{onward}"));
        }
    }

    /// Tokens and money of a run and all that is shown below it.
    fn sums(&self, run: &RunResult) -> (u64, Option<Amount>) {
        let below = self.tree.children.get(&run.run_id).into_iter().flatten().map(|child| self.sums(child));
        below.fold((run.usage.total(), run.cost), |(tokens, cost), (more, dearer)| {
            let cost = match (cost, dearer) {
                (Some(Amount(one)), Some(Amount(other))) => Some(Amount(one + other)),
                (one, other) => one.or(other),
            };
            (tokens.saturating_add(more), cost)
        })
    }
}
