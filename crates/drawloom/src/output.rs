//! The only place that prints. `safe.rs` replaces control characters in all text before it is written.
//!
//! Answers go to stdout, everything else to stderr. A reader that goes away (`| head`) is no error: output then goes
//! nowhere, and commands that could go on for ever ask `is_closed`.

mod progress;
mod safe;
mod sink;
mod table;
mod text;
mod times;
mod yaml;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, BufRead as _, IsTerminal as _},
    panic,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;

use crate::{
    exit::{CommandError, Exit},
    logging,
};

use sink::Sink;
pub(crate) use sink::{stderr, stdout};

pub use drawloom_wire::words::{ASSUMED, assumed_money, bytes, count, duration, money};
pub use progress::{Bar, Bars};
pub(crate) use safe::{columns, is_unsafe, mark, printed, safe_json};
pub use table::{Column, INTERRUPTED, Text};
pub use text::{first_line, fit, fit_end, shown, wrap};
pub use times::LocalTime;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// People: tables, colours, progress.
    Human,
    /// Programs: one JSON value, or one a line; YAML documents, when those were asked for.
    Json,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, and not with `NO_COLOR`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How the output looks, as far as flags and the environment say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Appearance {
    /// When colours are used.
    pub colour: Colour,
    /// Whether `NO_COLOR` is set.
    pub no_colour: bool,
    /// Columns, when they are given; else those of the terminal.
    pub width: Option<usize>,
    /// Whether the terminal cannot move its cursor (`TERM=dumb`).
    pub dumb: bool,
    /// Whether output for programs is YAML instead of JSON.
    pub yaml: bool,
    /// Whether tables keep every column.
    pub wide: bool,
}

/// Where a command's words go.
pub struct Output {
    format: Format,
    colour: bool,
    colour_beside: bool,
    progress: bool,
    yaml: bool,
    wide: bool,
    /// Columns that were given.
    width: Option<usize>,
    closed: AtomicBool,
    /// Why the answer is not whole, unless its reader went away.
    lost: Mutex<Option<io::Error>>,
    stdout: Mutex<Sink>,
    stderr: Mutex<Sink>,
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
    /// As everything else.
    Plain,
}

impl Output {
    /// The process's own output.
    pub fn new(format: Format, look: Appearance) -> Self {
        let human = format == Format::Human;
        let coloured = |is_terminal: bool| match look.colour {
            Colour::Auto => human && !look.no_colour && is_terminal,
            Colour::Always => human,
            Colour::Never => false,
        };
        Self {
            format,
            colour: coloured(stdout().is_terminal()),
            colour_beside: coloured(stderr().is_terminal()),
            progress: human && !look.dumb && stderr().is_terminal(),
            yaml: look.yaml,
            wide: look.wide,
            width: look.width,
            closed: AtomicBool::new(false),
            lost: Mutex::default(),
            stdout: Mutex::new(Sink::new(Box::new(stdout()), stdout().is_terminal())),
            stderr: Mutex::new(Sink::new(Box::new(stderr()), stderr().is_terminal())),
        }
    }

