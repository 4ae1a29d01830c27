//! Writes what was planned: all of it or nothing.
//!
//! Skills are copied beside their destination first, and the new config is checked with them by the loader that `serve` uses.
//! Then folders are renamed, and the config file last. A step that fails puts everything back.

mod copying;
mod staging;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use self::{copying::Job, staging::Staging};
use super::{Plan, plan, skills::Skill};
use crate::{config, exit::CommandError, resolve};

/// Most files of a skill, and most bytes of all of them.
pub(crate) const MOST_FILES: usize = 2_000;
pub(crate) const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Most files of a skill that a report lists as left out.
const MOST_LEFT_OUT: usize = 20;

/// The file in a copied skill that says what was copied.
const RECORD: &str = ".imported";

/// How the copy of a skill compares with what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Copied {
    New(Vec<PathBuf>),
    /// Its source has changed since it was copied.
    Changed(Vec<PathBuf>),
    Same,
    /// The copy was edited.
    Edited,
    /// The folder there does not come from an import.
    Foreign,
    /// It cannot be copied.
    Refused(String),
}

/// Compares a skill with the folder that it would be copied to.
pub(super) fn compare(skill: &Skill, destination: &Path, force: bool) -> Copied {
    let files = match files(&skill.folder) {
        Ok(files) => files,
        Err(reason) => return Copied::Refused(reason),
    };
    let to = destination.join(&skill.name);
    if fs::symlink_metadata(&to).is_err() {
        return Copied::New(files);
    }
    // A skill that is imported from where it would be copied to is there already.
    let same_place = matches!((to.canonicalize(), skill.folder.canonicalize()), (Ok(left), Ok(right)) if left == right);
    let theirs = self::files(&to).ok().and_then(|files| Contents::read(&to, &files).ok());
    if same_place || theirs.is_some() && theirs == Contents::read(&skill.folder, &files).ok() {
        return Copied::Same;
    }
    let recorded = fs::read_to_string(to.join(RECORD)).ok();
    match (recorded, theirs) {
        _ if force => Copied::Changed(files),
        // What an import does not copy was put there since, and a new copy would remove it.
        (Some(_), _) if has_uncopied(&to) => Copied::Edited,
        (Some(recorded), Some(theirs)) if recorded.trim() == theirs.to_string() => Copied::Changed(files),
        (Some(_), _) => Copied::Edited,
        (None, _) => Copied::Foreign,
    }
}

/// The files of a skill's folder that are copied, relative and sorted. Links, repositories and files of secrets are not.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let entries = fs::read_dir(folder.join(&below)).map_err(|error| format!("cannot read its folder: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("cannot read its folder: {error}"))?;
            let name = entry.file_name();
            let kind = entry.file_type().map_err(|error| format!("cannot read its folder: {error}"))?;
            let shown = name.to_string_lossy();
            if shown == RECORD || is_uncopied(&shown) || shown == ".DS_Store" {
                continue;
            }
            if kind.is_dir() {
                open.push(below.join(name));
            } else if kind.is_file() {
                bytes += entry.metadata().map_or(0, |file| file.len());
                found.push(below.join(name));
            }
            if found.len() > MOST_FILES || bytes > MOST_BYTES {
                return Err(format!("it has more than {MOST_FILES} files or {} MiB", MOST_BYTES / (1024 * 1024)));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Repositories and files of secrets are not copied.
fn is_uncopied(name: &str) -> bool {
    name == ".git" || name.starts_with(".env")
}

/// What of a skill's folder is not copied, with the reason; the first few.
pub(super) fn left_out(folder: &Path) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let mut entries: Vec<_> = fs::read_dir(folder.join(&below)).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let path = below.join(&name);
            let Ok(kind) = entry.file_type() else { continue };
            let reason = match name.to_string_lossy() {
                name if name == RECORD || name == ".DS_Store" => continue,
                name if name == ".git" => "a repository is not copied",
                name if is_uncopied(&name) => "a file of secrets is not copied",
                _ if kind.is_dir() => {
                    open.push(path);
                    continue;
                }
                _ if kind.is_file() => continue,
                _ if kind.is_symlink() => "a link is not copied",
                _ => "not a regular file",
            };
            if found.len() == MOST_LEFT_OUT || open.len() > MOST_FILES {
                return found;
            }
            found.push((path.to_string_lossy().into_owned(), reason));
        }
    }
    found
}

/// Whether a folder holds anything that an import does not copy. A folder that cannot be read may.
fn has_uncopied(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return true };
    entries.into_iter().any(|entry| {
        let Ok((entry, kind)) = entry.and_then(|entry| entry.file_type().map(|kind| (entry, kind))) else {
            return true;
        };
        is_uncopied(&entry.file_name().to_string_lossy())
            || kind.is_symlink()
            || kind.is_dir() && has_uncopied(&entry.path())
    })
}

/// The names of files and what they hold.
#[derive(Default)]
struct Contents(Vec<u8>);

/// Folders and files that were renamed, to be put back when a later step fails.
#[derive(Default)]
struct Renamed {
    /// From where, and to where.
    done: Vec<(PathBuf, PathBuf)>,
}

impl Renamed {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.done.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn put_back(&mut self) {
        while let Some((from, to)) = self.done.pop() {
            if let Err(error) = fs::rename(&to, &from) {
                tracing::error!(%error, from = %to.display(), to = %from.display(), "cannot restore a folder");
            }
        }
    }
}

