//! Changing a file in one step, and the evidence that says after a crash whether it was changed: what `Write` and `Edit`
//! share.

mod lock;

use std::{
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions, Permissions};
use drawloom_contract::{
    ids::Digest,
    tool::{ToolContext, ToolError, Verdict},
};
use rustix::fs::{Gid, Uid, fchown};
use serde::{Deserialize, Serialize};

use crate::{
    files::{Opened, Stoppable, failed, until_dropped},
    read::find_regular,
};

/// Most bytes of a file that is changed.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

/// Most bytes of a file that is replaced; what it was is kept as evidence, so all of it is looked through.
const MOST_REPLACED: u64 = 64 * 1024 * 1024;

/// How often is looked where a link leads while that changes.
const MOST_LOOKS: usize = 1_000;

/// What the file was before, what it will be, and what the call then says: after a crash the file itself tells which.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evidence {
    before: Option<Digest>,
    after: Digest,
    #[serde(default)]
    said: String,
}

/// A change that has been thought through but not made.
pub(crate) struct Change {
    /// Where the file really is, links inside the volume followed.
    pub(crate) path: PathBuf,
    pub(crate) before: Option<Digest>,
    pub(crate) content: Vec<u8>,
    pub(crate) said: String,
}

impl Change {
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { before: self.before, after: Digest::of(&self.content), said: self.said.clone() }
    }

    /// Writes beside the file, then renames: whoever reads sees the old content or the new one. Permissions and the owner
    /// stay; the right to run as the owner does not, for who wrote this is not who was trusted with it.
    fn make(&self, opened: &Opened, temporary: &str, stop: &AtomicBool) -> Result<String, ToolError> {
        let dir = &opened.dir;
        let beside = self.path.with_file_name(temporary);
        let put = || -> io::Result<Option<&'static str>> {
            if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                dir.create_dir_all(parent)?;
            }
            remove(dir, &beside)?;
            let mut file = dir.open_with(&beside, OpenOptions::new().write(true).create_new(true))?;
            file.write_all(&self.content)?;
            let notice = match self.before {
                Some(_) => give_back(&file, &dir.metadata(&self.path)?)?,
                None => None,
            };
            file.sync_all()?;
            Ok(notice)
        };
        let made = put().map_err(|error| failed(&self.path, &error)).and_then(|notice| {
            // Our own calls wait for each other; others, such as a command that runs meanwhile, do not.
            if digest(opened, &self.path, stop)? != self.before {
                let path = self.path.display();
                return Err(ToolError::Failed(format!("{path}: it was changed meanwhile; read it again")));
            }
            dir.rename(&beside, dir, &self.path).map_err(|error| failed(&self.path, &error))?;
            Ok(notice)
        });
        if made.is_err() {
            // What is left of the attempt is of no use to anybody; when it cannot be removed either, the first error tells.
            let _ = dir.remove_file(&beside);
        }
        made.map(|notice| notice.map_or(self.said.clone(), |notice| format!("{}\n{notice}", self.said)))
    }
}

/// Gives the new file the owner and permissions of the old one, or says what could not be.
fn give_back(file: &File, old: &Metadata) -> io::Result<Option<&'static str>> {
    let new = file.metadata()?;
    let same = (new.uid(), new.gid()) == (old.uid(), old.gid());
    let owner = (Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
    let notice = match same || fchown(file, owner.0, owner.1).is_ok() {
        true => None,
        false => Some("[the file has another owner now: only root could keep it]"),
    };
    file.set_permissions(Permissions::from_std(std::fs::Permissions::from_mode(old.mode() & 0o777)))?;
    Ok(notice)
}

/// What to say of a file that has other names, which a change does not reach.
pub(crate) fn other_names(Opened { dir, .. }: &Opened, path: &Path) -> String {
    match dir.symlink_metadata(path).map_or(1, |metadata| metadata.nlink()) {
        0 | 1 => String::new(),
        names => format!("\n[the file had {} other names (hard links); they keep what it was before]", names - 1),
    }
}

/// Plans a change and makes it, while no other call changes the same file.
pub(crate) async fn change(
    context: &ToolContext,
    opened: Opened,
    plan: impl FnOnce(&Opened, &AtomicBool) -> Result<Change, ToolError> + Send + 'static,
) -> Result<String, ToolError> {
    let temporary = temporary_name(context);
    let key = lock::key(&opened)?;
    let held = lock::hold(key).await;
    until_dropped(move |stop| {
        // Also when nobody waits any more: it is held until nothing is being changed.
        let _held = held;
        plan(&opened, &stop)?.make(&opened, &temporary, &stop)
    })
    .await
}

