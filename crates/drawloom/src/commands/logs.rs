//! `drawloom logs`: what the server in the background wrote.

mod text;

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::Duration,
};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::Look,
    commands::{Session, status::server_of},
    exit::{CommandError, Exit},
    output::{Format, LocalTime, Output},
    project::Project,
    start::stop_signal,
};

/// How much of the end of a log is read for the last lines.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Show the log of the background server
///
/// On a terminal as text; in a pipe and with --json one JSON object a line.
#[derive(Debug, Args)]
pub struct Logs {
    /// Show the last lines of the log
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = 100)]
    lines: usize,
    /// Wait for new lines until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Logs {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find_data(&session.globals)?;
        let path = project.data.log_path();
        let explain = |error: std::io::Error| {
            CommandError::usage("no_log", format!("{}: {error}", path.display())).with_hint(
                match server_of(&project.data) {
                    Some(server) => {
                        format!(
                            "the server (process {}) was not started in the background; it logs to its own terminal",
                            server.pid
                        )
                    }
                    None => "no background server was started yet; `drawloom restart` starts one".into(),
                },
            )
        };
        let mut log = Log::open(&path).map_err(explain)?;
        let text = log.rest(MOST_BYTES).map_err(explain)?;
        let lines: Vec<&str> = text.lines().collect();
        let output = &session.output;
        let local = session.local_time();
        for line in &lines[lines.len().saturating_sub(self.lines)..] {
            show(output, &local, line);
        }
        if !self.follow {
            return Ok(Exit::Done);
        }
        if output.format() == Format::Human && output.is_terminal() {
            output.note("waiting for new lines; Ctrl-C to stop");
        }
        let mut stop = Box::pin(stop_signal());
        let mut more = More { output, local: &local, pending: String::new() };
        loop {
            tokio::select! {
                () = &mut stop => return Ok(Exit::Done),
                () = tokio::time::sleep(LOOK) => {}
            }
            if output.is_closed() {
                return Ok(Exit::Done);
            }
            // A log that was put aside is followed in the new one.
            if std::fs::metadata(&path).is_ok_and(|found| found.ino() != log.identity)
                && let Ok(new) = Log::open(&path)
            {
                more.show(&log.rest(u64::MAX).unwrap_or_default());
                log = Log { at: 0, ..new };
            }
            more.show(&log.rest(u64::MAX).map_err(explain)?);
        }
    }
}

/// A line as text on a terminal, and as it is elsewhere; for programs, a line that is not JSON becomes an object with a message.
fn show(output: &Output, local: &LocalTime, line: &str) {
    if output.format() == Format::Human {
        let text = if output.is_terminal() { text::of(line, output, local) } else { None };
        return output.line(text.as_deref().unwrap_or(line));
    }
    match serde_json::from_str::<Value>(line) {
        Ok(value) if value.is_object() => output.json_line(&value),
        _ => output.json_line(&json!({ "message": line })),
    }
}

/// What a followed log gets: each line once it is whole, and in a pipe all bytes at once.
struct More<'a> {
    output: &'a Output,
    local: &'a LocalTime,
    pending: String,
}

impl More<'_> {
    fn show(&mut self, text: &str) {
        if self.output.format() == Format::Human && !self.output.is_terminal() {
            return self.output.write(text);
        }
        self.pending.push_str(text);
        while let Some(end) = self.pending.find('\n') {
            let line: String = self.pending.drain(..=end).collect();
            show(self.output, self.local, line.trim_end_matches('\n'));
        }
    }
}

/// A log that is read on from where it was left.
struct Log {
    file: File,
    identity: u64,
    at: u64,
}

impl Log {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let identity = file.metadata()?.ino();
        Ok(Self { file, identity, at: 0 })
    }

    /// What came since the last look, at most the last `most` bytes of it.
    fn rest(&mut self, most: u64) -> std::io::Result<String> {
        let end = self.file.metadata()?.len();
        self.file.seek(SeekFrom::Start(self.at.max(end.saturating_sub(most))))?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        self.at = self.file.stream_position()?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
