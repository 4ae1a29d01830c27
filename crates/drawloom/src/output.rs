//! The only place that prints.
//!
//! Answers go to stdout, everything else to stderr. A reader that goes away (`| head`) is no error: output then goes
//! nowhere, and commands that could go on for ever ask `is_closed`.

use std::{
    io::{self, IsTerminal as _, Write},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, TableComponent, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use drawloom_contract::record::Status;

use crate::exit::{CommandError, Exit};

/// For whom the output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// People: tables, colours, progress.
    Human,
    /// Programs: one JSON value, or one a line.
    Json,
}

/// Where a command's words go.
pub struct Output {
    format: Format,
    colour: bool,
    progress: bool,
    closed: AtomicBool,
    stdout: Mutex<Box<dyn Write + Send>>,
    stderr: Mutex<Box<dyn Write + Send>>,
}

/// How a piece of text is shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Stands out.
    Bold,
    /// Stands back.
    Dim,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Something to look at.
    Notice,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Notice => "33",
        }
    }
}

impl Output {
    /// The process's own output. Colours only on a terminal, and not with `NO_COLOR`.
    pub fn new(format: Format, no_colour: bool) -> Self {
        let human = format == Format::Human;
        Self {
            format,
            colour: human && !no_colour && io::stdout().is_terminal(),
            progress: human && io::stderr().is_terminal(),
            closed: AtomicBool::new(false),
            stdout: Mutex::new(Box::new(io::stdout())),
            stderr: Mutex::new(Box::new(io::stderr())),
        }
    }

    /// For whom it is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the answer is read by somebody at a terminal.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A line of the answer.
    pub fn line(&self, text: impl AsRef<str>) {
        self.write(text.as_ref());
        self.write("\n");
    }

    /// Part of a line of the answer, shown at once.
    pub fn write(&self, text: &str) {
        let mut stdout = self.stdout.lock().expect("no panic while printing");
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// The answer, for programs: indented JSON.
    pub fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(error) => self.note(format!("the answer cannot be written as JSON: {error}")),
        }
    }

    /// One of many answers, for programs: JSON on one line.
    pub fn json_line(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(text),
            Err(error) => self.note(format!("the answer cannot be written as JSON: {error}")),
        }
    }

    /// A line beside the answer.
    pub fn note(&self, text: impl AsRef<str>) {
        let mut stderr = self.stderr.lock().expect("no panic while printing");
        // Nobody can be told that stderr is gone.
        drop(writeln!(stderr, "{}", text.as_ref()));
    }

    /// Why the command failed: for people on stderr, for programs on stdout.
    pub fn error(&self, error: &CommandError) {
        if self.format == Format::Json {
            self.json(&error.to_json());
            return;
        }
        let mut lines = vec![format!("error: {}", error.message)];
        lines.extend(error.details.iter().map(|detail| format!("  {detail}")));
        lines.extend(error.hint.iter().map(|hint| format!("hint: {hint}")));
        self.note(lines.join("\n"));
    }

    /// `text` in a style, when colours are on.
    pub fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }

    /// A table for people.
    pub fn table<const N: usize>(&self, header: [&str; N], rows: impl IntoIterator<Item = [Text; N]>) {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
        // Lines around the table and below its header are enough.
        for line in [
            TableComponent::HorizontalLines,
            TableComponent::MiddleIntersections,
            TableComponent::LeftBorderIntersections,
            TableComponent::RightBorderIntersections,
        ] {
            table.remove_style(line);
        }
        if !self.is_terminal() {
            table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
        }
        table.set_header(header.map(|title| self.cell(&Text::new(title).style(Style::Bold))));
        for row in rows {
            table.add_row(row.map(|text| self.cell(&text)));
        }
        // The first column names the row: it can be copied whole.
        if let Some(first) = table.column_mut(0) {
            first.set_constraint(ColumnConstraint::ContentWidth);
        }
        // Trailing spaces would only make copied tables ragged.
        for line in table.to_string().lines() {
            self.line(line.trim_end());
        }
    }

    fn cell(&self, text: &Text) -> Cell {
        let cell = Cell::new(&text.text);
        match (self.colour, text.style) {
            (true, Some(Style::Bold)) => cell.add_attribute(comfy_table::Attribute::Bold),
            (true, Some(Style::Dim)) => cell.add_attribute(comfy_table::Attribute::Dim),
            (true, Some(Style::Good)) => cell.fg(Color::Green),
            (true, Some(Style::Bad)) => cell.fg(Color::Red),
            (true, Some(Style::Notice)) => cell.fg(Color::Yellow),
            (false, _) | (true, None) => cell,
        }
    }

    /// A bar that counts to `total`; hidden when stderr is no terminal.
    pub fn bar(&self, total: u64, what: &str) -> ProgressBar {
        let target = if self.progress { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}").expect("a constant template");
        let bar = ProgressBar::with_draw_target(Some(total), target)
            .with_style(style.progress_chars("=> "))
            .with_prefix(what.to_owned());
        if self.progress {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        bar
    }
}

/// A text with a style, as a table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    text: String,
    style: Option<Style>,
}

impl Text {
    /// Plain text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: None }
    }

    /// The same text in a style.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }

    /// A status, in its colour.
    pub fn status(status: Status) -> Self {
        let style = match status {
            Status::Completed => Style::Good,
            Status::Failed | Status::TimedOut => Style::Bad,
            Status::Cancelled => Style::Notice,
            Status::Queued | Status::Running | Status::Waiting => Style::Dim,
        };
        Self::new(status.as_str()).style(style)
    }
}

/// What clap says of a command line that it cannot read, or was asked to say: help and version are no mistakes.
pub fn usage(error: &clap::Error) -> std::process::ExitCode {
    // Nobody can be told that the output is gone.
    drop(error.print());
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}

/// The first line of a text, cut to `most` characters, with `…` for what is left out.
pub fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let more = line.len() < text.trim().len();
    let mut cut: String = line.chars().take(most).collect();
    if more || cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_one_line_and_shows_that_it_was() {
        assert_eq!(first_line("\n  one line \n", 20), "one line");
        assert_eq!(first_line("one\ntwo", 20), "one…");
        assert_eq!(first_line("abcdef", 3), "abc…");
        assert_eq!(first_line("", 3), "");
    }
}
