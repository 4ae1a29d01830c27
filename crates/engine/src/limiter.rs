//! One limiter for each credential, shared by all runs: how many calls at once it bears is learned from what it refuses.
//!
//! It starts with a few calls at once and doubles while that is borne. After the first refusal it keeps to what was borne
//! and asks for one more now and then, the more seldom the more often that was refused, and not when the run that would
//! be refused had to wait for longer than all others together. A run that finds no room is parked and gives its slot
//! back; whoever makes room says which runs come next, in order. One or a few stand at the door with their turn
//! journaled, so that the place of a call that ends is taken at once. What the provider itself says comes first: it
//! closes the credential when nothing is borne any more, or when it says that its calls are used up.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drawloom_contract::{ids::RunKey, time::Instant};
use tokio::sync::oneshot;

/// Calls at once before anything was learned.
const FIRST_LIMIT: u32 = 8;

/// Rounds of borne calls before one more is tried, after the first refusal and at most.
const PATIENCE: (u32, u32) = (4, 64);

/// How long a run that was woken is waited for before another is woken beside it.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// How long a credential is left alone that bears nothing and does not say for how long: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The limiters of all credentials.
#[derive(Default)]
pub(crate) struct Limiter {
    credentials: Mutex<HashMap<String, Line>>,
}

/// Whether a run may call now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// It may come to the door, and counts until it leaves.
    Go,
    /// It is in the queue, and will be woken.
    Wait,
}

/// What a call came to, for the limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was answered; the provider may say that this was the last one for a while.
    Borne {
        /// How long it took.
        took: Duration,
        /// Until when there will be no more.
        closed_until: Option<Instant>,
    },
    /// It was refused because there are too many.
    Refused {
        /// How long the provider wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// It says nothing about how much is borne: it was abandoned, or failed for another reason.
    Other,
}

/// What follows from the end of a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// Runs that may call now.
    pub(crate) wake: Vec<RunKey>,
    /// When to ask again what may go on.
    pub(crate) look_again: Option<Instant>,
}

/// Whether somebody at the door may call, or has to go and wait like the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Call.
    Call,
    /// The credential was closed.
    Back,
}

/// How a credential stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) in_flight: u32,
    /// The most at once, once something was refused.
    pub(crate) limit: Option<u32>,
    pub(crate) waiting: u32,
}

struct Line {
    /// Most calls at once.
    limit: u32,
    /// Until the first refusal.
    growing: bool,
    /// Calls in flight.
    calling: u32,
    /// Those who were let in: in flight or at the door.
    taken: u32,
    /// Who stands at the door, in order; the number names the place.
    door: VecDeque<(u64, oneshot::Sender<Word>)>,
    next_place: u64,
    /// Who was woken and has not come yet, and when. A place is not kept for them: one that waits for a slot must not
    /// keep others from calling.
    woken: HashMap<RunKey, Instant>,
    /// Who waits, in order; those who were forgotten are only in here.
    queue: VecDeque<RunKey>,
    waiting: HashSet<RunKey>,
    /// Calls borne at the limit since it last changed.
    borne_at_limit: u32,
    patience: u32,
    /// How long a call takes, about.
    takes: Duration,
    /// How long the provider last told somebody to stay away.
    told: Duration,
    /// Whether the limit is one above what was last known to be borne.
    probing: bool,
    closed_until: Option<Instant>,
    /// The end of a closing that somebody looks out for.
    watched: Option<Instant>,
    /// Closings in a row for which the provider gave no time.
    backoffs: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            limit: FIRST_LIMIT,
            growing: true,
            calling: 0,
            taken: 0,
            door: VecDeque::new(),
            next_place: 0,
            woken: HashMap::new(),
            queue: VecDeque::new(),
            waiting: HashSet::new(),
            borne_at_limit: 0,
            patience: PATIENCE.0,
            takes: Duration::ZERO,
            told: Duration::ZERO,
            probing: false,
            closed_until: None,
            watched: None,
            backoffs: 0,
        }
    }
}

