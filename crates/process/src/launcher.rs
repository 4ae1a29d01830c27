//! The launcher's own `main`: the hidden half of this crate that runs in a process of its own.
//!
//! It is started twice for each command. The outer one supervises: it reaps, ends and clears up, and stays outside the
//! walls so that the command can neither signal it nor look into it. The inner one puts up the walls around itself and
//! then becomes the command.

mod inner;
mod outer;
mod serve;
mod tree;

use std::{ffi::OsString, process::ExitCode};

use crate::report::{Report, tell};

/// What brings the launcher to its inner half.
const INNER: &str = "inner";

/// What brings it to the side of a command that serves for long.
pub(crate) const SERVE: &str = "serve";

/// Runs the launcher; `args` is what followed the arguments that led here. The program must do nothing else before: no
/// threads, no output, no open files.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let done = match (args.next(), args.next()) {
        (None, _) => outer::main(),
        (Some(which), None) if which == INNER => inner::main(),
        (Some(which), None) if which == SERVE => serve::main(),
        (Some(_), _) => Err("the launcher takes no arguments; it is drawloom's own".into()),
    };
    done.unwrap_or_else(|reason| {
        tell(&Report::Refused(reason));
        ExitCode::from(126)
    })
}
