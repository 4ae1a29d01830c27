//! Logs go to stderr; `--log` or `DRAWLOOM_LOG` says which. Every line passes the redactor.

mod json;
mod lines;

use std::{
    io::{self, IsTerminal as _, Stderr, Write},
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use drawloom_contract::redact::Redactor;
use tracing::{Level, Metadata};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use json::Json;
use lines::Lines;

use crate::{
    environment,
    exit::CommandError,
    output::{Appearance, Colour, Style, mark, printed, stderr},
};

/// How logs look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What masks secrets in log lines: first what the environment's names give away, then what the config names too.
static REDACTOR: LazyLock<RwLock<Arc<Redactor>>> =
    LazyLock::new(|| RwLock::new(Arc::new(Redactor::new(environment::secret_values()))));

/// The lines of this process.
static LINES: LazyLock<Arc<Lines<Stderr>>> = LazyLock::new(|| Lines::new(stderr()));

/// Starts logging what `filter` lets through.
pub(crate) fn start(filter: &str, format: LogFormat, look: Appearance) -> Result<(), CommandError> {
    // What the MCP library says of every message is logged only when it is asked for by name; ends of connections we tell ourselves.
    let quiet = match filter.contains("rmcp") {
        true => filter.to_owned(),
        false => format!("{filter},rmcp=warn,rmcp::transport::worker=off"),
    };
    let filter = EnvFilter::try_new(quiet).map_err(|error| {
        CommandError::usage("bad_log_filter", format!("{filter:?} is not a log filter: {error}"))
            .with_hint("write a level such as `info`, or `drawloom_engine=debug,warn`")
    })?;
    let terminal = stderr().is_terminal();
    let json = match format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let colour = match look.colour {
        Colour::Auto => terminal && !look.no_colour,
        Colour::Always => true,
        Colour::Never => false,
    };
    let registry = tracing_subscriber::registry().with(filter);
    // A test process may have logs of its own; they stay.
    drop(match json {
        true => registry.with(Json(LINES.clone())).try_init(),
        false => {
            let text = tracing_subscriber::fmt::layer().with_target(false).with_ansi(false);
            registry.with(text.with_writer(Text { lines: LINES.clone(), colour })).try_init()
        }
    });
    Ok(())
}

/// Lets a thread write the lines from now on, for a process that logs much. Its owner calls [`flush`] before it ends.
pub(crate) fn write_in_background() {
    if let Err(error) = LINES.write_in_background() {
        tracing::warn!(%error, "no thread for log lines; each is written where it is logged");
    }
}

/// Writes the lines that wait.
pub(crate) fn flush() {
    LINES.flush();
}

/// Masks these values too, from now on.
pub(crate) fn mask_also(values: impl IntoIterator<Item = String>) {
    let all = Redactor::new(environment::secret_values().into_iter().chain(values));
    *REDACTOR.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(all);
}

/// The text without the secrets that are known by now.
pub(crate) fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    redactor().mask(&mut text);
    text
}

fn redactor() -> Arc<Redactor> {
    REDACTOR.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Passes on lines for people.
struct Text<W> {
    lines: Arc<Lines<W>>,
    colour: bool,
}

impl<'a, W: Write + Send + 'static> MakeWriter<'a> for Text<W> {
    type Writer = TextWriter<'a, W>;

    fn make_writer(&'a self) -> Self::Writer {
        TextWriter { text: self, level: Level::WARN }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        TextWriter { text: self, level: *metadata.level() }
    }
}

struct TextWriter<'a, W> {
    text: &'a Text<W>,
    level: Level,
}

impl<W: Write + Send + 'static> Write for TextWriter<'_, W> {
    /// The layer writes an event in one piece.
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(piece);
        self.text.lines.add(self.level, &for_people(&line, self.level, self.text.colour));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of the log as it is printed. Further lines of a message are indented, so that none looks like a message of its own.
fn for_people(line: &str, level: Level, colour: bool) -> String {
    let line = line.trim_end_matches('\n').replace('\n', "\n    ");
    let line = match line.split_once(level.as_str()).filter(|_| colour) {
        None => line,
        Some((time, rest)) => {
            let style = match level {
                Level::ERROR => Style::Bad,
                Level::WARN => Style::Notice,
                Level::INFO => Style::Good,
                Level::DEBUG | Level::TRACE => Style::Dim,
            };
            format!("{}{}{rest}", mark(Style::Dim, time), mark(style, level.as_str()))
        }
    };
    format!("{}\n", printed(&line))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(piece);
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_logged_as_text() {
        let kept = Kept::default();
        let text = Text { lines: Lines::new(kept.clone()), colour: true };
        let layers = tracing_subscriber::registry().with(
            tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_target(false).with_writer(text),
        );
        tracing::subscriber::with_default(layers, || {
            tracing::warn!(name = "a\u{9b}2J\u{202e}", error = %"b\x1b]0;title\x07\n ERROR forged", "odd");
        });
        let logged = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
        let rest =
            logged.strip_prefix("\x1b[2m \x1b[0m\x1b[33mWARN\x1b[0m odd ").unwrap_or_else(|| panic!("{logged:?}"));
        assert!(!rest.chars().any(crate::output::is_unsafe), "{logged:?}");
        assert_eq!(logged.lines().filter(|line| line.starts_with("    ")).count(), 1, "{logged:?}");
    }

    #[test]
    fn a_key_in_an_error_does_not_reach_the_log() {
        let kept = Kept::default();
        let lines = Lines::new(kept.clone());
        let key = format!("sk-ant-{}", "a1".repeat(20));
        let quoted = "a \"quoted\" secret";
        mask_also([quoted.to_owned()]);
        let layers = tracing_subscriber::registry()
            .with(tracing_subscriber::fmt::layer().with_writer(Text { lines: lines.clone(), colour: false }))
            .with(Json(lines));
        tracing::subscriber::with_default(layers, || {
            tracing::error!(error = %format!("the provider said {key} is wrong"), "a call failed");
            tracing::error!(error = quoted, "so did another");
        });
        let logged = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
        assert_eq!(logged.lines().count(), 4, "{logged}");
        assert_eq!(logged.matches("[redacted]").count(), 4, "{logged}");
        assert!(!logged.contains("a1a1a1") && !logged.contains("secret"), "{logged}");
    }
}
