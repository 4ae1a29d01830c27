//! The only place that prints.
//!
//! Answers go to stdout, everything else to stderr. A reader that goes away (`| head`) is no error: output then goes
//! nowhere, and commands that could go on for ever ask `is_closed`.

mod progress;
mod table;
mod text;
mod times;
mod yaml;

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;

use crate::exit::{CommandError, Exit};

pub use drawloom_wire::words::{ASSUMED, assumed_money, bytes, count, duration, money};
pub use table::{Column, INTERRUPTED, Text};
pub use text::{first_line, fit, fit_end, plain, shown, wrap};
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
    /// As everything else.
    Plain,
}

impl Style {
    fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Notice => "33",
            Self::Plain => return text.to_owned(),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
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
            colour: coloured(io::stdout().is_terminal()),
            colour_beside: coloured(io::stderr().is_terminal()),
            progress: human && !look.dumb && io::stderr().is_terminal(),
            yaml: look.yaml,
            wide: look.wide,
            width: look.width,
            closed: AtomicBool::new(false),
            stdout: Mutex::new(Box::new(io::stdout())),
            stderr: Mutex::new(Box::new(io::stderr())),
        }
    }

    /// For whom it is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the answer goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
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

    /// Part of a line of the answer, shown at once.
    pub fn write(&self, text: &str) {
        let mut stdout = self.stdout.lock().expect("no panic while printing");
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// The answer, for programs: indented JSON.
    pub fn json(&self, value: &impl Serialize) {
        match (self.yaml, serde_json::to_string_pretty(value)) {
            (true, _) => self.yaml(value),
            (false, Ok(text)) => self.line(text),
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
            (false, Ok(text)) => self.line(text),
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
        let mut stderr = self.stderr.lock().expect("no panic while printing");
        // A closed stderr is not an error: the answer goes to stdout.
        drop(writeln!(stderr, "{}", text.as_ref()));
    }

    /// Something that is drawn beside the answer, with what moves the cursor. Only for a terminal: ask `shows_progress`.
    pub fn draw(&self, text: &str) {
        let mut stderr = self.stderr.lock().expect("no panic while printing");
        // A closed stderr is not an error: the answer goes to stdout.
        drop(write!(stderr, "{text}").and_then(|()| stderr.flush()));
    }

    /// Columns and rows of the terminal as it is now; the columns that were given, when some were.
    pub fn terminal_size(&self) -> Option<(usize, usize)> {
        let size =
            rustix::termios::tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0)?;
        Some((self.width.unwrap_or_else(|| usize::from(size.ws_col)), usize::from(size.ws_row)))
    }

    /// A question beside the answer, without a line end: what is typed stands behind it.
    pub fn prompt(&self, text: &str) {
        let mut stderr = self.stderr.lock().expect("no panic while printing");
        // A closed stderr is not an error: the answer goes to stdout.
        drop(write!(stderr, "{text}").and_then(|()| stderr.flush()));
    }

    /// Whether there is a person who can be asked: stdin and stderr are a terminal, and the answer is not for a program.
    pub fn can_ask(&self) -> bool {
        self.format == Format::Human && io::stdin().is_terminal() && io::stderr().is_terminal()
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
        let mut stderr = self.stderr.lock().expect("no panic while printing");
        // A closed stderr is not an error: the answer goes to stdout.
        drop(write!(stderr, "{}", self.beside(Style::Dim, text)).and_then(|()| stderr.flush()));
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
        let mut lines = vec![format!("{} {}", self.beside(Style::Bad, "error:"), error.message)];
        lines.extend(error.details.iter().map(|detail| format!("  {detail}")));
        lines.extend(error.hint.iter().map(|hint| format!("{} {hint}", self.beside(Style::Notice, "hint:"))));
        self.note(lines.join("\n"));
    }

    /// `text` in a style, for the answer, when colours are on.
    pub fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { style.paint(text) } else { text.to_owned() }
    }

    /// `text` in a style, for a line beside the answer.
    pub fn beside(&self, style: Style, text: &str) -> String {
        if self.colour_beside { style.paint(text) } else { text.to_owned() }
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
    let size = rustix::termios::tcgetwinsize(io::stdout()).or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// What clap says of a command line that it cannot read, or was asked to say: help and version are no mistakes.
pub fn usage(error: &clap::Error) -> std::process::ExitCode {
    // The output is gone, so this cannot be reported.
    drop(error.print());
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}
