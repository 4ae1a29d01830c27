//! What the file tools share: the way from a path to an open directory, and errors that say which path.

use std::{io, path::Path};

use cap_std::fs::Dir;
use drawloom_contract::tool::{Mode, Place, ToolContext, ToolError};

/// A place and its volume's directory, ready for I/O through the handle.
pub(crate) struct Opened {
    pub(crate) dir: Dir,
    pub(crate) place: Place,
}

/// The file that `path` names, for this call's gates.
pub(crate) fn open(context: &ToolContext, volume: Option<&str>, path: &str) -> Result<Opened, ToolError> {
    let opened = open_any(context, volume, path)?;
    match opened.place.path.as_os_str().is_empty() {
        true => Err(ToolError::Invalid(format!(
            "{path}: this is the volume `{}` itself, not a file in it",
            opened.place.volume
        ))),
        false => Ok(opened),
    }
}

/// The file that `path` names, if its volume may be written.
pub(crate) fn open_to_write(context: &ToolContext, volume: Option<&str>, path: &str) -> Result<Opened, ToolError> {
    let opened = open(context, volume, path)?;
    match opened.place.mode {
        Mode::ReadWrite => Ok(opened),
        Mode::ReadOnly => Err(ToolError::Denied(format!("{path}: the volume `{}` is read-only", opened.place.volume))),
    }
}

/// The file or directory that `path` names, the volume itself included.
pub(crate) fn open_any(context: &ToolContext, volume: Option<&str>, path: &str) -> Result<Opened, ToolError> {
    let place = context.volumes.locate(&context.definition, volume, path)?;
    let root = place.root.try_clone().map_err(|error| failed(&place.path, &error))?;
    Ok(Opened { dir: Dir::from_std_file(root), place })
}

/// What the file system said of a path in a volume.
pub(crate) fn failed(path: &Path, error: &io::Error) -> ToolError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => ToolError::Failed(format!("{path}: there is no such file in the volume")),
        io::ErrorKind::PermissionDenied => {
            ToolError::Denied(format!("{path}: not allowed, or it leads out of the volume"))
        }
        _ => ToolError::Failed(format!("{path}: {error}")),
    }
}

/// Does blocking work off the runtime's threads. A panic in it goes on in the caller.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
