//! Short ownership of a data directory by a command that changes something while no server runs.

use std::{fs::File, time::Duration};

use drawloom_contract::time::Clock as _;

use crate::{
    clock::SystemClock,
    commands::status::server_of,
    data_dir::{Error, Lock},
    exit::CommandError,
    local::lock_start,
    project::Project,
};

/// How long a server that starts or stops is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// Ownership of the directory. While it lasts, commands that would start a server wait.
pub(super) struct Exclusive {
    pub(super) lock: Lock,
    pub(super) start: File,
}

/// Takes ownership for `command`; nothing when a server has it.
pub(super) async fn own(project: &Project, command: &str) -> Result<Option<Exclusive>, CommandError> {
    let until = SystemClock.now().after(PATIENCE);
    loop {
        let start = lock_start(&project.data).await.map_err(CommandError::from)?;
        match project.data.lock(command) {
            Ok(lock) => {
                project.note(&lock)?;
                return Ok(Some(Exclusive { lock, start }));
            }
            Err(Error::InUse { server: Some(_), .. }) if server_of(&project.data).is_some() => return Ok(None),
            Err(error @ Error::InUse { .. }) if !error.may_pass() || SystemClock.now() >= until => {
                return Err(error.into());
            }
            Err(Error::InUse { .. }) => {}
            Err(error @ Error::Io { .. }) => return Err(error.into()),
        }
        // Others must be able to start meanwhile.
        drop(start);
        SystemClock.sleep_until(SystemClock.now().after(PAUSE)).await;
    }
}
