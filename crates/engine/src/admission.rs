//! Admission: which run gets the next slot.
//!
//! All caps of a run (global, user, provider) are taken together or none. A run whose caps are full is skipped, not
//! waited for. A free slot goes to the tenant that holds the fewest slots, and within the tenant to the user that holds
//! the fewest; among equals, to the one that was served longest ago. Within one user: resumed before new, deeper before
//! shallower, then first in, first out. A run keeps its slot until it parks or ends, so shares even out as slots become
//! free. Where there are several tenants, none of them can hold all slots: one is left for a tenant that comes later.

mod shares;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant, UserId},
    runs::{Load, ProviderLoad},
    time::Instant,
};

use shares::{Order, Queue, Shares, Standing};

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

/// A run in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) key: RunKey,
    pub(crate) lane: Lane,
    pub(crate) class: Class,
    pub(crate) depth: u32,
    /// How long it waits, if it is a root that never had a slot.
    pub(crate) patience: Option<Duration>,
    /// When it gives up. While admission is held, no run does.
    pub(crate) gives_up: Option<Instant>,
}

impl Ticket {
    fn is_new_root(&self) -> bool {
        self.class == Class::New && self.depth == 0
    }

    fn is_new_child(&self) -> bool {
        self.class == Class::New && self.depth > 0
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
    /// For each tenant; no cap when absent.
    pub(crate) per_tenant: Option<u32>,
    /// For each user; no cap when absent.
    pub(crate) per_user: Option<u32>,
    pub(crate) providers: HashMap<String, u32>,
    /// Roots that may wait.
    pub(crate) queue_depth: u32,
}

/// The slots and the queue.
pub(crate) struct Admission {
    caps: Caps,
    active: u32,
    providers: HashMap<Arc<str>, u32>,
    tenants: Shares<Tenant, Shares<UserId, Queue>>,
    places: HashMap<RunKey, (Lane, Order)>,
    /// New roots in the queue, or promised a place in it.
    waiting_roots: u32,
    /// Spawned runs in the queue that never had a slot.
    queued_children: usize,
    /// Counts arrivals and grants: what happened later has the larger number.
    ticks: u64,
    held: bool,
}

impl Admission {
    pub(crate) fn new(caps: Caps) -> Self {
        Self {
            caps,
            active: 0,
            providers: HashMap::new(),
            tenants: Shares::default(),
            places: HashMap::new(),
            waiting_roots: 0,
            queued_children: 0,
            ticks: 0,
            held: false,
        }
    }

    /// From here on no run gets a slot.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    /// Slots are given out again. Those in the queue waited for that and not for a slot, so their patience counts from
    /// now: says when they give up.
    pub(crate) fn open(&mut self, now: Instant) -> Vec<(RunKey, Instant)> {
        self.held = false;
        let users = self.tenants.each_mut().flat_map(Shares::each_mut);
        users
            .flat_map(Queue::tickets_mut)
            .filter_map(|ticket| {
                ticket.gives_up = ticket.patience.map(|patience| now.after(patience));
                Some((ticket.key.clone(), ticket.gives_up?))
            })
            .collect()
    }

    /// Says when a run gives up that begins to wait now; while admission is held, that is not known yet.
    pub(crate) fn count_patience(&self, ticket: &mut Ticket, now: Instant) -> Option<Instant> {
        ticket.gives_up = ticket.patience.filter(|_| !self.held).map(|patience| now.after(patience));
        ticket.gives_up
    }

