//! Notes about staged files, so that one whose call was never journaled is found and removed after a crash.
//!
//! A note is a small file in the data directory. It is not synced: after a power failure a staged file may stay, which is
//! harmless.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use cap_std::fs::Dir;
use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    record::Seq,
    tool::ToolError,
};
use serde::{Deserialize, Serialize};

use super::staged::staged_name;

/// Where notes are kept.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    pub(crate) directory: PathBuf,
}

/// A file that was staged and, as far as its note says, never renamed or removed.
#[derive(Debug)]
pub struct Leftover {
    /// The run that staged it.
    pub run: RunKey,
    /// The call that staged it. The file is evidence while this call is open.
    pub call: Seq,
    /// The volume that it is in.
    pub volume: String,
    directory: PathBuf,
    note: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Note {
    tenant: Tenant,
    run: RunId,
    call: Seq,
    volume: String,
    directory: PathBuf,
}

impl Notes {
    /// Notes a file that is about to be staged. Without its note nothing would find it again.
    pub(super) fn add(&self, run: &RunKey, call: Seq, volume: &str, directory: &Path) -> Result<(), ToolError> {
        let note = Note {
            tenant: run.tenant.clone(),
            run: run.run,
            call,
            volume: volume.to_owned(),
            directory: directory.to_owned(),
        };
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.directory)?;
            fs::write(self.path(run, call), serde_json::to_vec(&note)?)
        };
        write().map_err(|error| {
            ToolError::Failed(format!("nothing was written: the server's data directory is not writable ({error})"))
        })
    }

    /// What a call has noted, if its file may still be staged.
    pub(super) fn find(&self, run: &RunKey, call: Seq) -> Option<Leftover> {
        let path = self.path(run, call);
        let note = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some(Leftover::new(note, path))
    }

    /// Removes a note: its file is no longer staged.
    pub(super) fn remove(&self, run: &RunKey, call: Seq) {
        match fs::remove_file(self.path(run, call)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot remove the record of a staged file");
            }
            _ => {}
        }
    }

    fn path(&self, run: &RunKey, call: Seq) -> PathBuf {
        self.directory.join(format!("{}-{call}.json", run.run))
    }
}

/// Every file that an earlier process noted as staged in `directory`. Damaged notes are removed.
pub fn leftovers(directory: &Path) -> io::Result<Vec<Leftover>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        match serde_json::from_slice(&fs::read(&path)?) {
            Ok(note) => found.push(Leftover::new(note, path)),
            Err(_) => fs::remove_file(&path)?,
        }
    }
    Ok(found)
}

impl Leftover {
    fn new(Note { tenant, run, call, volume, directory }: Note, note: PathBuf) -> Self {
        Self { run: RunKey { tenant, run }, call, volume, directory, note }
    }

    /// Removes the staged file, through the handle of its volume, and its note. Without a volume only the note goes.
    pub fn remove(&self, volume: Option<&File>) -> io::Result<()> {
        if let Some(volume) = volume {
            let path = self.directory.join(staged_name(self.run.run, self.call));
            match Dir::from_std_file(volume.try_clone()?).remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::remove_file(&self.note)
    }
}