/// What an earlier try of the same call left behind.
fn remove(dir: &Dir, path: &Path) -> io::Result<()> {
    match dir.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The name of the file beside; nobody else's call has the same.
fn temporary_name(context: &ToolContext) -> String {
    format!(".drawloom-{}-{}.tmp", context.run.run, context.call)
}

/// Where the file really is. A link inside the volume is followed, so that it stays a link; one that leads out is an error.
pub(crate) fn real_path(Opened { dir, place }: &Opened) -> Result<PathBuf, ToolError> {
    let path = &place.path;
    match dir.symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => follow(dir, path),
        Ok(metadata) if metadata.is_dir() => Err(ToolError::Failed(format!("{}: this is a directory", path.display()))),
        Ok(_) => Ok(path.clone()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.clone()),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Where a link leads. The kernel gives a file that is being replaced a name that nobody else did (`… (deleted)`), so what
/// it says counts only when the same file is there.
fn follow(dir: &Dir, path: &Path) -> Result<PathBuf, ToolError> {
    let file = |metadata: Metadata| (metadata.dev(), metadata.ino());
    for _ in 0..MOST_LOOKS {
        let real = dir.canonicalize(path).map_err(|error| failed(path, &error))?;
        let meant = dir.metadata(path).map(file).map_err(|error| failed(path, &error))?;
        if dir.symlink_metadata(&real).is_ok_and(|metadata| file(metadata) == meant) {
            return Ok(real);
        }
    }
    Err(ToolError::Failed(format!("{}: what it leads to is replaced all the time; try again", path.display())))
}

/// The digest of a regular file's content; nothing when there is no file.
pub(crate) fn digest(opened: &Opened, path: &Path, stop: &AtomicBool) -> Result<Option<Digest>, ToolError> {
    let Some((file, size)) = find_regular(opened, path)? else { return Ok(None) };
    let too_large = || {
        let path = path.display();
        ToolError::Failed(format!("{path}: it has more than {MOST_REPLACED} bytes, too many to be replaced safely"))
    };
    if size > MOST_REPLACED {
        return Err(too_large());
    }
    let mut read = 0;
    let mut file = Stoppable { file: file.take(MOST_REPLACED + 1), stop };
    let digest = Digest::of_parts(|buffer| file.read(buffer).inspect(|count| read += *count as u64))
        .map_err(|error| failed(path, &error))?;
    // It may have grown meanwhile.
    if read > MOST_REPLACED { Err(too_large()) } else { Ok(Some(digest)) }
}

/// What the file says about a call whose outcome is unknown.
pub(crate) fn verdict(opened: &Opened, evidence: &Evidence, stop: &AtomicBool) -> Verdict {
    match real_path(opened).and_then(|path| digest(opened, &path, stop)) {
        // Evidence of an older version does not hold what was said.
        Ok(now) if now == Some(evidence.after) && evidence.said.is_empty() => {
            Verdict::Happened(format!("wrote {}", opened.place.path.display()))
        }
        Ok(now) if now == Some(evidence.after) => Verdict::Happened(evidence.said.clone()),
        Ok(now) if now == evidence.before => Verdict::DidNot,
        Ok(_) | Err(_) => Verdict::InDoubt,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use drawloom_contract::tool::{Mode, Place};

    use super::*;

    #[test]
    fn a_link_leads_to_its_file_also_while_that_is_replaced() {
        let volume = tempfile::tempdir().expect("a directory");
        std::fs::write(volume.path().join("a"), "old").expect("a file");
        std::os::unix::fs::symlink("a", volume.path().join("link")).expect("a link");
        let root = Arc::new(std::fs::File::open(volume.path()).expect("the volume"));
        let dir = Dir::from_std_file(root.try_clone().expect("a handle"));
        let opened = Opened {
            dir,
            place: Place {
                volume: "v".into(),
                root,
                mode: Mode::ReadWrite,
                guarded: Arc::default(),
                path: "link".into(),
            },
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::fs::write(volume.path().join("b"), "new").expect("a file");
                    std::fs::rename(volume.path().join("b"), volume.path().join("a")).expect("the same directory");
                }
            });
            let found: Vec<_> = (0..20_000).map(|_| real_path(&opened)).collect();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            for real in found {
                assert_eq!(real.expect("a path"), Path::new("a"));
            }
        });
    }

    #[test]
    fn what_somebody_else_changed_after_the_plan_is_not_overwritten() {
        let volume = tempfile::tempdir().expect("a directory");
        std::fs::write(volume.path().join("a"), "somebody else's").expect("a file");
        let root = Arc::new(std::fs::File::open(volume.path()).expect("the volume"));
        let dir = Dir::from_std_file(root.try_clone().expect("a handle"));
        let place =
            Place { volume: "v".into(), root, mode: Mode::ReadWrite, guarded: Arc::default(), path: "a".into() };
        let opened = Opened { dir, place };
        for before in [None, Some(Digest::of(b"planned on"))] {
            let change = Change { path: "a".into(), before, content: b"ours".into(), said: String::new() };
            let error = change.make(&opened, "temporary", &AtomicBool::new(false)).expect_err("it changed");
            assert_eq!(error.to_string(), "a: it was changed meanwhile; read it again");
            assert_eq!(std::fs::read_to_string(volume.path().join("a")).expect("the file"), "somebody else's");
            assert_eq!(std::fs::read_dir(volume.path()).expect("the directory").count(), 1);
        }
    }
}
