//! What a command reads and what becomes of its output: kept in memory, or in two files that have a limit.

use std::{
    fs::File,
    io,
    mem::take,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::redact::Redactor;
use tokio::io::AsyncWriteExt as _;

use crate::{
    capture::{Capture, Captured},
    command::Error,
};

/// The standard input of a command.
#[derive(Debug, Clone)]
pub enum Input {
    Empty,
    /// A file that is open for reading. The command reads from where the file stands, so open it anew for each.
    File(Arc<File>),
}

impl Input {
    pub(crate) fn open(&self) -> io::Result<Arc<File>> {
        match self {
            Self::Empty => Ok(Arc::new(File::open("/dev/null")?)),
            Self::File(file) => Ok(file.clone()),
        }
    }
}

/// Where the output of a command goes. Of each stream `most` bytes are kept, half from the beginning and half from the end.
#[derive(Debug, Clone)]
pub enum Output {
    /// Standard output and error stay in memory, in the order of writing.
    Together { most: usize },
    /// Each goes to a file, which is made or emptied and must not be a link, and passes the redactor. The file grows with the beginning; the end
    /// follows when the command has ended.
    Files { stdout: PathBuf, stderr: PathBuf, most: usize, redactor: Arc<Redactor> },
}

/// The longest line that is told whole, in bytes.
pub const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// A line of standard output, without its end and with its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Of a line that is too long the beginning and the end.
    pub text: String,
    /// How many bytes of it are missing.
    pub missing: u64,
}

/// What is told of each line.
pub type Follower<'a> = &'a mut (dyn FnMut(Line) + Send);

impl Output {
    /// What keeps standard output, and standard error where that is kept apart.
    pub(crate) async fn open<'a>(&self, to: Option<Follower<'a>>) -> Result<(Kept<'a>, Option<Kept<'a>>), Error> {
        match self {
            Self::Together { most } => Ok((Kept::new(*most, None, to), None)),
            Self::Files { stdout, stderr, most, redactor } => {
                let (stdout, stderr) = (Recorder::new(stdout, redactor).await?, Recorder::new(stderr, redactor).await?);
                Ok((Kept::new(*most, Some(stdout), to), Some(Kept::new(*most, Some(stderr), None))))
            }
        }
    }
}

/// What is kept of a stream while it comes.
pub(crate) struct Kept<'a> {
    capture: Capture,
    recorder: Option<Recorder>,
    follower: Option<(Follower<'a>, Capture)>,
}

impl<'a> Kept<'a> {
    fn new(most: usize, recorder: Option<Recorder>, to: Option<Follower<'a>>) -> Self {
        Self { capture: Capture::new(most), recorder, follower: to.map(|to| (to, Capture::new(LONGEST_LINE))) }
    }

    pub(crate) fn nothing() -> Self {
        Self::new(0, None, None)
    }

    /// Takes the next bytes.
    pub(crate) async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some((to, line)) = &mut self.follower {
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (piece, is_whole) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
                line.push(piece);
                if is_whole {
                    to(one_line(std::mem::replace(line, Capture::new(LONGEST_LINE))));
                }
            }
        }
        self.capture.push(bytes);
        match &mut self.recorder {
            Some(recorder) => recorder.follow(self.capture.head()).await.map_err(|source| recorder.failed(source)),
            None => Ok(()),
        }
    }

    /// What was kept, once nothing more comes.
    pub(crate) async fn finish(self) -> Result<Captured, Error> {
        if let Some((to, line)) = self.follower {
            let line = one_line(line);
            if !line.text.is_empty() {
                to(line);
            }
        }
        let captured = self.capture.finish();
        if let Some(mut recorder) = self.recorder {
            let written = recorder.finish(captured.clone()).await;
            written.map_err(|source| recorder.failed(source))?;
        }
        Ok(captured)
    }
}

fn one_line(line: Capture) -> Line {
    let Captured { mut head, mut tail, missing } = line.finish();
    head.append(&mut tail);
    Line { text: String::from_utf8_lossy(&head).into_owned(), missing }
}

/// Most bytes that wait in memory because a secret may begin in them.
const MOST_HELD_BACK: usize = 64 * 1024;

/// Writes a stream to a file, without its secrets.
struct Recorder {
    path: PathBuf,
    file: tokio::fs::File,
    redactor: Arc<Redactor>,
    /// How many bytes of the beginning were taken so far: whole lines.
    taken: usize,
    /// Text that was taken and is not written yet.
    held: String,
}

impl Recorder {
    async fn new(path: &Path, redactor: &Arc<Redactor>) -> Result<Self, Error> {
        let mut options = tokio::fs::OpenOptions::new();
        let file =
            options.create(true).truncate(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path).await;
        let file = file.map_err(|source| Error::Output { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, redactor: redactor.clone(), taken: 0, held: String::new() })
    }

    /// Writes what is new and whole in the beginning of the stream.
    async fn follow(&mut self, head: &[u8]) -> io::Result<()> {
        let new = &head[self.taken..];
        let Some(end) = new.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        self.held.push_str(&String::from_utf8_lossy(&new[..=end]));
        self.taken += end + 1;
        let sure = self.redactor.sure(&self.held, MOST_HELD_BACK);
        let rest = self.held.split_off(sure);
        let sure = std::mem::replace(&mut self.held, rest);
        self.write(sure).await
    }

    /// Writes the rest of the beginning, what is missing, and the end.
    async fn finish(&mut self, captured: Captured) -> io::Result<()> {
        let Captured { head, tail, missing } = captured.whole_lines();
        let mut first = take(&mut self.held);
        first.push_str(&String::from_utf8_lossy(head.get(self.taken..).unwrap_or_default()));
        if missing == 0 {
            // Together: a secret may stand in both.
            first.push_str(&String::from_utf8_lossy(&tail));
            self.write(first).await?;
        } else {
            self.write(first).await?;
            self.file.write_all(format!("\n[truncated: {missing} bytes omitted]\n").as_bytes()).await?;
            self.write(String::from_utf8_lossy(&tail).into_owned()).await?;
        }
        self.file.flush().await
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Output { path: self.path.clone(), source }
    }

    async fn write(&mut self, mut text: String) -> io::Result<()> {
        self.redactor.mask(&mut text);
        self.file.write_all(text.as_bytes()).await
    }
}
