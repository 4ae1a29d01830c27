//! The launcher's own `main`: the half of this crate that runs in processes of its own.
//!
//! One of them stays, and forks for each command. Two stand behind a command. The outer one talks to drawloom, makes the
//! namespaces, and clears up. The keeper is the first process inside the namespaces: it builds the file system that the command
//! sees, starts the command confined, watches what it uses, and ends everything. On a machine without namespaces the outer process
//! does the keeper's work too.

mod cgroup;
mod confined;
mod keeper;
mod namespaces;
mod outer;
mod probe;
mod root;
mod serve;
mod spawner;
mod tree;
mod usage;

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::ExitCode,
};

use serde::de::DeserializeOwned;

use crate::{
    command::LONGEST_ORDER,
    descriptors::close_inherited,
    report::{Report, tell},
};

/// The arguments that lead to each part.
pub(crate) const PROBE: &str = "probe";
pub(crate) const SERVE: &str = "serve";
pub(crate) const SPAWN: &str = "spawn";

/// Runs the launcher; `args` is what followed the arguments that led here. The program must do nothing else before: no
/// threads, no output, no open files.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    // What drawloom's caller had open is not for commands.
    if let Err(error) = close_inherited() {
        return refused(format!("cannot close inherited files: {error}"));
    }
    let done = match args[..] {
        [SPAWN] => spawner::main(),
        [SERVE] => serve::main(),
        [PROBE, without] => probe::main(without),
        _ => Err("the launcher is internal to drawloom and takes no arguments".into()),
    };
    done.unwrap_or_else(refused)
}

/// Tells why there is no command; answers the exit code that says the same.
fn refused<T: From<u8>>(reason: String) -> T {
    tell(&Report::Refused(reason));
    T::from(126)
}

/// Removes the control group of a command with this temporary directory, if there is one that nothing uses.
pub(crate) fn remove_group(temporary: &Path) {
    if let Some(name) = temporary.file_name() {
        cgroup::remove(name);
    }
}

/// Reads an order: one line of JSON on standard input. Nothing follows it before an answer, so nothing is lost in the buffer.
fn read_order<T: DeserializeOwned>() -> Result<T, String> {
    let mut line = Vec::new();
    BufReader::new(io::stdin().take(LONGEST_ORDER as u64))
        .read_until(b'\n', &mut line)
        .map_err(|error| format!("cannot read the request: {error}"))?;
    serde_json::from_slice(&line).map_err(|error| format!("invalid request: {error}"))
}
