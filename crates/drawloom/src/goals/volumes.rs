//! Checkouts as volumes: an agent of the backend `model` has one, which exists only in its goal's run tree.

use std::{
    ffi::OsString,
    fs::File,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use drawloom_checkout::{self as checkout, Kind, Opened};
use drawloom_contract::{
    ids::RunId,
    tool::{Beside, Guard, Guarded, Holder, Mode, Place, ToolError, Volumes},
};
use drawloom_substrate::VolumeTable;

use super::{agents::MODEL_AGENT, workspace::told};

/// What names of such volumes begin with.
const PREFIX: &str = "checkout:";

/// The volume of a checkout.
pub(super) fn name_of(checkout: &str) -> String {
    format!("{PREFIX}{checkout}")
}

/// The directory of such a volume, of a run in the tree of a goal.
pub(crate) fn open_checkout(root: &Path, goal: RunId, volume: &str) -> Option<File> {
    let checkout = volume.strip_prefix(PREFIX)?;
    Some(checkout::open(root, &goal.to_string(), checkout).ok()?.directory)
}

/// The volumes of the config and of runtime, and the checkouts of goals.
pub(crate) struct WithCheckouts {
    pub(crate) others: Arc<dyn Volumes>,
    /// What protects the server's own files from commands.
    pub(crate) table: Arc<VolumeTable>,
    /// Where checkouts lie.
    pub(crate) root: PathBuf,
}

impl Volumes for WithCheckouts {
    fn locate(&self, holder: Holder<'_>, volume: Option<&str>, path: &str) -> Result<Place, ToolError> {
        let definition = holder.definition;
        let own = definition.volumes.iter().find_map(|name| Some((name, name.strip_prefix(PREFIX)?)));
        let own = own.filter(|_| definition.name.as_str() == MODEL_AGENT);
        let Some((name, checkout)) = own else { return self.others.locate(holder, volume, path) };
        if let Some(asked) = volume.filter(|asked| asked != name) {
            return Err(ToolError::Denied(format!("unknown volume {asked:?}; the only volume here is {name}")));
        }
        // The goal is the root of the run's tree: the checkout of another goal has no name here.
        let opened = checkout::open(&self.root, &holder.root.to_string(), checkout)
            .map_err(|error| ToolError::Denied(told(&error)))?;
        let inside = inside(&opened.path, path).ok_or_else(|| {
            ToolError::Denied(format!("{path:?} is outside the checkout; use paths relative to its top"))
        })?;
        let allowed = definition.volume_modes.as_ref().and_then(|modes| modes.get(name)).copied();
        let mode = match (opened.kind, allowed) {
            (Kind::Writer, Some(Mode::ReadWrite)) => Mode::ReadWrite,
            (Kind::Writer | Kind::ReadOnly, _) => Mode::ReadOnly,
        };
        self.place(name, opened, mode, inside)
    }
}

impl WithCheckouts {
    fn place(&self, volume: &str, opened: Opened, mode: Mode, path: PathBuf) -> Result<Place, ToolError> {
        let Opened { directory, environment, readable, temporary, is_in_place, .. } = opened;
        let mut guarded = self
            .table
            .guarded(&directory)
            .map_err(|error| ToolError::Failed(format!("cannot protect the config files from commands: {error}")))?;
        let directory = Arc::new(directory);
        if is_in_place {
            // Who can change the user's `.git` can run programs when the user next uses git.
            let name = OsString::from(".git");
            let git =
                Guarded { directory: directory.clone(), path: Some(name.clone().into()), name, rule: Guard::ReadOnly };
            guarded = guarded.iter().cloned().chain([git]).collect();
        }
        let writable = if mode == Mode::ReadWrite { vec![temporary] } else { Vec::new() };
        Ok(Place {
            volume: volume.into(),
            root: directory,
            mode,
            guarded,
            beside: Arc::new(Beside { environment, readable, writable }),
            path,
        })
    }
}

/// Where in the checkout a path is, by its text alone: links are no concern here, because files are opened through the directory's
/// handle, which no link leads out of.
fn inside(top: &Path, path: &str) -> Option<PathBuf> {
    if path.contains('\0') {
        return None;
    }
    let path = Path::new(path);
    let relative = if path.is_absolute() { path.strip_prefix(top).ok()? } else { path };
    let mut plain = PathBuf::new();
    for component in relative.components() {
        match component {
            Component::Normal(part) => plain.push(part),
            Component::CurDir => {}
            Component::ParentDir => plain.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_the_checkout_or_nowhere() {
        let top = Path::new("/checkouts/r_1/work/a");
        for (path, expected) in [
            (".", Some("")),
            ("src/./lib.rs", Some("src/lib.rs")),
            ("src/../readme", Some("readme")),
            ("/checkouts/r_1/work/a/src", Some("src")),
            ("..", None),
            ("../b/secret", None),
            ("src/../../b", None),
            ("/checkouts/r_1/work/b", None),
            ("/checkouts/r_1/work/a/../b", None),
            ("/checkouts/r_1/work/ab", None),
            ("/etc/passwd", None),
            ("a\0b", None),
        ] {
            assert_eq!(inside(top, path), expected.map(PathBuf::from), "{path:?}");
        }
    }
}
