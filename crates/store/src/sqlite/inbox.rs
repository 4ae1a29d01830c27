//! The writer's end of its queue: a thread waits for work, and is told when none came for a while.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use tokio::sync::mpsc;

/// A queue that one thread reads.
pub(super) struct Inbox<T> {
    queue: mpsc::Receiver<T>,
    waker: Waker,
    alarm: Alarm,
}

/// What a wait ends with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    Here(T),
    /// Nothing came for at least the time that the reader gave.
    Quiet,
    /// Nothing will come any more.
    Ended,
}

/// Wakes the reader after a time, by a thread of its own. A timer in every wait of the reader costs several microseconds each; this one is
/// set at most once in that time, however many waits there are.
#[derive(Default)]
struct Alarm {
    thread: Option<Sender<Duration>>,
    rang: Arc<AtomicBool>,
    state: AlarmState,
}

#[derive(Default, Clone, Copy)]
enum AlarmState {
    #[default]
    Off,
    Set,
    /// It is set, and something came since.
    Disturbed,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T> Inbox<T> {
    /// For the thread that calls this.
    pub(super) fn new(queue: mpsc::Receiver<T>) -> Self {
        Self { queue, waker: Arc::new(Unpark(thread::current())).into(), alarm: Alarm::default() }
    }

    /// Waits for the next one. With `quiet`, the wait also ends when nothing came for that long, or at most twice that long.
    pub(super) fn next(&mut self, quiet: Option<Duration>) -> Next<T> {
        let mut context = Context::from_waker(&self.waker);
        loop {
            match self.queue.poll_recv(&mut context) {
                Poll::Ready(Some(next)) => {
                    self.alarm.disturb();
                    return Next::Here(next);
                }
                Poll::Ready(None) => return Next::Ended,
                Poll::Pending => {}
            }
            if let Some(quiet) = quiet
                && self.alarm.was_quiet(quiet)
            {
                return Next::Quiet;
            }
            thread::park();
        }
    }

    /// The next one, if it is there.
    pub(super) fn here(&mut self) -> Option<T> {
        self.queue.try_recv().ok()
    }

    /// Takes nothing more than what is there.
    pub(super) fn close(&mut self) {
        self.queue.close();
    }
}

impl Alarm {
    /// Something came.
    fn disturb(&mut self) {
        if let AlarmState::Set = self.state {
            self.state = AlarmState::Disturbed;
        }
    }

    /// Whether a time has passed in which nothing came. Otherwise the alarm is set, and wakes the thread that calls this.
    fn was_quiet(&mut self, quiet: Duration) -> bool {
        let is_disturbed = match self.state {
            AlarmState::Off => true,
            AlarmState::Set | AlarmState::Disturbed if !self.rang.swap(false, Ordering::Acquire) => return false,
            AlarmState::Set => false,
            AlarmState::Disturbed => true,
        };
        self.state = if is_disturbed { self.set(quiet) } else { AlarmState::Off };
        !is_disturbed
    }

    fn set(&mut self, quiet: Duration) -> AlarmState {
        if self.thread.is_none() {
            self.thread = self.start();
        }
        match self.thread.as_ref().map(|thread| thread.send(quiet)) {
            Some(Ok(())) => AlarmState::Set,
            // The next wait tries again.
            Some(Err(_)) | None => AlarmState::Off,
        }
    }

    fn start(&self) -> Option<Sender<Duration>> {
        let (sender, requests) = channel::<Duration>();
        let (rang, reader) = (Arc::clone(&self.rang), thread::current());
        let alarm = move || {
            while let Ok(time) = requests.recv() {
                // No request comes while one is set, so this ends with the time or with the reader.
                if let Err(RecvTimeoutError::Disconnected) = requests.recv_timeout(time) {
                    return;
                }
                rang.store(true, Ordering::Release);
                reader.unpark();
            }
        };
        match thread::Builder::new().name("quiet".into()).spawn(alarm) {
            Ok(_) => Some(sender),
            Err(error) => {
                tracing::warn!(%error, "cannot start the thread that says when the writer has nothing to do");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_what_comes_with_its_time_or_with_the_last_sender() {
        let (sender, queue) = mpsc::channel(4);
        let mut inbox = Inbox::new(queue);
        assert_eq!(inbox.next(Some(Duration::ZERO)), Next::Quiet);
        sender.try_send(1).expect("room");
        assert_eq!(inbox.next(Some(Duration::ZERO)), Next::Here(1));
        let later = thread::spawn(move || sender.blocking_send(2));
        assert_eq!(inbox.next(None), Next::Here(2));
        later.join().expect("no panic").expect("room");
        assert_eq!(inbox.next(None), Next::Ended);
        assert_eq!(inbox.here(), None);
    }

    #[test]
    fn what_comes_while_the_alarm_is_set_puts_it_off() {
        let (sender, queue) = mpsc::channel(4);
        let mut inbox = Inbox::new(queue);
        sender.try_send(1).expect("room");
        let quiet = Some(Duration::from_millis(20));
        assert_eq!(inbox.next(quiet), Next::Here(1));
        let waits = thread::spawn(move || {
            // Comes after the alarm was set by the wait below, or before: both are the next one.
            sender.blocking_send(2).expect("room");
            sender
        });
        assert_eq!(inbox.next(quiet), Next::Here(2));
        let sender = waits.join().expect("no panic");
        assert_eq!(inbox.next(quiet), Next::Quiet);
        assert_eq!(inbox.next(quiet), Next::Quiet);
        drop(sender);
        assert_eq!(inbox.next(quiet), Next::Ended);
    }

    #[test]
    fn an_alarm_that_rings_after_something_came_is_set_again() {
        let mut alarm = Alarm::default();
        assert!(!alarm.was_quiet(Duration::ZERO));
        alarm.disturb();
        while !alarm.rang.load(Ordering::Acquire) {
            thread::park();
        }
        assert!(!alarm.was_quiet(Duration::ZERO), "something came since it was set");
        while !alarm.rang.load(Ordering::Acquire) {
            thread::park();
        }
        assert!(alarm.was_quiet(Duration::ZERO));
    }
}
