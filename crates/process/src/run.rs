//! Running a command from drawloom's side: hands it to a launcher, listens, and keeps the time.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::Duration,
};

use drawloom_contract::time::Clock;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::pipe::{Receiver, Sender},
    },
};

use crate::{
    capture::Captured,
    command::{Command, Error, Launcher},
    confinement::Confinement,
    launcher::SPAWN,
    lock::{self, Remains},
    report::{GO, Gone, Report},
    streams::{Follower, Kept, Output},
    sweep,
    usage::Exceeded,
};

/// How long a launcher may take beyond the grace to end everything; the kernel holds what takes longer.
const SLACK: Duration = Duration::from_secs(10);

/// How long output may still come once the launcher is gone. With the launcher all writers are gone, unless it was
/// killed.
const DRAIN: Duration = Duration::from_secs(2);

/// The longest report, in bytes.
const LONGEST_REPORT: usize = 64 * 1024;

/// A command that has ended, with everything it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub end: End,
    /// What it printed, with its secrets: standard output and error in the order of writing, or standard output alone where
    /// they go to files.
    pub output: Captured,
    /// Its standard error, where it goes to a file.
    pub errors: Captured,
    /// How many processes it had left running; they were ended.
    pub left: u32,
    /// The most processes and threads that it was seen to have at once; 0 when they were not counted.
    pub peak: u64,
    /// How it was confined.
    pub confinement: Confinement,
    /// The limit that the kernel held it to without ending it.
    pub limited: Option<Exceeded>,
    /// What could not be cleared up.
    pub trouble: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It took longer than its limit and was ended.
    TimedOut,
    /// It used more than it may and was ended.
    Exceeded(Exceeded),
    /// Its launcher was killed, so that its end is not known. Its namespaces ended with it; without namespaces only the
    /// command's group was killed, and the rest may still run.
    Lost,
}

impl Launcher {
    /// Runs `command` to its end. When the future is dropped before, everything that the command started is ended too.
    pub async fn run(&self, command: &Command, clock: &dyn Clock) -> Result<Finished, Error> {
        self.run_with(command, clock, None).await
    }

    /// The same, and tells every line of its standard output when it comes.
    pub async fn follow(&self, command: &Command, clock: &dyn Clock, to: Follower<'_>) -> Result<Finished, Error> {
        self.run_with(command, clock, Some(to)).await
    }

    async fn run_with(
        &self,
        command: &Command,
        clock: &dyn Clock,
        to: Option<Follower<'_>>,
    ) -> Result<Finished, Error> {
        let order = command.order(self)?;
        let confinement = command.confinement(self)?;
        let (output, errors) = command.output.open(to).await?;
        let mut listener = self
            .start(command, output, errors)
            .map_err(|source| Error::Launcher { program: self.program.clone(), source })?;
        if let Some(control) = &mut listener.control
            && let Err(error) = control.write_all(&order).await
        {
            // Closing the pipe ends the launcher; it cannot have started anything without its order.
            return Err(Error::Broken(error));
        }
        let timed_out = listener.listen(command, clock).await?;
        listener.clear_up(&command.temporary, clock).await;
        finish(timed_out, listener, confinement).await
    }

    fn start<'a>(&self, command: &Command, output: Kept<'a>, errors: Option<Kept<'a>>) -> io::Result<Listener<'a>> {
        let mut program = std::process::Command::new(&self.program);
        program.args(&self.args).arg(SPAWN);
        let (their_control, control) = io::pipe()?;
        let (ours, their_output) = command.output.stream()?;
        let (reports, their_reports) = io::pipe()?;
        let input = command.input.open()?;
        // Where errors are not kept apart, both are one pipe, so that the order of writing is kept.
        let (errors, their_errors) = match errors {
            Some(kept) => {
                let (errors, their_errors) = io::pipe()?;
                let pipe: Pipe = Box::new(Receiver::from_owned_fd(errors.into())?);
                (Listened { pipe: Some(pipe), kept }, their_errors.into())
            }
            None => (Listened { pipe: None, kept: Kept::nothing() }, their_output.try_clone()?),
        };
        let theirs = [
            their_control.as_fd(),
            their_output.as_fd(),
            their_reports.as_fd(),
            command.directory.as_fd(),
            input.as_fd(),
            their_errors.as_fd(),
        ];
        self.spawner.start(program, theirs)?;
        Ok(Listener {
            control: Some(Sender::from_owned_fd(control.into())?),
            output: Listened { pipe: Some(ours), kept: output },
            errors,
            reports: Some(Receiver::from_owned_fd(reports.into())?),
            told: Vec::new(),
            waits_for_word: true,
            supervisor: None,
            killed: false,
        })
    }
}

