//! The launcher that stays, from drawloom's side. It is started for the first command and ends with the last [`crate::Launcher`].

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};

/// How many descriptors a request has: control, output, reports, directory, input, errors.
pub(crate) const DESCRIPTORS: usize = 6;

/// Starts supervisors of commands.
#[derive(Debug, Default)]
pub(crate) struct Spawner(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: Option<Running>,
    /// Launchers that were replaced, until they have ended.
    replaced: Vec<Child>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    requests: OwnedFd,
}

impl Spawner {
    /// Has a supervisor started that gets these descriptors. `program` is how to start the launcher that stays: the one before
    /// may have been killed, or have more requests than its socket holds. Then it works them off and ends.
    pub(crate) fn start(&self, mut program: Command, descriptors: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &state.running {
            match known.ask(descriptors) {
                Err(error) if is_past_use(&error) => {}
                asked => return asked,
            }
        }
        let before = state.running.take().map(|Running { process, .. }| process);
        state.replaced.extend(before);
        state.replaced.retain_mut(|process| matches!(process.try_wait(), Ok(None)));
        let (requests, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let program = program.env_clear().current_dir("/").stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        state.running.insert(Running { process: program.spawn()?, requests }).ask(descriptors)
    }
}

/// Whether another launcher must be started.
fn is_past_use(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
    matches!(error.kind(), BrokenPipe | ConnectionReset | WouldBlock)
}

impl Running {
    fn ask(&self, descriptors: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(self.requests.as_fd(), &[IoSlice::new(&[0])], &mut ancillary, flags)?;
        Ok(())
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        let State { running, replaced } = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        // They end when their sockets are closed.
        let last = running.map(|Running { process, .. }| process);
        for mut process in replaced.into_iter().chain(last) {
            let _ = process.wait();
        }
    }
}