    /// For whom it is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the answer goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        stdout().is_terminal()
    }

    /// Columns that a line may have now; no limit when that is unknown and the reader is a program.
    pub fn width(&self) -> Option<usize> {
        self.width.or_else(terminal_width)
    }

    /// Whether the reader closed the output.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A line of the answer.
    pub fn line(&self, text: impl AsRef<str>) {
        self.write(text.as_ref());
        self.write("\n");
    }

    /// A file's whole content as the answer: byte for byte, unless it goes to a terminal.
    pub fn content(&self, text: &str) {
        match self.is_terminal() {
            true => self.write(text),
            false => self.to_stdout(|stdout| stdout.content(text)),
        }
    }

    /// Part of a line of the answer, shown at once.
    pub fn write(&self, text: &str) {
        self.to_stdout(|stdout| stdout.print(text));
    }

    fn to_stdout(&self, print: impl FnOnce(&mut Sink) -> io::Result<()>) {
        let printed = print(&mut self.stdout.lock().expect("no panic while printing"));
        let Err(error) = printed else { return };
        self.closed.store(true, Ordering::Relaxed);
        if error.kind() != io::ErrorKind::BrokenPipe && !self.is_terminal() {
            self.lost.lock().expect("no panic while printing").get_or_insert(error);
        }
    }

    /// Says at the end that a part of the answer could not be written, such as on a full disk; and whether that was so.
    pub fn tell_lost(&self) -> bool {
        let lost = self.lost.lock().expect("no panic while printing").take();
        if let Some(error) = &lost {
            self.note(format!("{} the output is not complete: {error}", self.beside(Style::Bad, "error:")));
        }
        lost.is_some()
    }

    fn to_stderr(&self, print: impl FnOnce(&mut Sink) -> io::Result<()>) {
        // A closed stderr is not an error: the answer goes to stdout.
        drop(print(&mut self.stderr.lock().expect("no panic while printing")));
    }

    /// The answer, for programs: indented JSON.
    pub fn json(&self, value: &impl Serialize) {
        match (self.yaml, serde_json::to_string_pretty(value)) {
            (true, _) => self.yaml(value),
            (false, Ok(text)) => self.line(safe_json(&text)),
            (false, Err(error)) => self.note(format!("the answer cannot be written as JSON: {error}")),
        }
    }

    /// One of many answers, for programs: JSON on one line.
    pub fn json_line(&self, value: &impl Serialize) {
        match (self.yaml, serde_json::to_string(value)) {
            (true, _) => {
                self.line("---");
                self.yaml(value);
            }
            (false, Ok(text)) => self.line(safe_json(&text)),
            (false, Err(error)) => self.note(format!("the answer cannot be written as JSON: {error}")),
        }
    }

    fn yaml(&self, value: &impl Serialize) {
        match serde_json::to_value(value) {
            Ok(value) => self.write(&yaml::document(&value)),
            Err(error) => self.note(format!("the answer cannot be written as YAML: {error}")),
        }
    }

    /// Ids or names, one per line.
    pub fn ids(&self, ids: impl IntoIterator<Item = impl ToString>) {
        ids.into_iter().for_each(|id| self.line(id.to_string()));
    }

    /// A line beside the answer.
    pub fn note(&self, text: impl AsRef<str>) {
        self.to_stderr(|stderr| stderr.print(&format!("{}\n", text.as_ref())));
    }

    /// A warning beside the answer.
    pub fn warning(&self, text: &str) {
        self.note(format!("{} {}", self.beside(Style::Notice, "warning:"), continued(text)));
    }

    /// Draws lines beside the answer, in place of the `rows` rows above the cursor. Only for a terminal: ask `shows_progress`.
    pub fn redraw(&self, rows: usize, lines: &[String]) {
        self.to_stderr(|stderr| stderr.redraw(rows, lines));
    }

    /// Columns and rows of the terminal as it is now; the columns that were given, when some were.
    pub fn terminal_size(&self) -> Option<(usize, usize)> {
        let size = rustix::termios::tcgetwinsize(stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0)?;
        Some((self.width.unwrap_or_else(|| usize::from(size.ws_col)), usize::from(size.ws_row)))
    }

    /// A question beside the answer, without a line end: what is typed stands behind it.
    pub fn prompt(&self, text: &str) {
        self.to_stderr(|stderr| stderr.print(text));
    }

    /// Whether there is a person who can be asked: stdin and stderr are a terminal, and the answer is not for a program.
    pub fn can_ask(&self) -> bool {
        self.format == Format::Human && io::stdin().is_terminal() && stderr().is_terminal()
    }

    /// Asks a question whose usual answer is no.
    pub fn confirm(&self, question: &str) -> Result<bool, CommandError> {
        self.prompt(question);
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|error| CommandError::failed("no_answer", format!("cannot read the answer: {error}")))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Part of a thought, shown at once beside the answer. Says whether it ended in the middle of a line.
    pub fn think(&self, text: &str) -> bool {
        self.to_stderr(|stderr| stderr.print(&self.beside(Style::Dim, text)));
        !text.ends_with('\n')
    }

    /// Why the command failed: for people on stderr, for programs on stdout. Secrets in it are masked: what others said,
    /// such as a provider, may hold one.
    pub fn error(&self, error: &CommandError) {
        let error = &error.masked();
        if self.format == Format::Json {
            self.json(&error.to_json());
            return;
        }
        let mut lines = vec![format!("{} {}", self.beside(Style::Bad, "error:"), continued(&error.message))];
        lines.extend(error.details.iter().map(|detail| format!("  {}", continued(detail))));
        let hint = |hint: &String| format!("{} {}", self.beside(Style::Notice, "hint:"), continued(hint));
        lines.extend(error.hint.iter().map(hint));
        self.note(lines.join("\n"));
    }

    /// `text` in a style, for the answer, when colours are on.
    pub fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { safe::mark(style, text) } else { text.to_owned() }
    }

    /// `text` in a style, for a line beside the answer.
    pub fn beside(&self, style: Style, text: &str) -> String {
        if self.colour_beside { safe::mark(style, text) } else { text.to_owned() }
    }

    /// A table for people.
    pub fn table<const N: usize>(&self, columns: [Column<'_>; N], rows: impl IntoIterator<Item = [Text; N]>) {
        let is_shown = |column: &Column<'_>| self.wide || !column.only_wide;
        let cells = |row: [Text; N]| {
            columns.iter().zip(row).filter(|(column, _)| is_shown(column)).map(|(_, text)| text).collect()
        };
        let rows: Vec<Vec<Text>> = rows.into_iter().map(cells).collect();
        let columns: Vec<Column<'_>> = columns.iter().copied().filter(is_shown).collect();
        let paint = |style: Style, text: &str| self.styled(style, text);
        let width = self.width().filter(|_| !self.wide);
        for line in table::lay_out(&columns, &rows, width, &paint) {
            self.line(line);
        }
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).or_else(|_| rustix::termios::tcgetwinsize(stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A message whose further lines are indented, so that none of them looks like a message of its own.
fn continued(text: &str) -> String {
    text.trim_end().replace('\n', "\n  ")
}

/// Masks secrets and replaces control characters in panic messages, which can quote text of models, files and users.
pub(crate) fn guard_panics() {
    panic::set_hook(Box::new(|panicked| {
        let mut text = format!("{panicked}\nThis is a bug in drawloom.");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("\n{backtrace}"));
        }
        let mut stderr = Sink::new(Box::new(stderr()), stderr().is_terminal());
        // A closed stderr is not an error.
        drop(stderr.print(&format!("{}\n", continued(&logging::masked(&text)))));
    }));
}

/// What clap says of a command line that it cannot read, or was asked to say: help and version are no mistakes.
pub fn usage(error: &clap::Error, output: &Output) -> std::process::ExitCode {
    if !error.use_stderr() {
        // The output is gone, so this cannot be reported.
        drop(error.print());
        return Exit::Done.into();
    }
    let text = error.render().to_string();
    let text = match text.strip_prefix("error:") {
        Some(rest) => format!("{}{rest}", output.beside(Style::Bad, "error:")),
        None => text,
    };
    output.note(text.trim_end_matches('\n'));
    Exit::Usage.into()
}