    /// For each new root a slot, or a promised place in the queue: all of them or none.
    pub(crate) fn reserve(&mut self, lanes: &[Lane]) -> Result<Vec<bool>, QueueFull> {
        let mut granted = Vec::with_capacity(lanes.len());
        // A slot that is free for somebody in the queue is not for those who come now.
        let passed_over = self.next().is_some();
        for lane in lanes {
            let free = !self.held && !passed_over && !self.is_queued(lane) && self.has_room(lane);
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

    /// How many spawned runs wait for their first slot.
    pub(crate) fn queued_children(&self) -> usize {
        self.queued_children
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
        self.queued_children += usize::from(ticket.is_new_child());
        self.ticks += 1;
        let order = (ticket.class, Reverse(ticket.depth), self.ticks);
        let lane = ticket.lane.clone();
        self.places.insert(ticket.key.clone(), (lane.clone(), order));
        self.change(&lane, |_, _, queue| queue.insert(order, ticket));
    }

    /// The next run that gets a slot, which is taken for it.
    pub(crate) fn grant(&mut self) -> Option<Ticket> {
        if self.held {
            return None;
        }
        let key = self.next()?.key.clone();
        let ticket = self.remove(&key)?;
        self.take(&ticket.lane);
        Some(ticket)
    }

    /// Takes a run out of the queue, if it is there.
    pub(crate) fn remove(&mut self, key: &RunKey) -> Option<Ticket> {
        let (lane, order) = self.places.remove(key)?;
        let ticket = self.change(&lane, |_, _, queue| queue.remove(&lane.provider, order))?;
        if ticket.is_new_root() {
            self.waiting_roots -= 1;
        }
        self.queued_children -= usize::from(ticket.is_new_child());
        Some(ticket)
    }

    /// Takes a slot whether or not there is room.
    pub(crate) fn take(&mut self, lane: &Lane) {
        self.active += 1;
        *self.providers.entry(lane.provider.clone()).or_default() += 1;
        self.ticks += 1;
        let now = self.ticks;
        self.change(lane, |tenant, user, _| {
            for standing in [tenant, user] {
                *standing = Standing { held: standing.held + 1, served: now };
            }
        });
    }

    /// Gives a slot back.
    pub(crate) fn release(&mut self, lane: &Lane) {
        self.active -= 1;
        if let Some(count) = self.providers.get_mut(&lane.provider) {
            *count -= 1;
        }
        self.change(lane, |tenant, user, _| {
            tenant.held -= 1;
            user.held -= 1;
        });
    }

    /// Places in the queue, from 1: the order in which runs would get slots if no cap but the global one were full.
    pub(crate) fn positions(&self, wanted: &[RunKey]) -> BTreeMap<RunId, u64> {
        if wanted.iter().all(|key| !self.places.contains_key(key)) {
            return BTreeMap::new();
        }
        let mut places = HashMap::with_capacity(self.places.len());
        let users_of = |users: &Shares<UserId, Queue>| {
            users.waiting().map(|(standing, user, queue)| ((standing, user.clone()), queue.backwards())).collect()
        };
        let tenants = self.tenants.waiting();
        let mut tenants: BTreeMap<_, BTreeMap<_, Vec<RunKey>>> =
            tenants.map(|(standing, tenant, users)| ((standing, tenant.clone()), users_of(users))).collect();
        let mut ticks = self.ticks;
        while let Some(((mut standing, tenant), mut users)) = tenants.pop_first() {
            let Some(((mut user_standing, user), mut queue)) = users.pop_first() else { continue };
            ticks += 1;
            if let Some(key) = queue.pop() {
                places.insert(key, places.len() as u64 + 1);
            }
            if !queue.is_empty() {
                user_standing = Standing { held: user_standing.held + 1, served: ticks };
                users.insert((user_standing, user), queue);
            }
            standing = Standing { held: standing.held + 1, served: ticks };
            tenants.insert((standing, tenant), users);
        }
        wanted.iter().filter_map(|key| Some((key.run, *places.get(key)?))).collect()
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
        for (_, _, users) in self.tenants.waiting() {
            for (provider, queued) in users.waiting().flat_map(|(_, _, queue)| queue.lengths()) {
                providers.entry(provider.to_string()).or_default().queued += queued as u64;
            }
        }
        Load {
            active: u64::from(self.active),
            queued: self.places.len() as u64,
            max_concurrent_runs: u64::from(self.caps.global),
            providers,
        }
    }

    /// The run that would get the next slot; nothing when no run in the queue can have one.
    fn next(&self) -> Option<&Ticket> {
        if self.active >= self.caps.global {
            return None;
        }
        let tenants = self.tenants.waiting();
        let queues = tenants
            .filter(|(standing, ..)| self.caps.per_tenant.is_none_or(|cap| standing.held < cap))
            .flat_map(|(_, _, users)| users.waiting());
        queues
            .filter(|(standing, ..)| self.caps.per_user.is_none_or(|cap| standing.held < cap))
            .find_map(|(_, _, queue)| queue.first(|provider| self.provider_has_room(provider)))
    }

    fn is_queued(&self, lane: &Lane) -> bool {
        let queue = self.tenants.find(&lane.tenant).and_then(|(_, users)| users.find(&lane.user));
        queue.is_some_and(|(_, queue)| queue.has(&lane.provider))
    }

    fn has_room(&self, lane: &Lane) -> bool {
        let tenant = self.tenants.find(&lane.tenant);
        let user = tenant.and_then(|(_, users)| users.find(&lane.user));
        let held_by_tenant = tenant.map_or(0, |(standing, _)| standing.held);
        let held = user.map_or(0, |(standing, _)| standing.held);
        self.active < self.caps.global
            && self.caps.per_tenant.is_none_or(|cap| held_by_tenant < cap)
            && self.caps.per_user.is_none_or(|cap| held < cap)
            && self.provider_has_room(&lane.provider)
    }

    fn provider_has_room(&self, provider: &str) -> bool {
        let held = self.providers.get(provider).copied().unwrap_or(0);
        self.caps.providers.get(provider).is_none_or(|cap| held < *cap)
    }

    /// Changes what a lane's tenant and user hold, or the user's queue.
    fn change<T>(&mut self, lane: &Lane, change: impl FnOnce(&mut Standing, &mut Standing, &mut Queue) -> T) -> T {
        let now = self.ticks;
        self.tenants.change(&lane.tenant, now, |tenant, users| {
            users.change(&lane.user, now, |user, queue| change(tenant, user, queue))
        })
    }
}

#[cfg(test)]
mod tests;
