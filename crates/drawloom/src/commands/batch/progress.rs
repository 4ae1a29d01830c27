//! What a terminal shows while a batch runs: a line for each run, or one bar for many.

use drawloom_contract::{ids::RunId, record::Status};
use drawloom_wire::{batches::MAX_SPAWNS, events::Event};
use futures::StreamExt as _;

use crate::{
    cli::Quiet,
    commands::Session,
    connect::Connection,
    exit::CommandError,
    live::tokens_of,
    output::{Bar, Bars, Output, count},
};

/// A terminal with fewer columns has no space for figures beside the prompts.
const NARROW: usize = 72;

/// Progress over all runs.
pub(super) enum Board {
    /// A line for each run.
    Lines(Lines),
    /// One bar.
    Bar(Bar),
    /// Nothing.
    None,
}

impl Board {
    pub(super) fn new(output: &Output, total: usize, ids: Quiet) -> Self {
        match total <= MAX_SPAWNS {
            _ if ids.quiet => Self::None,
            true => Self::Lines(Lines(output.lines(total))),
            false => Self::Bar(output.bar(total as u64, "runs")),
        }
    }

    /// Shows that a run has ended.
    pub(super) fn ended(&self, slot: usize) {
        match self {
            Self::Lines(lines) => lines.0.line(slot).finish(),
            Self::Bar(bar) => bar.advance(),
            Self::None => {}
        }
    }

    /// Follows a run to its end, when each run has its line.
    pub(super) async fn follow(
        &self,
        session: &Session,
        connection: &Connection,
        run: RunId,
        (slot, index): (usize, usize),
        head: String,
    ) -> Result<(), CommandError> {
        let Self::Lines(lines) = self else { return Ok(()) };
        if !session.output.shows_progress() {
            return Ok(());
        }
        let (line, width) = (lines.0.line(slot), session.output.width());
        let mut progress = Progress { index, head, status: "queued", turn: 0, tokens: 0 };
        line.set_message(&progress.words(width));
        let mut events = connection.backend.follow(run, 0).await?;
        while let Some(event) = events.next().await {
            progress.apply(&event?);
            line.set_message(&progress.words(width));
        }
        Ok(())
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.clear();
        }
    }
}

/// Lines of progress, which are removed from the screen at the end and when the command is interrupted: the table says the
/// same, better.
pub(super) struct Lines(Bars);

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// How far a run is.
struct Progress {
    index: usize,
    head: String,
    status: &'static str,
    turn: u64,
    tokens: u64,
}

impl Progress {
    fn apply(&mut self, event: &Event) {
        let data = event.json();
        match &*event.name {
            "started" | "retry" | "tool_result" => self.status = "running",
            "waiting" => self.status = "waiting",
            "message" => self.turn = data["turn"].as_u64().unwrap_or(self.turn),
            "usage" => self.tokens = self.tokens.saturating_add(tokens_of(&data["usage"])),
            "done" => self.status = "completed",
            "error" => {
                self.status = Status::ALL
                    .iter()
                    .find(|status| data["status"] == status.as_str())
                    .map_or("failed", |status| status.as_str());
            }
            _ => {}
        }
    }

    fn words(&self, width: Option<usize>) -> String {
        let Self { index, head, status, turn, tokens } = self;
        if width.is_some_and(|width| width < NARROW) {
            return format!("{index:>2}  {status:<9}  {head}");
        }
        format!("{index:>2}  {status:<9}  turn {turn:<3} {:>8} tokens  {head}", count(*tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_tokens_is_too_large_to_be_added() {
        let mut progress = Progress { index: 1, head: String::new(), status: "queued", turn: 0, tokens: 0 };
        let data = serde_json::json!({ "usage": { "input_tokens": u64::MAX, "output_tokens": u64::MAX } });
        let usage = Event { name: "usage".into(), id: Some(1), data: data.to_string() };
        progress.apply(&usage);
        progress.apply(&usage);
        assert_eq!(progress.tokens, u64::MAX);
    }
}
