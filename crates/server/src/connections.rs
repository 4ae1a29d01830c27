//! Open connections: who holds them, and which one is closed when another peer needs its place.
//!
//! A peer is the caller whose token a connection has shown, else the remote address. A connection can be closed in
//! favour of another one while no request is being answered on it, or while its peer takes no bytes. The peer with the
//! most connections loses its oldest one first.

mod pieces;
mod progress;
mod upload;

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::Uri;
use bytes::Bytes;
use drawloom_contract::{
    caller::{Caller, Proof},
    ids::{Tenant, UserId},
};
use tokio_util::sync::CancellationToken;

pub(crate) use pieces::{PIECE, Pieces};
pub(crate) use progress::Progress;
pub(crate) use upload::Upload;

use crate::app::Limits;

/// Who shares a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Peer {
    Address(IpAddr),
    Caller(Tenant, UserId),
}

/// All open connections.
pub(crate) struct Connections {
    limits: Limits,
    /// The most connections that have shown no token.
    strangers: usize,
    /// Whether the server has no token: then no caller can be told from another one.
    open: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: BTreeMap<u64, Entry>,
    /// Counts connections and changes of their phase: a smaller number is earlier.
    ticks: u64,
    strangers: usize,
}

struct Entry {
    peer: Peer,
    phase: Phase,
    /// Whether the peer has taken no bytes for a while.
    stalled: bool,
    /// When the phase began.
    since: u64,
    /// The large answer or event that the peer has not taken as a whole.
    held: Option<Held>,
    request: Option<Uri>,
    close: CancellationToken,
}

/// Bytes in memory that wait for a peer. Followers of one run share the bytes of an event: then `at` is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    /// Where they are.
    at: usize,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Between requests, or in the middle of a request's head.
    Idle,
    /// In the middle of a request's body.
    Receiving,
    /// From the end of a request to the end of its answer.
    Busy,
}

impl Entry {
    fn is_stranger(&self) -> bool {
        matches!(self.peer, Peer::Address(_))
    }

    fn can_be_closed(&self) -> bool {
        self.phase != Phase::Busy || self.stalled
    }
}

/// One open connection. Dropping it makes its place free.
pub(crate) struct Connection {
    id: u64,
    connections: Arc<Connections>,
    close: CancellationToken,
}

impl Connections {
    pub(crate) fn new(limits: &Limits, open: bool) -> Arc<Self> {
        let strangers = if open { limits.connections } else { limits.connections.saturating_sub(limits.reserved) };
        Arc::new(Self { limits: limits.clone(), strangers, open, state: Mutex::default() })
    }

