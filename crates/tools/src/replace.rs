//! Changing a file in one step, and knowing after a crash whether it was changed: what `Write` and `Edit` share.
//!
//! The new content is staged beside the file before the intent of the call is journaled, and the call renames it. After a
//! crash the staged file tells what happened: while it exists under its name, the rename did not happen; when it is gone,
//! it did. That also holds when others have consumed, moved or changed the file back in the meantime.

mod leftovers;
mod lock;
mod staged;

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use drawloom_contract::{
    ids::Digest,
    tool::{ToolContext, ToolError, Verdict},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use leftovers::Notes;
pub use leftovers::{Leftover, leftovers};
pub(crate) use staged::is_staged_name;
use staged::{Found, Staged, Staging};

use crate::{
    files::{Opened, Stoppable, failed, open_any, until_dropped},
    guard::check_write,
    read::find_regular,
};

/// Most bytes of a file that is changed.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

/// Most bytes of a file that is replaced; its digest is evidence, so all of it is read.
pub(crate) const MOST_REPLACED: u64 = 64 * 1024 * 1024;

/// How often a link is resolved again while its target is being replaced.
const MOST_LOOKS: usize = 1_000;

/// What is journaled before the change: the file before, the file after, the answer, and where the new content is staged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evidence {
    before: Option<Digest>,
    after: Digest,
    #[serde(default)]
    said: String,
    /// Versions before 0.2 staged nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staged: Option<Staged>,
}

/// What a change that did not happen before a crash may do when its file was changed in the meantime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnOthersChange {
    /// Plan again on what the file is now.
    Replan,
    /// Fail: it would overwrite what others wrote.
    Fail,
}

/// A change that has been planned but not made.
pub(crate) struct Change {
    /// Where the file really is, links inside the volume followed.
    pub(crate) path: PathBuf,
    pub(crate) before: Option<Digest>,
    pub(crate) content: Vec<u8>,
    pub(crate) said: String,
}

/// Plans a change and stages its content. `None` when the volume's file system could not tell after a crash whether the
/// staged file was renamed; then the call must not be repeated.
pub(crate) async fn stage(
    context: &ToolContext,
    opened: Opened,
    notes: Notes,
    plan: impl FnOnce(&Opened, &AtomicBool) -> Result<Change, ToolError> + Send + 'static,
) -> Result<Option<Value>, ToolError> {
    let (run, call) = (context.run.clone(), context.call);
    let staging = Staging::of(context);
    until_dropped(move |stop| {
        let change = plan(&opened, &stop)?;
        let Some(directory) = staging.directory(&opened, &change.path)? else { return Ok(None) };
        notes.add(&run, call, &opened.place.volume, &directory.path)?;
        let staged = staging.write(&directory, &opened, &change);
        // A call that was given up is never journaled, so nothing else would remove its file.
        if staged.is_err() || stop.load(std::sync::atomic::Ordering::Relaxed) {
            staging.discard(&directory.dir);
            notes.remove(&run, call);
        }
        let (staged, notice) = staged?;
        let said = notice.map_or(change.said.clone(), |notice| format!("{}\n{notice}", change.said));
        let evidence =
            Evidence { before: change.before, after: Digest::of(&change.content), said, staged: Some(staged) };
        Ok(Some(serde_json::to_value(evidence)?))
    })
    .await
}

/// Plans a change again and makes it, while no other call changes the same file.
pub(crate) async fn change(
    context: &ToolContext,
    opened: Opened,
    plan: impl FnOnce(&Opened, &AtomicBool) -> Result<Change, ToolError> + Send + 'static,
) -> Result<String, ToolError> {
    let staging = Staging::of(context);
    let evidence = context.evidence.clone().map(serde_json::from_value::<Evidence>).transpose()?;
    let key = lock::key(&opened)?;
    let held = lock::hold(key).await;
    until_dropped(move |stop| {
        // Kept also when the call was given up: the lock is held until nothing is being changed.
        let _held = held;
        let change = plan(&opened, &stop)?;
        match evidence.and_then(|evidence| Some((evidence.staged?, evidence.after, evidence.said))) {
            // What is staged stays when this fails: until the failure is journaled, its absence would mean success.
            Some((staged, after, said)) => {
                let dir = staging.take_up(&staged, &opened, &change)?;
                change.rename(&opened, &dir, &staging, &stop)?;
                Ok(if Digest::of(&change.content) == after { said } else { change.said })
            }
            None => change.make(&opened, &staging, &stop),
        }
    })
    .await
}

impl Change {
    /// Stages and renames at once, for a call without evidence.
    fn make(&self, opened: &Opened, staging: &Staging, stop: &AtomicBool) -> Result<String, ToolError> {
        let directory = staging.any_directory(opened, &self.path)?;
        let made = staging.write(&directory, opened, self).and_then(|(_, notice)| {
            self.rename(opened, &directory.dir, staging, stop)?;
            Ok(notice)
        });
        if made.is_err() {
            staging.discard(&directory.dir);
        }
        let notices = made?.map(str::to_owned).into_iter().chain(
            directory
                .cannot_tell
                .map(|name| format!("[on this file system ({name}), a crash can leave this write in doubt]")),
        );
        Ok(notices.fold(self.said.clone(), |said, notice| format!("{said}\n{notice}")))
    }

