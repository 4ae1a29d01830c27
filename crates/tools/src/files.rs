//! What the file tools share: the way from a path to an open directory, and errors that say which path.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use cap_std::fs::Dir;
use drawloom_contract::{
    gate::Gate,
    tool::{Gates, Mode, Place, ToolCard, ToolContext, ToolError},
};
use serde_json::json;

/// A place and its volume's directory, ready for I/O through the handle.
pub(crate) struct Opened {
    pub(crate) dir: Dir,
    pub(crate) place: Place,
}

/// A file tool's card with the volumes of the agent and their modes. Without a volume that it could use, it is not offered.
pub(crate) fn card_for(card: &ToolCard, gates: Gates<'_>, gate: &Gate) -> Result<ToolCard, String> {
    gate.check(&card.name, gates)?;
    let definition = gates.definition;
    let Some(modes) = &definition.volume_modes else { return Ok(card.clone()) };
    let volumes = definition.volumes.iter().map(|name| match modes.get(name) {
        Some(Mode::ReadWrite) => format!("{name} (read-write)"),
        Some(Mode::ReadOnly) | None => format!("{name} (read-only)"),
    });
    let volumes: Vec<String> = volumes.collect();
    let mut card = card.clone();
    card.description = format!("{} Volumes: {}.", card.description, volumes.join(", "));
    if let Some(volume) = Arc::make_mut(&mut card.input_schema).pointer_mut("/properties/volume") {
        *volume = json!({ "type": "string", "enum": definition.volumes, "description": volume["description"] });
    }
    Ok(card)
}

/// The file that `path` names, for this call's gates.
pub(crate) fn open(context: &ToolContext, volume: Option<&str>, path: &str) -> Result<Opened, ToolError> {
    let opened = open_any(context, volume, path)?;
    match opened.place.path.as_os_str().is_empty() {
        true => Err(ToolError::Invalid(format!(
            "{path}: this is the root of the volume `{}`, not a file",
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
    let place = context.volumes.locate(context.holder(), volume, path)?;
    let root = place.root.try_clone().map_err(|error| failed(&place.path, &error))?;
    Ok(Opened { dir: Dir::from_std_file(root), place })
}

/// A path in a list of results: as it is, or quoted when it could be taken for something else.
pub(crate) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains(|c: char| c.is_control()) => text.to_owned(),
        Some(_) | None => format!("{path:?} (quoted: the name contains special characters)"),
    }
}

/// What the file system said of a path in a volume.
pub(crate) fn failed(path: &Path, error: &io::Error) -> ToolError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => ToolError::Failed(format!("{path}: no such file in the volume")),
        io::ErrorKind::PermissionDenied => ToolError::Denied(format!("{path}: not allowed, or outside the volume")),
        _ => ToolError::Failed(format!("{path}: {error}")),
    }
}

/// Sets a flag when the call is dropped, so that its threads stop.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does blocking work off the runtime's threads; the flag tells it when its caller stopped waiting. A panic in it goes
/// on in the caller.
pub(crate) async fn until_dropped<T: Send + 'static>(work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let guard = StopOnDrop(stop.clone());
    let done = tokio::task::spawn_blocking(move || work(stop)).await;
    drop(guard);
    match done {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A file that fails when the caller of the read stopped waiting.
pub(crate) struct Stoppable<'a, R> {
    pub(crate) file: R,
    pub(crate) stop: &'a AtomicBool,
}

impl<R: io::Read> io::Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.load(Ordering::Relaxed) {
            // Not the kind that readers try again by themselves.
            true => Err(io::Error::other("the caller stopped waiting")),
            false => self.file.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests;