/// Whether the limit was reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Kept,
    Reached,
}

/// What is being waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Ending,
    Draining,
}

/// Our end of a stream of the command.
type Pipe = Box<dyn AsyncRead + Send + Unpin>;

impl Output {
    /// Our end of the standard output, and the command's.
    ///
    /// A job's is a socket: other than a pipe, it cannot be opened through `/proc/PID/fd`, so that what a job starts has no way to write
    /// into the job's own output unless the job hands it over.
    fn stream(&self) -> io::Result<(Pipe, OwnedFd)> {
        match self {
            Self::Together { .. } => {
                let (ours, theirs) = io::pipe()?;
                Ok((Box::new(Receiver::from_owned_fd(ours.into())?), theirs.into()))
            }
            Self::Files { .. } => {
                let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
                ours.shutdown(std::net::Shutdown::Write)?;
                ours.set_nonblocking(true)?;
                Ok((Box::new(UnixStream::from_std(ours)?), theirs.into()))
            }
        }
    }
}

/// A stream of the command: its pipe while that is open, and what is kept of it.
struct Listened<'a> {
    pipe: Option<Pipe>,
    kept: Kept<'a>,
}

impl Listened<'_> {
    /// Takes in what was read into `buffer`.
    async fn take(&mut self, buffer: &[u8]) -> Result<(), Error> {
        match buffer {
            [] => {
                self.pipe = None;
                Ok(())
            }
            bytes => self.kept.push(bytes).await,
        }
    }
}

struct Listener<'a> {
    /// While this is open the command may run.
    control: Option<Sender>,
    output: Listened<'a>,
    errors: Listened<'a>,
    /// While this is open the launcher is there.
    reports: Option<Receiver>,
    told: Vec<u8>,
    /// Whether the launcher has not been told to start the command yet.
    waits_for_word: bool,
    /// The launcher's process, to kill it.
    supervisor: Option<OwnedFd>,
    /// Whether the launcher took too long and was killed.
    killed: bool,
}