impl Limiter {
    /// A run wants to call. One that has to wait is in the queue until it is woken or forgotten.
    pub(crate) fn enter(&self, credential: &str, run: &RunKey, now: Instant) -> Entrance {
        let mut credentials = self.lock();
        if !credentials.contains_key(credential) {
            credentials.insert(credential.to_owned(), Line::default());
        }
        let Some(line) = credentials.get_mut(credential) else { return Entrance::Go };
        let woken = line.woken.remove(run).is_some();
        if !line.is_closed(now) && (woken || line.waiting.is_empty()) && line.has_room() {
            line.taken += 1;
            return Entrance::Go;
        }
        if line.waiting.insert(run.clone()) {
            match woken {
                true => line.queue.push_front(run.clone()),
                false => line.queue.push_back(run.clone()),
            }
        }
        Entrance::Wait
    }

    /// Somebody who was let in wants to call now. Gives a place at the door when others call already, and the word of
    /// what to do when it comes.
    pub(crate) fn call(&self, credential: &str, now: Instant) -> Option<(u64, oneshot::Receiver<Word>)> {
        let mut credentials = self.lock();
        let line = credentials.get_mut(credential)?;
        if !line.is_closed(now) && line.door.is_empty() && line.calling < line.limit {
            line.calling += 1;
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        line.next_place += 1;
        match line.is_closed(now) {
            true => {
                let _ = sender.send(Word::Back);
            }
            false => line.door.push_back((line.next_place, sender)),
        }
        Some((line.next_place, receiver))
    }

    /// Somebody who was let in goes without having called; `called` says that the door had told them to.
    pub(crate) fn give_up(&self, credential: &str, place: Option<u64>, called: bool, now: Instant) -> Next {
        let mut credentials = self.lock();
        let Some(line) = credentials.get_mut(credential) else { return Next::default() };
        line.door.retain(|(at, _)| Some(*at) != place);
        line.calling = line.calling.saturating_sub(u32::from(called));
        line.taken = line.taken.saturating_sub(1);
        line.next(now)
    }

    /// A call has ended.
    pub(crate) fn leave(&self, credential: &str, ending: Ending, now: Instant) -> Next {
        let mut credentials = self.lock();
        let Some(line) = credentials.get_mut(credential) else { return Next::default() };
        let at_limit = line.taken >= line.limit || !line.waiting.is_empty() || !line.woken.is_empty();
        line.calling = line.calling.saturating_sub(1);
        line.taken = line.taken.saturating_sub(1);
        match ending {
            Ending::Borne { took, closed_until } => {
                line.backoffs = 0;
                line.takes = match line.takes.is_zero() {
                    true => took,
                    false => (line.takes * 7 + took) / 8,
                };
                if at_limit {
                    line.borne();
                }
                if let Some(time) = closed_until.filter(|time| now < *time) {
                    line.close(time);
                }
            }
            Ending::Refused { retry_after } => line.refused(retry_after, now),
            Ending::Other => {}
        }
        line.next(now)
    }

    /// What may go on now at a credential that was closed.
    pub(crate) fn look(&self, credential: &str, now: Instant) -> Next {
        self.lock().get_mut(credential).map(|line| line.next(now)).unwrap_or_default()
    }

    /// Whether a run is in a queue here.
    pub(crate) fn holds(&self, run: &RunKey) -> bool {
        self.lock().values().any(|line| line.waiting.contains(run))
    }

    /// A run will not come: it ended, or was stopped. Its place is somebody else's.
    pub(crate) fn forget(&self, run: &RunKey, now: Instant) -> Next {
        let mut next = Next::default();
        for line in self.lock().values_mut() {
            line.waiting.remove(run);
            if line.woken.remove(run).is_some() {
                next = line.next(now);
            }
        }
        next
    }

    /// How a credential stands.
    pub(crate) fn standing(&self, credential: &str) -> Standing {
        self.lock().get(credential).map_or_else(Standing::default, |line| Standing {
            in_flight: line.calling,
            limit: (!line.growing).then_some(line.limit),
            waiting: u32::try_from(line.waiting.len() + line.woken.len()).unwrap_or(u32::MAX),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn is_closed(&self, now: Instant) -> bool {
        self.closed_until.is_some_and(|time| now < time)
    }

    fn close(&mut self, until: Instant) {
        self.closed_until = self.closed_until.max(Some(until));
        for (_, sender) in self.door.drain(..) {
            // Whoever is just going needs no word.
            let _ = sender.send(Word::Back);
        }
    }

    /// Whether another may come to the door.
    fn has_room(&self) -> bool {
        self.has_room_beside(0)
    }

    /// The same, when so many are on their way.
    fn has_room_beside(&self, coming: usize) -> bool {
        let coming = u32::try_from(coming).unwrap_or(u32::MAX);
        self.taken.saturating_add(coming) < self.limit.saturating_add(1 + self.limit / 8)
    }

    /// A call was borne while there were as many as allowed: more may be.
    fn borne(&mut self) {
        if self.growing {
            self.limit = self.limit.saturating_add(1);
            return;
        }
        self.borne_at_limit += 1;
        if self.probing && self.borne_at_limit >= self.limit {
            // A whole round at one more: it is borne, so ask sooner for the next.
            self.probing = false;
            self.patience = (self.patience / 2).max(1);
        }
        let rounds = self.borne_at_limit / self.limit.max(1);
        if rounds >= self.patience && (self.is_worth_a_refusal() || rounds >= PATIENCE.1) {
            self.limit = self.limit.saturating_add(1);
            self.borne_at_limit = 0;
            self.probing = true;
        }
    }

    /// Whether those who wait would keep the credential busy for as long as somebody who is refused has to stay away.
    fn is_worth_a_refusal(&self) -> bool {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        self.takes.saturating_mul(waiting) / self.limit.max(1) >= self.told * 2
    }

    fn refused(&mut self, retry_after: Option<Duration>, now: Instant) {
        let borne = self.calling;
        self.limit = match self.growing {
            true => self.limit.min(borne),
            false => self.limit.min(borne.max(self.limit.saturating_sub(1))),
        }
        .max(1);
        self.growing = false;
        self.told = retry_after.unwrap_or_default();
        self.borne_at_limit = 0;
        if std::mem::take(&mut self.probing) {
            self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
        }
        if borne > 0 {
            return;
        }
        // Nothing is borne, so it was not the number at once that was too large: begin again from one.
        self.growing = true;
        let wait = retry_after.unwrap_or_else(|| {
            let wait = BACKOFF.0.saturating_mul(1 << self.backoffs.min(8)).min(BACKOFF.1);
            self.backoffs += 1;
            wait
        });
        self.close(now.after(wait));
    }

    /// Lets call who stands at the door, and wakes who waits, in order.
    fn next(&mut self, now: Instant) -> Next {
        if self.is_closed(now) {
            let look_again = self.closed_until.filter(|time| self.watched != Some(*time));
            self.watched = self.closed_until;
            return Next { wake: Vec::new(), look_again };
        }
        while self.calling < self.limit
            && let Some((_, sender)) = self.door.pop_front()
        {
            // Whoever is just going finds the word and gives the call back.
            self.calling += 1;
            if sender.send(Word::Call).is_err() {
                self.calling -= 1;
            }
        }
        // Who does not come soon waits for something else, such as a slot: then somebody else is woken beside them.
        self.woken.retain(|_, since| now < since.after(ON_THE_WAY));
        let mut wake = Vec::new();
        while self.has_room_beside(self.woken.len())
            && let Some(run) = self.queue.pop_front()
        {
            if self.waiting.remove(&run) {
                self.woken.insert(run.clone(), now);
                wake.push(run);
            }
        }
        let look_again = match self.waiting.is_empty() {
            true => None,
            false => self.woken.values().min().map(|since| since.after(ON_THE_WAY)),
        };
        let look_again = look_again.filter(|time| self.watched.is_none_or(|watched| watched <= now || *time < watched));
        self.watched = look_again.or(self.watched);
        Next { wake, look_again }
    }
}

#[cfg(test)]
mod tests;
