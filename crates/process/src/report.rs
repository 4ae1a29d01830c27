//! What a launcher tells drawloom: lines of JSON on its standard error.

use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::landlock::Landlock;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The command's process, which leads its group.
    Started(i32),
    /// How it is confined.
    Confined(Landlock),
    /// From here on the pipe is the command's own standard error.
    Serving,
    /// It could not be started.
    Refused(String),
    /// It and everything it started are gone.
    Gone(Gone),
}

/// How a command ended, and what was ended with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gone {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether it ended before anybody asked it to.
    pub(crate) by_itself: bool,
    /// How many processes it had left running.
    pub(crate) left: u32,
    /// What went wrong while clearing up.
    pub(crate) trouble: Option<String>,
}

/// Tells drawloom. When nobody listens any more, nobody needs to know.
pub(crate) fn tell(report: &Report) {
    tell_to(&mut std::io::stderr(), report);
}

/// Tells drawloom through another handle of the same pipe.
pub(crate) fn tell_to(pipe: &mut dyn Write, report: &Report) {
    let mut line = serde_json::to_vec(report).expect("a report has only text keys");
    line.push(b'\n');
    let _ = pipe.write_all(&line);
}
