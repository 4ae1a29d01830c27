//! Bytes that are held in memory for callers who take them slowly: who holds how many, and who gets no more.
//!
//! A stream holds little and reads again from the store when its caller takes more; what it may hold at most is reserved when it begins and
//! given back when it ends. Large answers and events are counted where they are sent (`connections.rs`), with the same limits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::{
    caller::{Caller, Proof},
    failure::{Failure, FailureKind},
    ids::{Tenant, UserId},
};
use futures::{Stream, StreamExt as _};

use crate::app::Limits;

/// The most that one stream holds beside the event that is being sent: changes that wait, and a part of what it reads.
pub(crate) const STREAM_BYTES: usize = 64 * 1024;

/// Room for what callers hold.
pub(crate) struct Room {
    all: usize,
    per_caller: usize,
    /// Callers of an open server cannot be told apart.
    is_open: bool,
    held: Mutex<HashMap<(Tenant, UserId), usize>>,
}

/// A part of the room. Dropping it gives it back.
pub(crate) struct Reserved {
    room: Arc<Room>,
    caller: (Tenant, UserId),
    bytes: usize,
}

impl Room {
    pub(crate) fn new(limits: &Limits, is_open: bool) -> Arc<Self> {
        let (all, per_caller) = (limits.answers, limits.answers_per_caller);
        Arc::new(Self { all, per_caller, is_open, held: Mutex::default() })
    }

    /// Reserves room for a caller, or says that there is none.
    pub(crate) fn reserve(self: &Arc<Self>, caller: &Caller, bytes: usize) -> Result<Reserved, Failure> {
        let name = (caller.tenant.clone(), caller.subject.clone());
        let mut held = self.lock();
        let own = held.get(&name).copied().unwrap_or_default();
        let is_bounded = !self.is_open && caller.proof != Proof::Open;
        if is_bounded && own + bytes > self.per_caller {
            return Err(too_many("this caller's streams", self.per_caller));
        }
        if held.values().sum::<usize>() + bytes > self.all {
            return Err(too_many("all streams", self.all));
        }
        held.insert(name.clone(), own + bytes);
        drop(held);
        Ok(Reserved { room: self.clone(), caller: name, bytes })
    }

    /// Bytes that are reserved now.
    #[cfg(test)]
    fn reserved(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Tenant, UserId), usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    /// A stream that keeps the room until it ends.
    pub(crate) fn hold<T>(
        self,
        stream: impl Stream<Item = T> + Send + 'static,
    ) -> impl Stream<Item = T> + Send + 'static {
        stream.map(move |item| {
            let _held = &self;
            item
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut held = self.room.lock();
        if let Some(bytes) = held.get_mut(&self.caller) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                held.remove(&self.caller);
            }
        }
    }
}

fn too_many(whose: &str, limit: usize) -> Failure {
    let message = format!("too many bytes are held for {whose}; the limit is {limit}");
    Failure::new(FailureKind::Throttled, "too_many_bytes", message)
        .with_hint("read or close streams that are open, then try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Caller {
        Caller { subject: name.parse().expect("a user"), ..Caller::open(Proof::SharedToken) }
    }

    #[test]
    fn a_caller_has_its_share_and_gives_it_back() {
        let limits = Limits { answers: 300, answers_per_caller: 200, ..Limits::DEFAULT };
        let room = Room::new(&limits, false);
        let (ann, bob) = (caller("ann"), caller("bob"));
        let held: Vec<Reserved> = (0..2).map(|_| room.reserve(&ann, 100).expect("there is room")).collect();
        assert_eq!(room.reserve(&ann, 100).err().expect("her share is used").code, "too_many_bytes");
        let other = room.reserve(&bob, 100).expect("his share is free");
        assert_eq!(room.reserve(&bob, 100).err().expect("all is used").code, "too_many_bytes");
        drop(held);
        assert_eq!(room.reserved(), 100);
        drop((room.reserve(&ann, 200).expect("it is free again"), other));
        assert_eq!(room.reserved(), 0);
    }

    #[test]
    fn callers_of_an_open_server_share_the_whole() {
        let limits = Limits { answers: 300, answers_per_caller: 200, ..Limits::DEFAULT };
        let room = Room::new(&limits, true);
        let open = Caller::open(Proof::Open);
        let held: Vec<Reserved> = (0..3).map(|_| room.reserve(&open, 100).expect("there is room")).collect();
        assert!(room.reserve(&open, 1).is_err());
        drop(held);
    }
}
