//! Who is connected, and since when nobody is.

use std::sync::{Mutex, MutexGuard, PoisonError};

use drawloom_contract::time::{Clock, Instant};

/// The connections that are open, counted.
#[derive(Debug, Default)]
pub struct Presence(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    connections: usize,
    last_left: Option<Instant>,
}

/// A connection that is open, until this is dropped.
pub(crate) struct Here<'a> {
    presence: &'a Presence,
    clock: &'a dyn Clock,
}

impl Presence {
    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.lock().connections
    }

    /// When a connection was closed last.
    pub fn last_left(&self) -> Option<Instant> {
        self.lock().last_left
    }

    pub(crate) fn enter<'a>(&'a self, clock: &'a dyn Clock) -> Here<'a> {
        self.lock().connections += 1;
        Here { presence: self, clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let mut state = self.presence.lock();
        state.connections -= 1;
        state.last_left = Some(self.clock.now());
    }
}
