//! Where a CLI works: the agent's volume, a checkout of its own run tree, or the user's checkout that this tree was given. A caller
//! cannot name any other directory.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::{
    failure::Explain,
    tool::{self, ToolContext, ToolError},
};
use drawloom_process::{Guard, Guarded, ListedPath, guarded_in, path_of};
use rustix::fs::{CWD, OFlags, ResolveFlags, openat2};

use crate::{error::Error, input::Mode};

/// A file in the directory of a tree, beside its checkouts, with paths that its processes may read: one path per line.
const READABLE: &str = "readable";

/// A file beside the checkouts of a goal without isolation, with the path of the user's checkout that its workers change.
const IN_PLACE: &str = "in-place";

/// Where a CLI works and what it may do there.
#[derive(Debug)]
pub(crate) struct Workplace {
    pub(crate) directory: Arc<File>,
    pub(crate) path: PathBuf,
    pub(crate) mode: Mode,
    /// Whether nothing else uses it: a checkout that was made for the run's tree.
    pub(crate) isolated: bool,
    pub(crate) guarded: Vec<Guarded>,
    /// What it may read besides: the objects of the repository that a checkout shares.
    pub(crate) readable: Vec<ListedPath>,
}

/// The directory of the run's tree: its checkouts, sessions and output.
pub(crate) fn of_tree(checkouts: &Path, context: &ToolContext) -> PathBuf {
    checkouts.join(context.root.to_string())
}

pub(crate) fn find(
    context: &ToolContext,
    directory: Option<&Path>,
    mode: Option<Mode>,
    checkouts: &Path,
) -> Result<Workplace, ToolError> {
    match directory {
        Some(directory) => {
            let tree = of_tree(checkouts, context);
            match in_place(&tree, directory) {
                Some((path, git)) => {
                    // Who can change the user's `.git` can run programs when the user next uses git.
                    let guarded = vec![Guarded { path: git, rule: Guard::ReadOnly }];
                    Ok(Workplace { isolated: false, guarded, ..checkout(&tree, path, mode)? })
                }
                None => checkout(&tree, inside(&tree, directory)?, mode),
            }
        }
        None => volume(context, mode),
    }
}

fn volume(context: &ToolContext, mode: Option<Mode>) -> Result<Workplace, ToolError> {
    let place = context.volumes.locate(context.holder(), None, ".")?;
    let failed = |error: std::io::Error| ToolError::Failed(format!("cannot find the volume's path: {error}"));
    let path = path_of(&place.root).map_err(failed)?;
    let mode = match (mode, place.mode) {
        (None, tool::Mode::ReadOnly) => Mode::ReadOnly,
        (None, tool::Mode::ReadWrite) => Mode::Edit,
        (Some(Mode::SkipPermissions), _) => return Err(refused(&Error::NotIsolated { directory: path })),
        (Some(Mode::Edit), tool::Mode::ReadOnly) => {
            return Err(refused(&Error::ReadOnlyVolume { volume: place.volume, mode: Mode::Edit }));
        }
        (Some(mode), _) => mode,
    };
    let guarded = guarded_in(&place, &[]).map_err(failed)?;
    Ok(Workplace { directory: place.root, path, mode, isolated: false, guarded, readable: Vec::new() })
}

/// The real path of a directory in the user's checkout that the tree was given, and the `.git` of that checkout.
fn in_place(tree: &Path, directory: &Path) -> Option<(PathBuf, PathBuf)> {
    let top = PathBuf::from(fs::read_to_string(tree.join(IN_PLACE)).ok()?).canonicalize().ok()?;
    let real = directory.canonicalize().ok().filter(|real| real.starts_with(&top) && real.is_dir())?;
    Some((real, top.join(".git")))
}

fn checkout(tree: &Path, path: PathBuf, mode: Option<Mode>) -> Result<Workplace, ToolError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(CWD, &path, flags, rustix::fs::Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|error| ToolError::Failed(format!("cannot open {}: {error}", path.display())))?;
    let listed = fs::read_to_string(tree.join(READABLE)).unwrap_or_default();
    let readable = listed.lines().filter(|line| Path::new(line).exists()).map(|line| ListedPath::resolve(line.into()));
    Ok(Workplace {
        directory: Arc::new(File::from(opened)),
        mode: mode.unwrap_or(Mode::Edit),
        isolated: true,
        guarded: Vec::new(),
        readable: readable.collect(),
        path,
    })
}

/// The real path of a directory that must lie in the directory of the tree.
pub(crate) fn inside(tree: &Path, directory: &Path) -> Result<PathBuf, ToolError> {
    let foreign = || refused(&Error::ForeignDirectory { directory: directory.to_owned(), allowed: tree.to_owned() });
    let allowed = tree.canonicalize().map_err(|_| foreign())?;
    let real = directory.canonicalize().map_err(|_| foreign())?;
    match real.starts_with(&allowed) && real != allowed && real.is_dir() {
        true => Ok(real),
        false => Err(foreign()),
    }
}

/// The error of a call that is not made: its code, what happened, and what to do.
pub(crate) fn refused(error: &Error) -> ToolError {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    ToolError::Denied(format!("{}: {error}{hint}", error.code()))
}
