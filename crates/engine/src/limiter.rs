//! One limiter for each credential, shared by all runs. It learns the provider's concurrency limit from throttled calls.
//!
//! Slow start: it begins with a few concurrent calls and doubles until the provider throttles one. Then it keeps to the
//! number that was accepted and probes for one more, the less often the more probes were throttled, and not when a
//! throttled run would have to back off for longer than the queue lasts. A run that finds no capacity is queued: it is
//! parked, its slot is free, and the end of a call wakes the next runs in order. A few admitted runs are on standby with
//! their turn journaled, so that one of them starts as soon as a call ends. The provider's word comes first: a credential
//! is closed when no call is accepted any more, or when the provider says that its quota is used up.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drawloom_contract::{ids::RunKey, time::Instant};
use tokio::sync::oneshot;

/// The concurrency limit before the first call.
const FIRST_LIMIT: u32 = 8;

/// Rounds of accepted calls before the limit is probed: after the first throttled call, and at most.
const PROBE_ROUNDS: (u32, u32) = (4, 64);

/// A woken run that has not come after this long waits for something else; another is woken as well.
const WAKE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a credential is closed when the provider gives no retry time: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The concurrency limits of all credentials.
#[derive(Default)]
pub(crate) struct Limiter {
    credentials: Mutex<HashMap<String, Credential>>,
}

/// Whether a run may make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It counts until it ends its call or releases its place.
    Admit,
    /// It will be woken.
    Queue,
}

/// How a call ended, for the limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// `closed_until` is set when the provider says that its quota is used up.
    Accepted {
        took: Duration,
        closed_until: Option<Instant>,
    },
    Throttled {
        retry_after: Option<Duration>,
    },
    /// It says nothing about the limit: it was abandoned, or failed for another reason.
    Other,
}

/// What to do after a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// Queued runs that may call now.
    pub(crate) wake: Vec<RunKey>,
    /// When to call `poll`.
    pub(crate) poll_at: Option<Instant>,
}

/// What a run on standby is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Make the call.
    Start,
    /// The credential was closed: go back to the queue.
    Requeue,
}

/// A credential's limit and load, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CredentialState {
    pub(crate) in_flight: u32,
    /// Unknown until a call was throttled.
    pub(crate) limit: Option<u32>,
    pub(crate) waiting: u32,
}

struct Credential {
    limit: u32,
    /// Until the first throttled call.
    slow_start: bool,
    in_flight: u32,
    /// Runs that are in flight, on standby, or about to be.
    admitted: u32,
    /// Admitted runs that wait for a call to end, in order, by ticket.
    standby: VecDeque<(u64, oneshot::Sender<Signal>)>,
    next_ticket: u64,
    /// Runs that were woken and have not come yet, and when. No place is kept for them: a run that waits for a slot must
    /// not keep others from calling.
    woken: HashMap<RunKey, Instant>,
    /// Queued runs in order; those not in `waiting` any more were removed.
    queue: VecDeque<RunKey>,
    waiting: HashSet<RunKey>,
    /// Calls accepted at the limit since it last changed.
    accepted_at_limit: u32,
    probe_rounds: u32,
    /// A moving average.
    average_call: Duration,
    last_retry_after: Duration,
    /// Whether the limit is one above the last known good one.
    probing: bool,
    closed_until: Option<Instant>,
    /// The next time for which a caller of `poll` sleeps.
    next_poll: Option<Instant>,
    /// Closings in a row for which the provider gave no retry time.
    backoffs: u32,
}

impl Default for Credential {
    fn default() -> Self {
        Self {
            limit: FIRST_LIMIT,
            slow_start: true,
            in_flight: 0,
            admitted: 0,
            standby: VecDeque::new(),
            next_ticket: 0,
            woken: HashMap::new(),
            queue: VecDeque::new(),
            waiting: HashSet::new(),
            accepted_at_limit: 0,
            probe_rounds: PROBE_ROUNDS.0,
            average_call: Duration::ZERO,
            last_retry_after: Duration::ZERO,
            probing: false,
            closed_until: None,
            next_poll: None,
            backoffs: 0,
        }
    }
}

