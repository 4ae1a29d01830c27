//! The writer's end of its queue: a thread that waits for work, and not for longer than it wants to.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

/// A queue that one thread reads.
pub(super) struct Inbox<T> {
    queue: mpsc::Receiver<T>,
    waker: Waker,
}

/// What a wait ends with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    Here(T),
    /// Nothing came in time.
    Quiet,
    /// Nothing will come any more.
    Ended,
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
        Self { queue, waker: Arc::new(Unpark(thread::current())).into() }
    }

    /// The next one; waits for it, for as long as `patience` says.
    pub(super) fn next(&mut self, patience: Option<Duration>) -> Next<T> {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut context = Context::from_waker(&self.waker);
        loop {
            match self.queue.poll_recv(&mut context) {
                Poll::Ready(Some(next)) => return Next::Here(next),
                Poll::Ready(None) => return Next::Ended,
                Poll::Pending => {}
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return Next::Quiet,
                Some(left) => thread::park_timeout(left),
            }
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
}
