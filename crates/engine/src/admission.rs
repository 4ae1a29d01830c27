//! Admission: who gets a slot, and who waits for one in which place.
//!
//! All caps of a run (global, user, provider) are taken together or none. A run whose caps are full is skipped, not
//! waited for. Resumed before new, deeper before shallower, then first come first served.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant, UserId},
    runs::{Load, ProviderLoad},
    time::Timestamp,
};

/// What a run's caps are counted by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) tenant: Tenant,
    pub(crate) user: UserId,
    pub(crate) provider: Arc<str>,
}

/// Why a run waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// It had one before: it was parked, or its process ended.
    Resumed,
    /// It never had one.
    New,
}

/// A place in the queue; smaller goes first.
type Order = (Class, Reverse<u32>, u64);

/// A run in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) key: RunKey,
    pub(crate) lane: Lane,
    pub(crate) class: Class,
    pub(crate) depth: u32,
    /// How long it waits, if it is a root that never had a slot.
    pub(crate) patience: Option<Duration>,
    /// When it gives up. While the gate is held nobody does.
    pub(crate) gives_up: Option<Timestamp>,
}

impl Ticket {
    fn is_new_root(&self) -> bool {
        self.class == Class::New && self.depth == 0
    }
}

/// More roots wait than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull {
    pub(crate) queued: u32,
    /// How many of those that came would have waited.
    pub(crate) more: usize,
}

/// The caps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caps {
    pub(crate) global: u32,
    /// For each user; no cap when absent.
    pub(crate) per_user: Option<u32>,
    pub(crate) providers: HashMap<String, u32>,
    /// Roots that may wait.
    pub(crate) queue_depth: u32,
}

/// The slots and the queue.
pub(crate) struct Gate {
    caps: Caps,
    active: u32,
    users: HashMap<(Tenant, UserId), u32>,
    providers: HashMap<Arc<str>, u32>,
    lanes: HashMap<Lane, BTreeMap<Order, Ticket>>,
    heads: BTreeMap<Order, Lane>,
    places: HashMap<RunKey, (Lane, Order)>,
    /// New roots in the queue, or promised a place in it.
    waiting_roots: u32,
    arrivals: u64,
    held: bool,
}

impl Gate {
    pub(crate) fn new(caps: Caps) -> Self {
        Self {
            caps,
            active: 0,
            users: HashMap::new(),
            providers: HashMap::new(),
            lanes: HashMap::new(),
            heads: BTreeMap::new(),
            places: HashMap::new(),
            waiting_roots: 0,
            arrivals: 0,
            held: false,
        }
    }

    /// From here on nobody new gets a slot.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    /// Whether nobody new gets a slot.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Slots are given out again. Those in the queue waited for that and not for a slot, so their patience counts from
    /// now: says when they give up.
    pub(crate) fn open(&mut self, now: Timestamp) -> Vec<(RunKey, Timestamp)> {
        self.held = false;
        let tickets = self.lanes.values_mut().flat_map(BTreeMap::values_mut);
        tickets
            .filter_map(|ticket| {
                ticket.gives_up = ticket.patience.map(|patience| now.after(patience));
                Some((ticket.key.clone(), ticket.gives_up?))
            })
            .collect()
    }

    /// Says when a run gives up that begins to wait now; while the gate is held, that is not known yet.
    pub(crate) fn count_patience(&self, ticket: &mut Ticket, now: Timestamp) -> Option<Timestamp> {
        ticket.gives_up = ticket.patience.filter(|_| !self.held).map(|patience| now.after(patience));
        ticket.gives_up
    }

    /// For each new root a slot, or a promised place in the queue: all of them or none.
    pub(crate) fn reserve(&mut self, lanes: &[Lane]) -> Result<Vec<bool>, QueueFull> {
        let mut granted = Vec::with_capacity(lanes.len());
        // A slot that is free for somebody in the queue is not for those who come now.
        let passed_over = self.heads.values().any(|lane| self.has_room(lane));
        for lane in lanes {
            let free = !self.held && !passed_over && !self.lanes.contains_key(lane) && self.has_room(lane);
            if free {
                self.take(lane);
            } else {
                self.waiting_roots += 1;
            }
            granted.push(free);
        }
        if self.waiting_roots > self.caps.queue_depth && granted.contains(&false) {
            for (lane, granted) in lanes.iter().zip(&granted) {
                match granted {
                    true => self.release(lane),
                    false => self.break_promise(),
                }
            }
            let more = granted.iter().filter(|granted| !**granted).count();
            return Err(QueueFull { queued: self.waiting_roots, more });
        }
        Ok(granted)
    }

    /// Whether so many could come and be gone again, and nobody would be refused for it.
    pub(crate) fn has_ample_room(&self, count: usize) -> bool {
        self.waiting_roots as usize + count <= self.caps.queue_depth as usize / 2
    }

