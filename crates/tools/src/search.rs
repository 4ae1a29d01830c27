//! What `Glob` and `Grep` share: the place to begin, and how results name files.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use cap_std::fs::Dir;
use drawloom_contract::tool::{ToolContext, ToolError};
use rustix::fd::OwnedFd;

use crate::{
    files::{Opened, failed, open_any},
    guard::Hidden,
    walk::{Ignored, Scope, Walk, usual_threads},
};

/// Where a search begins, for this call's gates.
pub(crate) fn begin(context: &ToolContext, volume: Option<&str>, path: Option<&str>) -> Result<Opened, ToolError> {
    open_any(context, volume, path.filter(|path| !path.is_empty()).unwrap_or("."))
}

/// A notice when a path of the result would mean another file without the volume's name.
pub(crate) fn elsewhere(context: &ToolContext, volume: Option<&str>, opened: &Opened) -> Option<String> {
    let name = &opened.place.volume;
    let implied = context.volumes.locate(context.holder(), None, ".");
    let same = implied.is_ok_and(|place| place.volume == *name);
    (volume.is_none() && !same).then(|| format!("[paths are in volume {name:?}: pass volume={name:?} with them]"))
}

/// A walk of the directory that `opened` names.
pub(crate) fn walk(opened: &Opened, scope: Scope, stop: Arc<AtomicBool>) -> Result<Walk, ToolError> {
    let path = &opened.place.path;
    // A search may begin behind a link inside the volume; results are named by where they really are.
    let real = match path.as_os_str().is_empty() {
        true => path.clone(),
        false => opened.dir.canonicalize(path).map_err(|error| failed(path, &error))?,
    };
    let start = directory(&opened.dir, &real).map_err(|error| failed(path, &error))?;
    let mut ignored = None;
    for above in real.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
        if let Ok(dir) = directory(&opened.dir, above) {
            ignored = Ignored::at(&dir, above, ignored);
        }
    }
    let hidden = Hidden::of(&opened.place.guarded);
    Ok(Walk { start, path: real, ignored, scope, hidden, threads: usual_threads(), stop })
}

fn directory(dir: &Dir, path: &Path) -> std::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(dir.open_dir(path)?.into())
}
