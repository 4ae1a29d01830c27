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

/// How many descriptors a request has: control, output, reports, directory.
pub(crate) const DESCRIPTORS: usize = 4;

/// Starts supervisors of commands.
#[derive(Debug, Default)]
pub(crate) struct Spawner(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    process: Child,
    requests: OwnedFd,
}

impl Spawner {
    /// Has a supervisor started that gets these descriptors. `program` is how to start the launcher that stays, which may have
    /// been killed.
    pub(crate) fn start(&self, mut program: Command, descriptors: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &mut *running {
            match known.ask(descriptors) {
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    known.process.wait()?;
                }
                asked => return asked,
            }
        }
        let (requests, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let program = program.env_clear().current_dir("/").stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        running.insert(Running { process: program.spawn()?, requests }).ask(descriptors)
    }
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
        let running = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { mut process, requests }) = running {
            // It ends when this is closed.
            drop(requests);
            let _ = process.wait();
        }
    }
}
