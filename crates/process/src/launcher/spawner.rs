//! The launcher that stays: for each command it starts a copy of itself, which is much faster than to start the program.

use std::{
    io::{self, IoSliceMut, Stdin},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
};

use fork::Fork;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{Pid, PidfdFlags, WaitOptions, fchdir, pidfd_open, setsid, wait},
};

use super::{confined::Streams, namespaces, outer};
use crate::{
    report::{Report, tell_to},
    spawner::DESCRIPTORS,
};

/// Starts commands until drawloom closes the socket on standard input.
pub(super) fn main() -> Result<ExitCode, String> {
    // Away from the terminal that drawloom was started in; it fails where this process leads a group already.
    let _ = setsid();
    let requests = io::stdin();
    let mut started = Vec::new();
    while let Some(request) =
        next(&requests, &mut started).map_err(|error| format!("cannot read the request: {error}"))?
    {
        match namespaces::copy() {
            Ok(Fork::Child) => {
                drop(started);
                let streams = request.take_over().map_err(|error| format!("cannot use drawloom's pipe: {error}"))?;
                return outer::main(streams);
            }
            Ok(Fork::Parent(pid)) => started.extend(Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()))),
            Err(error) => {
                let reason = format!("cannot start its supervisor: {error}");
                tell_to(&mut std::fs::File::from(request.reports), &Report::Refused(reason));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What drawloom gives to the supervisor of one command.
struct Request {
    control: OwnedFd,
    output: OwnedFd,
    reports: OwnedFd,
    directory: OwnedFd,
    streams: Streams,
}

impl Request {
    /// Makes them the standard input, output and error, and the directory of this process. Answers what only the command gets.
    fn take_over(self) -> io::Result<Streams> {
        dup2_stdin(self.control)?;
        dup2_stdout(self.output)?;
        dup2_stderr(self.reports)?;
        fchdir(self.directory)?;
        Ok(self.streams)
    }
}

/// Waits for the next request and takes in the copies that have ended. Nothing when drawloom is gone.
fn next(requests: &Stdin, started: &mut Vec<rustix::io::Result<OwnedFd>>) -> rustix::io::Result<Option<Request>> {
    loop {
        let ends = started.iter().flatten().map(|process| PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN));
        let mut watched: Vec<_> =
            [PollFd::from_borrowed_fd(requests.as_fd(), PollFlags::IN)].into_iter().chain(ends).collect();
        match poll(&mut watched, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let mut ready = watched.iter().map(|watched| !watched.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let asked = ready.next().unwrap_or(false);
        started.retain(|process| process.is_ok() && !ready.next().unwrap_or(false));
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if asked {
            return receive(requests);
        }
    }
}

/// Takes one request from the socket.
fn receive(requests: &Stdin) -> rustix::io::Result<Option<Request>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(requests, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let mut take = || descriptors.next().ok_or(Errno::BADMSG);
    let (control, output, reports, directory) = (take()?, take()?, take()?, take()?);
    let streams = Streams { input: take()?, errors: take()? };
    Ok(Some(Request { control, output, reports, directory, streams }))
}
