//! What a launcher tells drawloom: lines of JSON on its standard error. What it is told: an order, then a start signal.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::usage::Exceeded;

/// What drawloom answers to [`Report::Ready`].
pub(crate) const GO: &[u8; 3] = b"go\n";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The lock is held; the command starts when drawloom says so. The number of the supervisor.
    Ready(i32),
    /// The command's process, which leads its group. Not told where the kernel ends the command with its namespaces.
    Started(i32),
    /// From here on the pipe is the command's own standard error.
    Serving,
    /// It could not be started.
    Refused(String),
    /// The kernel held it to this limit and did not end it.
    Limited(Exceeded),
    /// It and everything it started are gone.
    Gone(Gone),
    /// What could not be cleared up after it.
    Trouble(String),
}

/// How a command ended, and what was ended with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gone {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether it ended before it was asked to.
    pub(crate) by_itself: bool,
    /// How many processes it had left running.
    pub(crate) left: u32,
    /// The limit that it was ended for.
    pub(crate) exceeded: Option<Exceeded>,
    /// The most processes and threads that it was seen to have at once.
    #[serde(default)]
    pub(crate) peak: u64,
    /// What went wrong while clearing up.
    pub(crate) trouble: Option<String>,
}

/// Tells drawloom. When drawloom is gone, the words are lost, and so is the need for them.
pub(crate) fn tell(report: &Report) {
    tell_to(&mut std::io::stderr(), report);
}

/// Tells drawloom through another handle of the same pipe.
pub(crate) fn tell_to(pipe: &mut dyn Write, report: &Report) {
    let mut line = serde_json::to_vec(report).expect("a report has only text keys");
    line.push(b'\n');
    let _ = pipe.write_all(&line);
}
