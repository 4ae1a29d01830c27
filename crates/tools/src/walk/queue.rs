//! Work that makes more work, shared by threads: the last comes first, so that few directories are open at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The queue. It is over when it is empty and no worker is busy with what could fill it again.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// A worker is busy.
pub(super) struct Guard<'a, T>(&'a Queue<T>);

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.done();
    }
}

struct State<T> {
    tasks: Vec<T>,
    working: usize,
}

impl<T> Queue<T> {
    /// A queue with its first piece of work.
    pub(super) fn new(first: T) -> Self {
        Self { state: Mutex::new(State { tasks: vec![first], working: 0 }), changed: Condvar::new() }
    }

    /// More work.
    pub(super) fn add(&self, tasks: Vec<T>) {
        if !tasks.is_empty() {
            self.lock().tasks.extend(tasks);
            self.changed.notify_all();
        }
    }

    /// The next piece of work, as soon as there is one; nothing when all is done. The worker that takes one holds a `guard` meanwhile.
    pub(super) fn next(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop() {
                state.working += 1;
                return Some(task);
            }
            if state.working == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Held by a worker; a panic releases it too, so that no worker waits for ever.
    pub(super) fn guard(&self) -> Guard<'_, T> {
        Guard(self)
    }

    fn done(&self) {
        let mut state = self.lock();
        state.working -= 1;
        if state.working == 0 && state.tasks.is_empty() {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A thread that panicked has left whole tasks behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