impl Listener<'_> {
    /// Listens until the launcher is gone and has nothing more to say.
    async fn listen(&mut self, command: &Command, clock: &dyn Clock) -> Result<Limit, Error> {
        let (mut buffer, mut second, mut line) = (vec![0; 64 * 1024], vec![0; 16 * 1024], vec![0; 4096]);
        let (mut phase, mut limit) = (Phase::Running, Limit::Kept);
        let mut timer = clock.sleep_awake_until(clock.awake().after(command.time_limit));
        loop {
            if self.output.pipe.is_none() && self.errors.pipe.is_none() && self.reports.is_none() {
                return Ok(limit);
            }
            tokio::select! {
                read = read(&mut self.output.pipe, &mut buffer) => self.output.take(&buffer[..read.map_err(Error::Broken)?]).await?,
                read = read(&mut self.errors.pipe, &mut second) => self.errors.take(&second[..read.map_err(Error::Broken)?]).await?,
                read = read(&mut self.reports, &mut line) => match read.map_err(Error::Broken)? {
                    0 => {
                        self.reports = None;
                        phase = Phase::Draining;
                        timer = clock.sleep_until(clock.now().after(DRAIN));
                        if !self.said_gone() {
                            self.kill_group();
                        }
                    }
                    count if self.told.len() < LONGEST_REPORT => {
                        self.told.extend_from_slice(&line[..count]);
                        self.let_go().await;
                    }
                    _ => {}
                },
                () = &mut timer => match phase {
                    Phase::Running => {
                        limit = Limit::Reached;
                        self.control = None;
                        phase = Phase::Ending;
                        timer = clock.sleep_until(clock.now().after(command.grace + SLACK));
                    }
                    Phase::Ending => {
                        if let Some(supervisor) = &self.supervisor {
                            let _ = pidfd_send_signal(supervisor, Signal::KILL);
                        }
                        self.killed = true;
                        phase = Phase::Draining;
                        timer = clock.sleep_until(clock.now().after(DRAIN));
                    }
                    Phase::Draining => return Ok(limit),
                },
            }
        }
    }

    /// Lets the command start as soon as its lock is held.
    async fn let_go(&mut self) {
        let Some(ready) = self.ready().filter(|_| self.waits_for_word) else { return };
        self.waits_for_word = false;
        // It waits for the signal, so that the number is still its own.
        self.supervisor = pidfd_open(ready, PidfdFlags::empty()).ok();
        if let Some(control) = &mut self.control {
            // A launcher that is gone says more by its end.
            let _ = control.write_all(GO).await;
        }
    }

    /// Clears up for a launcher that had made the temporary directory and was killed.
    async fn clear_up(&mut self, temporary: &Path, clock: &dyn Clock) {
        let left = self.ready().is_some() && lock::path(temporary).exists();
        // A process that ends lets go of its pipes one moment and of the lock the next.
        if left && lock::until_gone(temporary, DRAIN, clock).await == Remains::Nothing {
            let temporary = temporary.to_owned();
            // What fails is tried again by the next start.
            let _ = tokio::task::spawn_blocking(move || sweep::remove(&temporary)).await;
        }
    }

    fn reports(&self) -> impl Iterator<Item = Report> {
        self.told.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
    }

    /// The launcher's process, if it has taken the lock.
    fn ready(&self) -> Option<Pid> {
        self.reports().find_map(|report| if let Report::Ready(pid) = report { Pid::from_raw(pid) } else { None })
    }

    fn said_gone(&self) -> bool {
        self.reports().any(|report| matches!(report, Report::Gone(_) | Report::Refused(_)))
    }

    /// The launcher cannot do it any more: at least the command's own group is ended.
    fn kill_group(&self) {
        let started = self.reports().find_map(|report| match report {
            Report::Started(pid) => Pid::from_raw(pid),
            Report::Ready(_)
            | Report::Serving
            | Report::Refused(_)
            | Report::Limited(_)
            | Report::Gone(_)
            | Report::Trouble(_) => None,
        });
        if let Some(group) = started {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads when there is something to read from, and otherwise never returns.
async fn read<R: AsyncReadExt + Unpin>(from: &mut Option<R>, buffer: &mut [u8]) -> io::Result<usize> {
    match from {
        Some(from) => from.read(buffer).await,
        None => std::future::pending().await,
    }
}

async fn finish(limit: Limit, listener: Listener<'_>, confinement: Confinement) -> Result<Finished, Error> {
    let (mut gone, mut refused, mut trouble, mut limited) = (None::<Gone>, None, None, None);
    for report in listener.reports() {
        match report {
            Report::Ready(_) | Report::Started(_) | Report::Serving => {}
            Report::Refused(reason) => refused = Some(reason),
            Report::Limited(by) => limited = Some(by),
            Report::Gone(how) => gone = Some(how),
            Report::Trouble(what) => trouble = Some(what),
        }
    }
    if let Some(reason) = refused {
        return Err(Error::Refused { reason });
    }
    let end = match (&gone, limit) {
        (Some(Gone { exceeded: Some(exceeded), .. }), _) => End::Exceeded(*exceeded),
        // When it was done and only what it left took so long, it kept its time.
        (Some(Gone { by_itself: false, .. }), Limit::Reached) => End::TimedOut,
        (Some(Gone { code: Some(code), .. }), _) => End::Exited(*code),
        (Some(Gone { signal: Some(signal), .. }), _) => End::Signalled(*signal),
        (Some(Gone { code: None, signal: None, .. }) | None, _) => End::Lost,
    };
    let lost = match confinement.namespaces.is_on() {
        true => "its supervisor and all its processes were killed",
        false => "its supervisor was killed; its processes may still be running",
    };
    let (left, peak) = gone.as_ref().map_or((0, 0), |gone| (gone.left, gone.peak));
    let uncleared = "timed out removing its temporary directory; the server removes the rest at its next start";
    let trouble = trouble.or_else(|| listener.killed.then(|| uncleared.into()));
    let trouble = gone.map_or_else(|| Some(lost.into()), |gone| gone.trouble).or(trouble);
    let output = listener.output.kept.finish().await?;
    let errors = listener.errors.kept.finish().await?;
    Ok(Finished { end, output, errors, left, peak, confinement, limited, trouble })
}
