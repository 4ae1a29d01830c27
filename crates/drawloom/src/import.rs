//! Agents, skills, commands and MCP servers of Claude Code, brought over.
//!
//! Everything here but `write` is a function of files and a config: `tree` reads a folder, `map` turns it into what a config
//! can hold, `plan` compares that with a config file and edits its text, `report` says what became of every field. The command
//! `import` writes the result; `sources` of the config uses the same mapping at every start and writes nothing.

mod agents;
mod clashes;
mod document;
pub(crate) mod emit;
mod map;
mod models;
mod names;
mod plan;
mod prompts;
mod report;
mod servers;
mod settings;
mod skills;
pub mod sources;
mod spans;
mod splice;
mod tools;
pub(crate) mod tree;
pub(crate) mod write;

use std::{
    fs::{File, TryLockError},
    path::Path,
};

pub(crate) use map::{Mapped, Target, map};
pub(crate) use plan::{Plan, Request, plan};
pub(crate) use report::{Action, Item, Kind, Note, Outcome, Proposal, Report};
pub(crate) use sources::{SourceConfig, Sourced, apply, digest};
pub(crate) use tree::Tree;
pub(crate) use write::write;

use drawloom_substrate::files;

use crate::exit::CommandError;

/// The largest agent, command or settings file that is read, in bytes.
pub(crate) const FILE_LIMIT: u64 = 256 * 1024;

/// Keeps other imports into the same config away until it is dropped. The folder of the config is locked, so nothing is left.
pub(crate) fn lock(folder: &Path, into: &Path) -> Result<Option<File>, CommandError> {
    // A folder that does not exist is made by the import; no other can have edited its config.
    let Ok(file) = File::open(folder) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let message = format!("another import into {} is running; nothing was changed", into.display());
            Err(CommandError::failed("import_running", message).with_hint("run the command again when it has ended"))
        }
        Err(TryLockError::Error(error)) => {
            let message = format!("cannot lock {}: {error}; nothing was changed", folder.display());
            Err(CommandError::failed("cannot_write", message))
        }
    }
}

/// The content of a regular file within a limit, or why there is none.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let fail = |error: std::io::Error| format!("cannot be read: {error}");
    // A pipe would never end; nothing but a file is opened.
    if std::fs::metadata(path).map_err(fail)?.is_dir() {
        return Err("this is not a regular file".into());
    }
    let file = files::open_file(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => "this is not a regular file".into(),
        _ => fail(error),
    })?;
    match file.metadata().map_err(fail)?.len() {
        bytes if bytes > limit => Err(format!("it has {bytes} bytes, more than {limit}")),
        _ => files::read_limited(file, limit).map_err(fail),
    }
}

#[cfg(test)]
mod tests;