    /// Takes back a promised place in the queue: the run was not accepted after all.
    pub(crate) fn break_promise(&mut self) {
        self.waiting_roots -= 1;
    }

    /// Queues a run. A new root's place was promised by `reserve`, or it comes back after a restart.
    pub(crate) fn enqueue(&mut self, ticket: Ticket, promised: bool) {
        if self.places.contains_key(&ticket.key) {
            return;
        }
        if ticket.is_new_root() && !promised {
            self.waiting_roots += 1;
        }
        self.arrivals += 1;
        let order = (ticket.class, Reverse(ticket.depth), self.arrivals);
        self.places.insert(ticket.key.clone(), (ticket.lane.clone(), order));
        let lane = self.lanes.entry(ticket.lane.clone()).or_default();
        if let Some((head, _)) = lane.first_key_value() {
            self.heads.remove(head);
        }
        let name = ticket.lane.clone();
        lane.insert(order, ticket);
        if let Some((head, _)) = lane.first_key_value() {
            self.heads.insert(*head, name);
        }
    }

    /// The next run that gets a slot, which is taken for it.
    pub(crate) fn grant(&mut self) -> Option<Ticket> {
        if self.held || self.active >= self.caps.global {
            return None;
        }
        let lane = self.heads.values().find(|lane| self.has_room(lane))?.clone();
        let key = self.lanes.get(&lane)?.first_key_value()?.1.key.clone();
        let ticket = self.remove(&key)?;
        self.take(&ticket.lane);
        Some(ticket)
    }

    /// Takes a run out of the queue, if it is there.
    pub(crate) fn remove(&mut self, key: &RunKey) -> Option<Ticket> {
        let (name, order) = self.places.remove(key)?;
        let lane = self.lanes.get_mut(&name)?;
        let ticket = lane.remove(&order)?;
        if self.heads.remove(&order).is_some()
            && let Some((head, _)) = lane.first_key_value()
        {
            self.heads.insert(*head, name.clone());
        }
        if lane.is_empty() {
            self.lanes.remove(&name);
        }
        if ticket.is_new_root() {
            self.waiting_roots -= 1;
        }
        Some(ticket)
    }

    /// Takes a slot whether or not there is room: for a run that is resumed alone.
    pub(crate) fn take(&mut self, lane: &Lane) {
        self.active += 1;
        *self.users.entry((lane.tenant.clone(), lane.user.clone())).or_default() += 1;
        *self.providers.entry(lane.provider.clone()).or_default() += 1;
    }

    /// Gives a slot back.
    pub(crate) fn release(&mut self, lane: &Lane) {
        self.active -= 1;
        let user = (lane.tenant.clone(), lane.user.clone());
        if let Some(count) = self.users.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&user);
            }
        }
        if let Some(count) = self.providers.get_mut(&lane.provider) {
            *count -= 1;
        }
    }

    /// Places in the queue, from 1.
    pub(crate) fn positions(&self, wanted: &[RunKey]) -> BTreeMap<RunId, u64> {
        let mut queue: Vec<(&Order, &RunKey)> = self.places.iter().map(|(key, (_, order))| (order, key)).collect();
        if wanted.iter().all(|key| !self.places.contains_key(key)) {
            return BTreeMap::new();
        }
        queue.sort_unstable();
        let all: HashMap<&RunKey, u64> = queue.into_iter().zip(1..).map(|((_, key), place)| (key, place)).collect();
        wanted.iter().filter_map(|key| Some((key.run, *all.get(key)?))).collect()
    }

    /// How full it is.
    pub(crate) fn load(&self) -> Load {
        let mut providers: BTreeMap<String, ProviderLoad> = BTreeMap::new();
        for (provider, cap) in &self.caps.providers {
            providers.entry(provider.clone()).or_default().max_concurrent = Some(u64::from(*cap));
        }
        for (provider, active) in &self.providers {
            providers.entry(provider.to_string()).or_default().active = u64::from(*active);
        }
        for (lane, queue) in &self.lanes {
            providers.entry(lane.provider.to_string()).or_default().queued += queue.len() as u64;
        }
        Load {
            active: u64::from(self.active),
            queued: self.places.len() as u64,
            max_concurrent_runs: u64::from(self.caps.global),
            providers,
        }
    }

    fn has_room(&self, lane: &Lane) -> bool {
        self.active < self.caps.global
            && self.caps.per_user.is_none_or(|cap| {
                self.users.get(&(lane.tenant.clone(), lane.user.clone())).is_none_or(|held| *held < cap)
            })
            && self
                .caps
                .providers
                .get(&*lane.provider)
                .is_none_or(|cap| self.providers.get(&lane.provider).is_none_or(|held| held < cap))
    }
}

#[cfg(test)]
mod tests;
