//! Files that the server protects from agents: its config files, the `.env` beside each of them, and the folders that it reads
//! agents and skills from.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::tool::{Guard, Guarded};

/// The file beside a config file in which operators keep secrets.
const ENVIRONMENT_FILE: &str = ".env";

/// Most links from a name to its file; the kernel follows as many.
const MOST_LINKS: usize = 40;

/// A protected name: a file, or a link on the way to it.
#[derive(Debug)]
pub(super) struct Protected {
    /// Absolute and without links.
    directory: PathBuf,
    handle: Arc<File>,
    name: OsString,
    rule: Guard,
}

/// What the server protects from agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protect<'a> {
    /// Config files, and others that must not be made by an agent while they do not exist.
    pub files: &'a [PathBuf],
    /// Config files that would be found before those, and need not exist.
    pub found_before: &'a [PathBuf],
    /// Folders with all that is in them, and other files that need not exist.
    pub folders: &'a [PathBuf],
}

/// Every name that leads to one of the config files, to the `.env` beside it, or to one of the folders.
pub(super) fn find(protect: Protect<'_>) -> io::Result<Vec<Protected>> {
    let mut found: Vec<Protected> = Vec::new();
    let files = protect.files.iter().map(|file| (file, Guard::ReadOnly, true));
    let found_before = protect.found_before.iter().map(|file| (file, Guard::Absent, true));
    let folders = protect.folders.iter().map(|folder| (folder, Guard::Absent, false));
    for (file, rule, has_hidden) in files.chain(found_before).chain(folders) {
        let rule = if file.exists() { Guard::ReadOnly } else { rule };
        let names = names_of(file)?;
        let beside: &[_] = if has_hidden { &names } else { &[] };
        let hidden = beside.iter().map(|(directory, _)| names_of(&directory.join(ENVIRONMENT_FILE)));
        let hidden: Vec<_> = hidden.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect();
        let names = names.into_iter().map(|name| (name, rule));
        for ((directory, name), rule) in names.chain(hidden.into_iter().map(|name| (name, Guard::Hidden))) {
            match found.iter_mut().find(|known| known.directory == directory && known.name == name) {
                Some(known) if rule == Guard::Hidden || known.rule == Guard::Absent => known.rule = rule,
                Some(_) => {}
                None => {
                    let handle = Arc::new(File::open(&directory)?);
                    found.push(Protected { directory, handle, name, rule });
                }
            }
        }
    }
    Ok(found)
}

/// The file's own name and the names of all links on the way to it, each with its real directory. Replacing any of them
/// would replace the file.
fn names_of(file: &Path) -> io::Result<Vec<(PathBuf, OsString)>> {
    let mut names = Vec::new();
    let mut next = Some(std::path::absolute(file)?);
    while let Some(path) = next.take().filter(|_| names.len() < MOST_LINKS) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { break };
        let directory = match parent.canonicalize() {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        let path = directory.join(name);
        next = fs::read_link(&path).ok().map(|target| directory.join(target));
        names.push((directory, name.to_owned()));
    }
    Ok(names)
}

/// Whether `path`, absolute and without links, is the directory or below it, by identity.
pub(super) fn contains(directory: &File, path: &Path) -> io::Result<bool> {
    let directory = identity(&directory.metadata()?);
    Ok(path.ancestors().any(|above| is(above, directory)))
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is(path: &Path, known: (u64, u64)) -> bool {
    fs::metadata(path).is_ok_and(|metadata| identity(&metadata) == known)
}

/// The protected files as a volume with this root sees them. A directory is in the volume when the volume's root is one of
/// the directories above it, by identity: the path to the volume may go through a bind mount.
pub(super) fn seen_from(root: &File, protected: &[Protected]) -> io::Result<Arc<[Guarded]>> {
    let root = identity(&root.metadata()?);
    let inside = |file: &Protected| {
        let above = file.directory.ancestors().find(|above| is(above, root))?;
        file.directory.strip_prefix(above).ok().map(|rest| rest.join(&file.name))
    };
    let guarded = protected.iter().map(|file| Guarded {
        directory: file.handle.clone(),
        name: file.name.clone(),
        path: inside(file),
        rule: file.rule,
    });
    Ok(guarded.collect())
}
