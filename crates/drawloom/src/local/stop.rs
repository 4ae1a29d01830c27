//! Ends the server of a data directory and waits until it is gone.

use std::time::Duration;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use crate::data_dir::{DataDir, ServerFile};

/// How long a server that gives way to another one may take: its steps in flight have ten seconds by default.
pub(crate) const WAY_TIME: Duration = Duration::from_secs(30);

/// Asks `server`, which owns `data`, to stop, and returns when its process has ended, or with `TIMEDOUT` after `limit`. Says
/// whether it owned the directory.
pub(crate) async fn stop(data: &DataDir, server: &ServerFile, limit: Option<Duration>) -> Result<bool, Errno> {
    let pid = i32::try_from(server.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    // The process that is held now is the one that owns the directory: the number was not given to another one meanwhile.
    if !data.is_open_in(server.pid) {
        return Ok(false);
    }
    pidfd_send_signal(&process, Signal::TERM)?;
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let ended = tokio::task::spawn_blocking(move || poll(&mut [PollFd::new(&process, PollFlags::IN)], limit.as_ref()));
    match ended.await.expect("waiting for a process does not panic")? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(true),
    }
}
