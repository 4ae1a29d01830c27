//! A program that outlives the process that started it: a server that a short-lived process needs and leaves behind.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use rustix::io::Errno;
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStdout},
};

use crate::descriptors::close_inherited;

/// What the program is called in lists of processes.
const NAME: &str = "drawloom";

/// The most bytes of what a program says first that are read.
const LONGEST_WORD: usize = 64 * 1024;

/// A program that was started to stay.
pub struct Detached {
    child: Child,
    output: ChildStdout,
}

/// What a program said first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstWord {
    /// A line: it goes on.
    Line(String),
    /// It ended, and this is all that it said.
    Ended(String),
}

impl Detached {
    /// Starts this very program again with `args`, detached: the argument `leave` must lead it to [`leave`]. It gets
    /// no input, its errors go to `log`, its output is heard until the first line, and its environment is ours. It should
    /// call [`own_session`] first of all.
    pub fn start(leave: &str, args: impl IntoIterator<Item = OsString>, log: File) -> io::Result<Self> {
        let mut command = Command::new(Path::new("/proc/self/exe"));
        command.arg0(NAME).arg(leave).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = tokio::process::Command::from(command).spawn()?;
        let output = child.stdout.take().expect("its output was asked for");
        Ok(Self { child, output })
    }

    /// Waits for its first line, or for its end.
    pub async fn first_word(&mut self) -> io::Result<FirstWord> {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = self.output.read(&mut buffer).await?;
            let before = heard.len();
            heard.extend_from_slice(&buffer[..count]);
            let text = || String::from_utf8_lossy(&heard).into_owned();
            if count == 0 {
                self.child.wait().await?;
                return Ok(FirstWord::Ended(text()));
            }
            // An error is told over several lines and begins with a brace that stands alone.
            let line = heard.iter().position(|byte| *byte == b'\n').filter(|end| heard[..*end].trim_ascii() != b"{");
            if let Some(end) = line {
                return Ok(FirstWord::Line(String::from_utf8_lossy(&heard[..end]).into_owned()));
            }
            if before > LONGEST_WORD {
                return Ok(FirstWord::Line(text()));
            }
        }
    }
}

/// Starts this very program with `args` and ends: a process that ends the tree below the one that asked for this
/// (hosts do) does not find what was started. What the asking program has open does not reach it.
pub fn leave(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Err(error) = close_inherited() {
        _ = writeln!(io::stderr(), "cannot close inherited files: {error}");
        return ExitCode::FAILURE;
    }
    match Command::new(Path::new("/proc/self/exe")).arg0(NAME).args(args).spawn() {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            // Its errors go to the log that the started program would have had; there is no other place for them.
            _ = writeln!(io::stderr(), "cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Leaves the session of the process that started this one, and with it the terminal and the signals that are sent to it.
pub fn own_session() -> io::Result<()> {
    match rustix::process::setsid() {
        // It leads a group already, as a program does that a shell started by itself.
        Ok(_) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
