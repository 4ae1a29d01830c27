//! `drawloom logs`: what the server in the background wrote.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::Duration,
};

use clap::Args;

use crate::{
    commands::{Session, status::server_of},
    exit::{CommandError, Exit},
    output::Format,
    project::Project,
    start::stop_signal,
};

/// How much of the end of a log is read for the last lines.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Show the log of the server that runs in the background
#[derive(Debug, Args)]
pub struct Logs {
    /// How many lines of its end
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = 100)]
    lines: usize,
    /// Go on until Ctrl-C
    #[arg(long, short)]
    follow: bool,
}

impl Logs {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let project = Project::find_data(&session.globals)?;
        let path = project.data.log_path();
        let explain = |error: std::io::Error| {
            CommandError::usage("no_log", format!("{}: {error}", path.display())).with_hint(
                match server_of(&project.data) {
                    Some(server) => {
                        format!("the server (process {}) was started by hand and logs where it was", server.pid)
                    }
                    None => "no server was started in the background yet".into(),
                },
            )
        };
        let mut log = Log::open(&path).map_err(explain)?;
        let text = log.rest(MOST_BYTES).map_err(explain)?;
        let lines: Vec<&str> = text.lines().collect();
        let output = &session.output;
        for line in &lines[lines.len().saturating_sub(self.lines)..] {
            output.line(line);
        }
        if !self.follow {
            return Ok(Exit::Done);
        }
        if output.format() == Format::Human && output.is_terminal() {
            output.note("waiting for more; Ctrl-C stops watching");
        }
        let mut stop = Box::pin(stop_signal());
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
                output.write(&log.rest(u64::MAX).unwrap_or_default());
                log = Log { at: 0, ..new };
            }
            output.write(&log.rest(u64::MAX).map_err(explain)?);
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