    /// A place for a new connection, if there is one or one can be made.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let mut state = self.lock();
        if state.strangers >= self.strangers {
            state.close_one(Entry::is_stranger, "connections")?;
        }
        if state.all.len() >= self.limits.connections {
            state.close_one(|_| true, "connections")?;
        }
        let close = CancellationToken::new();
        let id = state.tick();
        state.strangers += 1;
        let entry = Entry {
            peer: Peer::Address(address),
            phase: Phase::Idle,
            stalled: false,
            since: id,
            held: None,
            request: None,
            close: close.clone(),
        };
        state.all.insert(id, entry);
        Some(Connection { id, connections: self.clone(), close })
    }

    /// Closes the connection whose request began first, of those whose body has not come as a whole. One that is alone
    /// is kept: it is the one that asks.
    pub(crate) fn close_oldest_upload(&self) {
        let mut state = self.lock();
        let receives = |entry: &Entry| entry.phase == Phase::Receiving;
        if state.all.values().filter(|entry| receives(entry)).count() > 1 {
            state.close_one(receives, "bodies");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Closes the connection that can be missed most, of those that `eligible` names.
    fn close_one(&mut self, eligible: impl Fn(&Entry) -> bool, limit: &'static str) -> Option<()> {
        let mut counts: HashMap<&Peer, usize> = HashMap::new();
        for entry in self.all.values() {
            *counts.entry(&entry.peer).or_default() += 1;
        }
        let candidates = self.all.iter().filter(|(_, entry)| eligible(entry) && entry.can_be_closed());
        let (id, _) = candidates.max_by_key(|(_, entry)| {
            let count = counts.get(&entry.peer).copied().unwrap_or_default();
            (entry.is_stranger(), count, std::cmp::Reverse(entry.since))
        })?;
        let entry = self.remove(*id)?;
        let request = entry.request.as_ref().map(Uri::path);
        match entry.stalled {
            true => tracing::warn!(limit, request, "dropped a stalled connection to make room for another"),
            false => tracing::debug!(limit, request, "closed an idle connection to make room for another"),
        }
        entry.close.cancel();
        Some(())
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.all.remove(&id)?;
        self.strangers -= usize::from(entry.is_stranger());
        Some(entry)
    }

    /// Whether `more` would be too much beside what these connections hold. What they share counts once, and one answer is
    /// sent however long it is.
    fn is_over(&self, limit: usize, more: Held, of: impl Fn(&Entry) -> bool) -> bool {
        let held = self.all.values().filter(|entry| of(entry)).filter_map(|entry| entry.held);
        let held: HashMap<usize, usize> = held.map(|held| (held.at, held.bytes)).collect();
        let sum: usize = held.values().sum();
        sum > 0 && !held.contains_key(&more.at) && sum + more.bytes > limit
    }
}

impl Connection {
    /// Cancelled when the connection must end.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.close
    }

    /// A request's head has come.
    pub(crate) fn begin(&self, request: Uri) {
        self.change(|entry, tick| {
            (entry.phase, entry.since, entry.request) = (Phase::Receiving, tick, Some(request));
        });
    }

    /// The request has come as a whole.
    fn received(&self) {
        self.change(|entry, tick| (entry.phase, entry.since) = (Phase::Busy, tick));
    }

    /// The answer is complete, or handed to the socket as a whole.
    fn end(&self) {
        self.change(|entry, tick| (entry.phase, entry.since) = (Phase::Idle, tick));
    }

    fn set_stalled(&self, stalled: bool) {
        self.change(|entry, _| entry.stalled = stalled);
    }

    /// What is being answered, for the log.
    pub(crate) fn request(&self) -> Option<Uri> {
        self.connections.lock().all.get(&self.id)?.request.clone()
    }

    /// Notes whose token the connection has shown. Fails when that caller has all the connections it may have.
    pub(crate) fn identify(&self, caller: &Caller) -> Result<(), TooMany> {
        if caller.proof == Proof::Open {
            return Ok(());
        }
        let limit = self.connections.limits.connections_per_caller;
        let mut state = self.connections.lock();
        let peer = Peer::Caller(caller.tenant.clone(), caller.subject.clone());
        match state.all.get(&self.id) {
            Some(entry) if entry.peer != peer => {}
            Some(_) | None => return Ok(()),
        }
        if state.all.values().filter(|entry| entry.peer == peer).count() >= limit {
            state.close_one(|entry| entry.peer == peer, "connections_per_caller").ok_or(TooMany { limit })?;
        }
        let Some(entry) = state.all.get_mut(&self.id) else { return Ok(()) };
        let was_stranger = entry.is_stranger();
        entry.peer = peer;
        state.strangers -= usize::from(was_stranger);
        Ok(())
    }

    /// Counts the bytes of a large answer or event until [`Self::release`]. Connections whose peers do not read are closed to
    /// make room.
    fn hold(&self, data: &Bytes) -> Result<(), TooMuch> {
        let Connections { limits, open, .. } = &*self.connections;
        let mut state = self.connections.lock();
        let Some(peer) = state.all.get(&self.id).map(|entry| entry.peer.clone()) else { return Ok(()) };
        let more = Held { at: data.as_ptr().addr(), bytes: data.len() };
        let of_peer = |entry: &Entry| entry.peer == peer;
        let unread = |entry: &Entry| entry.held.is_some() && entry.stalled;
        // Callers of an open server cannot be told apart.
        while !open && state.is_over(limits.answers_per_caller, more, of_peer) {
            let closed = state.close_one(|entry| of_peer(entry) && unread(entry), "answers_per_caller");
            closed.ok_or(TooMuch { limit: limits.answers_per_caller })?;
        }
        while state.is_over(limits.answers, more, |_| true) {
            state.close_one(unread, "answers").ok_or(TooMuch { limit: limits.answers })?;
        }
        if let Some(entry) = state.all.get_mut(&self.id) {
            entry.held = Some(more);
        }
        Ok(())
    }

    fn release(&self) {
        if let Some(entry) = self.connections.lock().all.get_mut(&self.id) {
            entry.held = None;
        }
    }

    fn change(&self, how: impl FnOnce(&mut Entry, u64)) {
        let mut state = self.connections.lock();
        let tick = state.tick();
        // One that was closed in favour of another is not there any more.
        if let Some(entry) = state.all.get_mut(&self.id) {
            how(entry, tick);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.connections.lock().remove(self.id));
    }
}

/// A caller has all the connections it may have, and each is answering a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection limit reached: all {limit} connections of this caller are busy")]
pub(crate) struct TooMany {
    limit: usize,
}

/// Too many bytes of answers wait for peers that are reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("response buffer limit reached: {limit} bytes of large responses are being sent")]
pub(crate) struct TooMuch {
    limit: usize,
}

#[cfg(test)]
mod tests;
