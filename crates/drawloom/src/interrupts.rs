//! Ctrl-C (and SIGTERM and SIGHUP) in a command that started runs: the first one cancels them, the second one leaves.
//!
//! A line that says that a run is cancelled is printed only after that is journaled. The number of signals is kept, so it
//! does not matter in which moment one comes.

use std::{cell::Cell, pin::pin, time::Duration};

use drawloom_contract::{
    ids::RunId,
    time::{Clock as _, Instant},
};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    clock::{SystemClock, SystemEntropy},
    commands::Session,
    connect::{self, Connection, Need},
    exit::{CommandError, Exit},
    output::{Format, Style},
    signals::StopSignals,
};

/// The signals that this command got, counted.
pub(crate) struct Interrupts {
    count: watch::Receiver<(u32, u8)>,
    /// Whether the user was told that a cancel is under way.
    told: Cell<bool>,
    _listener: AbortOnDropHandle<()>,
}

/// The number of SIGHUP.
const HANGUP: u8 = 1;

/// Signals that come within this time are one. No person is so quick.
const TOGETHER: Duration = Duration::from_millis(2);

impl Interrupts {
    /// Counts from now on.
    pub(crate) fn listen() -> Self {
        let mut signals = StopSignals::listen();
        let (counter, count) = watch::channel((0, 0));
        let listener = tokio::spawn(async move {
            let mut last: Option<Instant> = None;
            loop {
                let number = signals.next().await;
                let now = SystemClock.now();
                // `timeout` sends one stop twice, to the process and to its group.
                if last.is_some_and(|last| now.since(last) < TOGETHER) {
                    continue;
                }
                last = Some(now);
                counter.send_modify(|(count, first)| {
                    *first = if *count == 0 { number } else { *first };
                    *count += 1;
                });
            }
        });
        Self { count, told: Cell::new(false), _listener: AbortOnDropHandle::new(listener) }
    }

    /// Returns once there was a signal.
    pub(crate) async fn first(&self) {
        self.reached(1).await;
    }

    /// Returns once there were two.
    async fn second(&self) {
        self.reached(2).await;
    }

    async fn reached(&self, wanted: u32) {
        // The listener lives as long as this.
        drop(self.count.clone().wait_for(|(count, _)| *count >= wanted).await);
    }

    /// Whether there was a signal.
    pub(crate) fn any(&self) -> bool {
        self.count.borrow().0 > 0
    }

    /// Whether the first signal said that the terminal was closed.
    pub(crate) fn is_hangup(&self) -> bool {
        matches!(*self.count.borrow(), (1.., HANGUP))
    }

    /// The exit code of a command that the first signal stopped.
    pub(crate) fn exit(&self) -> Exit {
        Exit::Signal(self.count.borrow().1)
    }

    /// Like [`connect::with`]. A signal that comes before there is a connection ends the command: nothing was started.
    pub(crate) async fn connected<T>(
        &self,
        session: &Session,
        command: &str,
        need: Need,
        work: impl AsyncFnOnce(&Connection) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let begun = Cell::new(false);
        let nothing = || CommandError::failed("interrupted", "interrupted before anything was started");
        let connected = connect::with(session, command, need, async |connection| {
            begun.set(true);
            match self.any() {
                true => Err(nothing()),
                false => work(connection).await,
            }
        });
        let interrupted = async {
            self.first().await;
            if begun.get() {
                // From here on the work itself sees the signals.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = interrupted => Err(nothing()),
            done = connected => done,
        }
    }

    /// The answer to a request that starts runs. A first signal waits for it, because what was accepted must be cancelled; a
    /// second one leaves. `key` is the request's idempotency key.
    pub(crate) async fn answered<T>(
        &self,
        session: &Session,
        connection: &Connection,
        key: &str,
        answer: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let mut answer = pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = self.first() => {}
        }
        self.tell(session);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = self.second() => Err(CommandError { exit: self.exit(), ..connection.left_unanswered(session, key) }),
        }
    }

    /// What `work` comes to, or nothing when a signal came first.
    pub(crate) async fn unless_first<T>(
        &self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<Option<T>, CommandError> {
        tokio::select! {
            biased;
            () = self.first() => Ok(None),
            done = work => done.map(Some),
        }
    }

    /// What `cancelling` comes to, which cancels runs and waits until they have ended. A second signal leaves, with an error that
    /// says what becomes of the runs that are then `unfinished`.
    pub(crate) async fn cancelled<T>(
        &self,
        session: &Session,
        connection: &Connection,
        unfinished: impl Fn() -> Vec<RunId>,
        cancelling: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        self.tell(session);
        let mut cancelling = pin!(cancelling);
        tokio::select! {
            biased;
            done = &mut cancelling => return done.map_err(|error| connection.unconfirmed(session, error, &unfinished())),
            () = self.second() => {}
        }
        // Inside this process it takes the time of a few commits; after that the journal says what became of the runs.
        let rests = tokio::select! {
            biased;
            done = &mut cancelling => return done,
            rests = connection.rest() => rests,
        };
        Err(CommandError { exit: self.exit(), ..connection.left(session, &unfinished(), rests).await })
    }

    /// Says once that a cancel is under way. It does not say that anything is cancelled.
    fn tell(&self, session: &Session) {
        if !self.told.replace(true) && session.output.format() == Format::Human {
            session.output.note(session.output.beside(Style::Notice, "cancelling; Ctrl-C again leaves at once"));
        }
    }
}

/// An idempotency key for a request whose user gave none: what the request started can be found by it.
pub(crate) fn own_key() -> Result<String, CommandError> {
    let id = RunId::mint(SystemClock.wall(), &SystemEntropy::default())
        .map_err(|error| CommandError::failed("no_entropy", error.to_string()))?;
    Ok(format!("cli-{}", id.to_string().trim_start_matches("r_")))
}