    /// Renames the staged file: readers see the old content or the new one.
    fn rename(&self, opened: &Opened, staged: &Dir, staging: &Staging, stop: &AtomicBool) -> Result<(), ToolError> {
        let explain = |error: io::Error| failed(&self.path, &error);
        let parent = match self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => {
                opened.dir.create_dir_all(parent).map_err(explain)?;
                opened.dir.open_dir(parent).map_err(explain)?
            }
            None => opened.dir.try_clone().map_err(explain)?,
        };
        let name = self.path.file_name().unwrap_or_default();
        // Again, for this very directory: a link on the way may have been changed since the plan.
        check_write(&opened.place.guarded, &self.path, &parent, name)?;
        // Our own calls wait for each other; others, such as a command that runs meanwhile, do not.
        if digest(opened, &self.path, stop)? != self.before {
            let path = self.path.display();
            return Err(ToolError::Failed(format!("{path}: the file changed in the meantime; read it again")));
        }
        staged.rename(staging.name(), &parent, name).map_err(explain)
    }
}

/// What to say of a file that has other names, which a change does not reach.
pub(crate) fn other_names(Opened { dir, .. }: &Opened, path: &Path) -> String {
    match dir.symlink_metadata(path).map_or(1, |metadata| metadata.nlink()) {
        0 | 1 => String::new(),
        names => format!("\n[the file had {} other hard links; they keep the old content]", names - 1),
    }
}

/// Where the file really is. A link inside the volume is followed, so that it stays a link; one that leads out is an error.
pub(crate) fn real_path(Opened { dir, place }: &Opened) -> Result<PathBuf, ToolError> {
    let path = &place.path;
    match dir.symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => follow(dir, path),
        Ok(metadata) if metadata.is_dir() => Err(ToolError::Failed(format!("{}: is a directory", path.display()))),
        Ok(_) => Ok(path.clone()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.clone()),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Where a link leads. The kernel gives a file that is being replaced a name of its own (`… (deleted)`), so its answer counts
/// only when the same file is there.
fn follow(dir: &Dir, path: &Path) -> Result<PathBuf, ToolError> {
    let file = |metadata: Metadata| (metadata.dev(), metadata.ino());
    for _ in 0..MOST_LOOKS {
        let real = dir.canonicalize(path).map_err(|error| failed(path, &error))?;
        let meant = dir.metadata(path).map(file).map_err(|error| failed(path, &error))?;
        if dir.symlink_metadata(&real).is_ok_and(|metadata| file(metadata) == meant) {
            return Ok(real);
        }
    }
    Err(ToolError::Failed(format!("{}: the file keeps changing; try again", path.display())))
}

/// The digest of a regular file's content; nothing when there is no file.
pub(crate) fn digest(opened: &Opened, path: &Path, stop: &AtomicBool) -> Result<Option<Digest>, ToolError> {
    let Some((file, size)) = find_regular(opened, path)? else { return Ok(None) };
    let too_large = || {
        let path = path.display();
        ToolError::Failed(format!("{path}: the file has more than {MOST_REPLACED} bytes, too large to replace safely"))
    };
    if size > MOST_REPLACED {
        return Err(too_large());
    }
    let mut read = 0;
    let mut file = Stoppable { file: file.take(MOST_REPLACED + 1), stop };
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer).map_err(|error| failed(path, &error))? {
            0 => break,
            count => {
                read += count as u64;
                hasher.update(&buffer[..count]);
            }
        }
    }
    // It may have grown meanwhile.
    if read > MOST_REPLACED { Err(too_large()) } else { Ok(Some(Digest::from_bytes(hasher.finalize().into()))) }
}

/// Whether a call whose outcome is unknown happened.
pub(crate) async fn verdict(
    context: &ToolContext,
    opened: Result<Opened, ToolError>,
    evidence: &Value,
    on_change: OnOthersChange,
) -> Verdict {
    let (Ok(opened), Ok(evidence)) = (opened, serde_json::from_value::<Evidence>(evidence.clone())) else {
        return Verdict::InDoubt;
    };
    let staging = Staging::of(context);
    until_dropped(move |stop| {
        let Ok(now) = real_path(&opened).and_then(|path| digest(&opened, &path, &stop)) else {
            return Verdict::InDoubt;
        };
        let Some(staged) = &evidence.staged else {
            // Of an older version: only the new content proves anything, because a file may be changed back.
            return match now == Some(evidence.after) {
                true if evidence.said.is_empty() => Verdict::Happened(format!("wrote {}", opened.place.path.display())),
                true => Verdict::Happened(evidence.said),
                false => Verdict::InDoubt,
            };
        };
        match staging.find(staged, evidence.after, &opened) {
            Found::Staged if now == evidence.before || on_change == OnOthersChange::Replan => Verdict::DidNot,
            Found::Staged => Verdict::Failed(format!(
                "{}: nothing was written: the server stopped, and the file changed in the meantime; read it again",
                opened.place.path.display()
            )),
            Found::Renamed => Verdict::Happened(evidence.said),
            Found::RenamedWithOtherContent => {
                Verdict::Happened(format!("{}\n[the file was also changed by others; read it again]", evidence.said))
            }
            Found::Unknown => Verdict::InDoubt,
        }
    })
    .await
}

/// Removes what a call has staged, when its result is journaled. Its note says where that is: the journaled input and evidence may
/// be masked. What cannot be removed now is removed when the server starts again.
pub(crate) async fn discard(context: &ToolContext, notes: Notes) {
    let context = context.clone();
    until_dropped(move |_| {
        let Some(leftover) = notes.find(&context.run, context.call) else { return };
        let removed = open_any(&context, Some(&leftover.volume), ".")
            .map_err(|error| error.to_string())
            .and_then(|opened| leftover.remove(Some(&opened.place.root)).map_err(|error| error.to_string()));
        if let Err(error) = removed {
            tracing::warn!(run = %context.run.run, call = context.call, error, "cannot remove a staged file");
        }
    })
    .await;
}

#[cfg(test)]
mod tests;