/// Checks and writes a plan.
pub(crate) fn write(plan: &Plan) -> Result<(), CommandError> {
    let request = &plan.request;
    let parent = request.skills.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let explain = |what: &Path, error: io::Error| {
        CommandError::failed("cannot_write", format!("cannot write {}: {error}; nothing was changed", what.display()))
    };
    // Beside the destination, so that a rename is enough.
    let made =
        if plan.copies.is_empty() { None } else { Some(make_folders(parent).map_err(|error| explain(parent, error))?) };
    staging::clean(parent);
    staging::clean_files(
        request.into.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
    );
    let staged = match &made {
        Some(_) => Some(Staging::new(parent, &request.skills).map_err(|error| explain(parent, error))?),
        None => None,
    };
    let is_new = !request.skills.exists();
    let written = stage(plan, staged.as_ref()).and_then(|()| {
        let mut renamed = Renamed::default();
        let done = rename_all(plan, staged.as_ref(), &mut renamed);
        done.inspect_err(|_| renamed.put_back())
    });
    if written.is_err() {
        // Folders that were made for the skills are empty again.
        let own = is_new.then_some(&request.skills);
        for folder in own.into_iter().chain(made.iter().flatten()) {
            drop(fs::remove_dir(folder));
        }
    }
    written
}

/// Makes a folder and those above it; answers those that were new, the innermost first.
fn make_folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let new: Vec<PathBuf> = folder
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .map(Path::to_owned)
        .collect();
    fs::create_dir_all(folder)?;
    Ok(new)
}

/// Copies the skills and checks the new config with them.
fn stage(plan: &Plan, staged: Option<&Staging>) -> Result<(), CommandError> {
    if let Some(staged) = staged {
        let jobs = plan.copies.iter().filter_map(|(skill, copied)| match copied {
            Copied::New(files) | Copied::Changed(files) => {
                Some(Job { from: &skill.folder, files, to: staged.new_skills().join(&skill.name) })
            }
            Copied::Same | Copied::Edited | Copied::Foreign | Copied::Refused(_) => None,
        });
        copying::copy_all(&jobs.collect::<Vec<_>>()).map_err(|(folder, error)| {
            let message = format!("cannot copy {}: {error}; nothing was changed", folder.display());
            CommandError::failed("cannot_write", message)
        })?;
    }
    let mut loaded = plan::load(&plan.request, &plan.after).map_err(refused)?;
    let wanted = std::path::absolute(&plan.request.skills).ok();
    let directories = &mut loaded.config.skills.directories;
    let mut seen = Vec::new();
    for directory in directories.drain(..) {
        let is_destination = std::path::absolute(&directory).ok() == wanted;
        seen.extend(staged.filter(|_| is_destination).map(Staging::new_skills));
        if !is_destination || directory.is_dir() {
            seen.push(directory);
        }
    }
    *directories = seen;
    resolve::resolve(&loaded, &crate::Extra::default()).map_err(refused)?;
    Ok(())
}

fn refused(mistakes: Vec<config::Mistake>) -> CommandError {
    let error = config::refuse(mistakes);
    CommandError { message: format!("the config would not be valid: {}; nothing was changed", error.message), ..error }
}

/// Puts the skills in their places, and the config file last.
fn rename_all(plan: &Plan, staged: Option<&Staging>, renamed: &mut Renamed) -> Result<(), CommandError> {
    let request = &plan.request;
    let failed = |what: &Path, error: io::Error| {
        CommandError::failed("cannot_write", format!("cannot write {}: {error}; nothing was changed", what.display()))
    };
    if let Some(staged) = staged {
        fs::create_dir_all(&request.skills).map_err(|error| failed(&request.skills, error))?;
        for (skill, _) in &plan.copies {
            let to = request.skills.join(&skill.name);
            if fs::symlink_metadata(&to).is_ok() {
                renamed.rename(&to, &staged.old_skills().join(&skill.name)).map_err(|error| failed(&to, error))?;
            }
            renamed.rename(&staged.new_skills().join(&skill.name), &to).map_err(|error| failed(&to, error))?;
        }
    }
    if plan.before.as_deref() == Some(&*plan.after) {
        return Ok(());
    }
    // A link to a config stays a link.
    let file = request.into.canonicalize().unwrap_or_else(|_| request.into.clone());
    let now = match fs::read(&file) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(&file, error)),
    };
    if now.as_deref() != plan.before.as_ref().map(String::as_bytes) {
        let message = format!("{} was changed in the meantime; nothing was written", file.display());
        return Err(CommandError::failed("conflict", message).with_hint("run the command again"));
    }
    replace(&file, plan.after.as_bytes()).map_err(|error| failed(&file, error))
}

/// Replaces a file whole, with the rights that it has.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(staging::PREFIX).tempfile_in(folder)?;
    beside.write_all(bytes)?;
    let rights = fs::metadata(file).map_or_else(|_| fs::Permissions::from_mode(0o644), |found| found.permissions());
    beside.as_file().set_permissions(rights)?;
    beside.as_file().sync_all()?;
    beside.persist(file).map_err(|error| error.error)?;
    // The rename itself is durable when its directory is.
    File::open(folder)?.sync_all()
}