impl Limiter {
    /// Admits a run, or queues it until it is woken or removed.
    pub(crate) fn acquire(&self, credential: &str, run: &RunKey, now: Instant) -> Decision {
        let mut credentials = self.lock();
        if !credentials.contains_key(credential) {
            credentials.insert(credential.to_owned(), Credential::default());
        }
        let Some(state) = credentials.get_mut(credential) else { return Decision::Admit };
        let woken = state.woken.remove(run).is_some();
        if !state.is_closed(now) && (woken || state.waiting.is_empty()) && state.has_capacity() {
            state.admitted += 1;
            return Decision::Admit;
        }
        if state.waiting.insert(run.clone()) {
            match woken {
                true => state.queue.push_front(run.clone()),
                false => state.queue.push_back(run.clone()),
            }
        }
        Decision::Queue
    }

    /// An admitted run is ready to call. `None`: it calls now. Otherwise it is on standby, with a ticket, until the signal.
    pub(crate) fn start_call(&self, credential: &str, now: Instant) -> Option<(u64, oneshot::Receiver<Signal>)> {
        let mut credentials = self.lock();
        let state = credentials.get_mut(credential)?;
        if !state.is_closed(now) && state.standby.is_empty() && state.in_flight < state.limit {
            state.in_flight += 1;
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        state.next_ticket += 1;
        match state.is_closed(now) {
            true => {
                let _ = sender.send(Signal::Requeue);
            }
            false => state.standby.push_back((state.next_ticket, sender)),
        }
        Some((state.next_ticket, receiver))
    }

    /// An admitted run gives up its place without a call; `started` says that it had been told to start.
    pub(crate) fn release(&self, credential: &str, ticket: Option<u64>, started: bool, now: Instant) -> Next {
        let mut credentials = self.lock();
        let Some(state) = credentials.get_mut(credential) else { return Next::default() };
        state.standby.retain(|(at, _)| Some(*at) != ticket);
        state.in_flight = state.in_flight.saturating_sub(u32::from(started));
        state.admitted = state.admitted.saturating_sub(1);
        state.next(now)
    }

    /// A call has ended.
    pub(crate) fn end_call(&self, credential: &str, ending: CallEnd, now: Instant) -> Next {
        let mut credentials = self.lock();
        let Some(state) = credentials.get_mut(credential) else { return Next::default() };
        let at_limit = state.admitted >= state.limit || !state.waiting.is_empty() || !state.woken.is_empty();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.admitted = state.admitted.saturating_sub(1);
        match ending {
            CallEnd::Accepted { took, closed_until } => {
                state.backoffs = 0;
                state.average_call = match state.average_call.is_zero() {
                    true => took,
                    false => (state.average_call * 7 + took) / 8,
                };
                if at_limit {
                    state.accepted_at_full_load();
                }
                if let Some(time) = closed_until.filter(|time| now < *time) {
                    state.close(time);
                }
            }
            CallEnd::Throttled { retry_after } => state.throttled(retry_after, now),
            CallEnd::Other => {}
        }
        state.next(now)
    }

    /// What may go on now at a credential.
    pub(crate) fn poll(&self, credential: &str, now: Instant) -> Next {
        self.lock().get_mut(credential).map(|state| state.next(now)).unwrap_or_default()
    }

    /// Whether the provider accepts no call at all: it says so now, or it accepted none when it was last asked.
    pub(crate) fn is_refusing(&self, credential: &str, now: Instant) -> bool {
        self.lock().get(credential).is_some_and(|state| state.is_closed(now) || state.backoffs > 0)
    }

    pub(crate) fn is_queued(&self, run: &RunKey) -> bool {
        self.lock().values().any(|state| state.waiting.contains(run))
    }

    /// Removes a run that ended or was stopped from all queues.
    pub(crate) fn remove(&self, run: &RunKey, now: Instant) -> Next {
        let mut next = Next::default();
        for state in self.lock().values_mut() {
            state.waiting.remove(run);
            if state.woken.remove(run).is_some() {
                next = state.next(now);
            }
        }
        next
    }

    pub(crate) fn state(&self, credential: &str) -> CredentialState {
        self.lock().get(credential).map_or_else(CredentialState::default, |state| CredentialState {
            in_flight: state.in_flight,
            limit: (!state.slow_start).then_some(state.limit),
            waiting: u32::try_from(state.waiting.len() + state.woken.len()).unwrap_or(u32::MAX),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Credential>> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credential {
    fn is_closed(&self, now: Instant) -> bool {
        self.closed_until.is_some_and(|time| now < time)
    }

    fn close(&mut self, until: Instant) {
        self.closed_until = self.closed_until.max(Some(until));
        for (_, sender) in self.standby.drain(..) {
            // A run that is being dropped needs no signal.
            let _ = sender.send(Signal::Requeue);
        }
    }

    /// Whether another run may be admitted.
    fn has_capacity(&self) -> bool {
        self.has_capacity_beside(0)
    }

    /// The same, when so many woken runs have not come yet.
    fn has_capacity_beside(&self, woken: usize) -> bool {
        let woken = u32::try_from(woken).unwrap_or(u32::MAX);
        self.admitted.saturating_add(woken) < self.limit.saturating_add(1 + self.limit / 8)
    }

    /// A call was accepted while the limit was used up, so the limit may be higher.
    fn accepted_at_full_load(&mut self) {
        if self.slow_start {
            self.limit = self.limit.saturating_add(1);
            return;
        }
        self.accepted_at_limit += 1;
        if self.probing && self.accepted_at_limit >= self.limit {
            // A whole round was accepted at the higher limit, so probe sooner the next time.
            self.probing = false;
            self.probe_rounds = (self.probe_rounds / 2).max(1);
        }
        let rounds = self.accepted_at_limit / self.limit.max(1);
        if rounds >= self.probe_rounds && (self.is_probe_worthwhile() || rounds >= PROBE_ROUNDS.1) {
            self.limit = self.limit.saturating_add(1);
            self.accepted_at_limit = 0;
            self.probing = true;
        }
    }

    /// Whether the queue keeps the credential busy for longer than a throttled probe has to back off.
    fn is_probe_worthwhile(&self) -> bool {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        self.average_call.saturating_mul(waiting) / self.limit.max(1) >= self.last_retry_after * 2
    }

    fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        let accepted = self.in_flight;
        self.limit = match self.slow_start {
            true => self.limit.min(accepted),
            false => self.limit.min(accepted.max(self.limit.saturating_sub(1))),
        }
        .max(1);
        self.slow_start = false;
        self.last_retry_after = retry_after.unwrap_or_default();
        self.accepted_at_limit = 0;
        if std::mem::take(&mut self.probing) {
            self.probe_rounds = self.probe_rounds.saturating_mul(2).min(PROBE_ROUNDS.1);
        }
        if accepted > 0 {
            return;
        }
        // The only call was throttled, so concurrency was not the reason: close, then start again from one.
        self.slow_start = true;
        let wait = retry_after.unwrap_or_else(|| {
            let wait = BACKOFF.0.saturating_mul(1 << self.backoffs.min(8)).min(BACKOFF.1);
            self.backoffs += 1;
            wait
        });
        self.close(now.after(wait));
    }

    /// Starts runs on standby and wakes queued runs, in order.
    fn next(&mut self, now: Instant) -> Next {
        if self.is_closed(now) {
            let poll_at = self.closed_until.filter(|time| self.next_poll != Some(*time));
            self.next_poll = self.closed_until;
            return Next { wake: Vec::new(), poll_at };
        }
        while self.in_flight < self.limit
            && let Some((_, sender)) = self.standby.pop_front()
        {
            // A run that is being dropped sees the signal and releases the call.
            self.in_flight += 1;
            if sender.send(Signal::Start).is_err() {
                self.in_flight -= 1;
            }
        }
        self.woken.retain(|_, since| now < since.after(WAKE_TIMEOUT));
        let mut wake = Vec::new();
        while self.has_capacity_beside(self.woken.len())
            && let Some(run) = self.queue.pop_front()
        {
            if self.waiting.remove(&run) {
                self.woken.insert(run.clone(), now);
                wake.push(run);
            }
        }
        let poll_at = match self.waiting.is_empty() {
            true => None,
            false => self.woken.values().min().map(|since| since.after(WAKE_TIMEOUT)),
        };
        let poll_at =
            poll_at.filter(|time| self.next_poll.is_none_or(|next_poll| next_poll <= now || *time < next_poll));
        self.next_poll = poll_at.or(self.next_poll);
        Next { wake, poll_at }
    }
}

#[cfg(test)]
mod tests;
