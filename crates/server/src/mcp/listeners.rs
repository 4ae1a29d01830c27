//! Who reads the stream of a session that belongs to no call, so that nothing is said into the void.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

/// The readers of each session.
#[derive(Default)]
pub(super) struct Listeners(Mutex<HashMap<String, watch::Sender<usize>>>);

impl Listeners {
    /// Notes a reader until the guard goes.
    pub(super) fn enter(self: &Arc<Self>, session: &str) -> Listening {
        self.of(session, |count| count.send_modify(|count| *count += 1));
        Listening { listeners: self.clone(), session: session.to_owned() }
    }

    /// Returns when somebody reads.
    pub(super) async fn somebody(&self, session: &str) {
        // Goes after the receiver, however this ends.
        let _tidy = Tidy(self, session);
        let mut count = self.of(session, watch::Sender::subscribe);
        // The sender stays while there is a receiver.
        _ = count.wait_for(|count| *count > 0).await;
    }

    fn of<T>(&self, session: &str, with: impl FnOnce(&watch::Sender<usize>) -> T) -> T {
        with(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(session.to_owned()).or_default())
    }

    /// Forgets a session that nobody reads and nobody waits for.
    fn tidy(&self, session: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(session).is_some_and(|count| *count.borrow() == 0 && count.receiver_count() == 0) {
            all.remove(session);
        }
    }
}

struct Tidy<'a>(&'a Listeners, &'a str);

impl Drop for Tidy<'_> {
    fn drop(&mut self) {
        self.0.tidy(self.1);
    }
}

/// Somebody who reads.
pub(super) struct Listening {
    listeners: Arc<Listeners>,
    session: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.of(&self.session, |count| count.send_modify(|count| *count = count.saturating_sub(1)));
        self.listeners.tidy(&self.session);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_session_is_known_while_somebody_reads_or_waits() {
        let all: Arc<Listeners> = Arc::default();
        let mut waits = Box::pin(all.somebody("s"));
        assert!(waits.as_mut().now_or_never().is_none());
        let (one, two) = (all.enter("s"), all.enter("s"));
        drop(one);
        assert!(waits.as_mut().now_or_never().is_some());
        drop((two, waits));
        assert!(all.0.lock().expect("nobody has it").is_empty());
        assert!(all.somebody("s").now_or_never().is_none());
        assert!(all.0.lock().expect("nobody has it").is_empty(), "whoever gave up is forgotten");
    }
}
