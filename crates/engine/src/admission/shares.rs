//! Shares: who holds how many slots, and in which order those who wait are served.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    hash::Hash,
    sync::Arc,
};

use drawloom_contract::ids::RunKey;

use super::{Class, Ticket};

/// What a tenant or a user holds. The smaller one is served first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    /// Slots that it holds.
    pub(super) held: u32,
    /// When it last got a slot, or began to wait.
    pub(super) served: u64,
}

/// Something that can wait in a line.
pub(super) trait Line: Default {
    fn is_empty(&self) -> bool;
}

/// Tenants with their users, or users with their queues. Those that hold no slot and wait for none are forgotten.
pub(super) struct Shares<K, L> {
    members: HashMap<K, (Standing, L)>,
    /// Those that wait, in the order in which they are served.
    waiting: BTreeSet<(Standing, K)>,
}

impl<K, L> Default for Shares<K, L> {
    fn default() -> Self {
        Self { members: HashMap::new(), waiting: BTreeSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord, L: Line> Shares<K, L> {
    pub(super) fn find(&self, name: &K) -> Option<&(Standing, L)> {
        self.members.get(name)
    }

    /// Those that wait, the next one first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Standing, &K, &L)> {
        self.waiting.iter().filter_map(|(standing, name)| Some((*standing, name, &self.members.get(name)?.1)))
    }

    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.members.values_mut().map(|(_, line)| line)
    }

    /// Changes one member and keeps the order. A member that was not known begins at `now`, behind those that wait.
    pub(super) fn change<T>(&mut self, name: &K, now: u64, change: impl FnOnce(&mut Standing, &mut L) -> T) -> T {
        let (standing, line) =
            self.members.entry(name.clone()).or_insert_with(|| (Standing { held: 0, served: now }, L::default()));
        let before = (!line.is_empty()).then_some(*standing);
        let changed = change(standing, line);
        let after = (!line.is_empty()).then_some(*standing);
        let forgotten = after.is_none() && standing.held == 0;
        if before != after {
            if let Some(standing) = before {
                self.waiting.remove(&(standing, name.clone()));
            }
            if let Some(standing) = after {
                self.waiting.insert((standing, name.clone()));
            }
        }
        if forgotten {
            self.members.remove(name);
        }
        changed
    }
}

impl<K: Clone + Eq + Hash + Ord, L: Line> Line for Shares<K, L> {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A place in a user's queue; smaller goes first.
pub(super) type Order = (Class, Reverse<u32>, u64);

/// The runs of one user that wait, by provider.
#[derive(Default)]
pub(super) struct Queue {
    lanes: HashMap<Arc<str>, BTreeMap<Order, Ticket>>,
    /// The first of each lane.
    heads: BTreeMap<Order, Arc<str>>,
}

impl Line for Queue {
    fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

impl Queue {
    pub(super) fn insert(&mut self, order: Order, ticket: Ticket) {
        let provider = ticket.lane.provider.clone();
        let lane = self.lanes.entry(provider.clone()).or_default();
        if let Some((head, _)) = lane.first_key_value() {
            self.heads.remove(head);
        }
        lane.insert(order, ticket);
        if let Some((head, _)) = lane.first_key_value() {
            self.heads.insert(*head, provider);
        }
    }

    pub(super) fn remove(&mut self, provider: &Arc<str>, order: Order) -> Option<Ticket> {
        let lane = self.lanes.get_mut(provider)?;
        let ticket = match lane.entry(order) {
            Entry::Occupied(found) => found.remove(),
            Entry::Vacant(_) => return None,
        };
        if self.heads.remove(&order).is_some()
            && let Some((head, _)) = lane.first_key_value()
        {
            self.heads.insert(*head, provider.clone());
        }
        if lane.is_empty() {
            self.lanes.remove(provider);
        }
        Some(ticket)
    }

    /// The first run whose provider has room.
    pub(super) fn first(&self, has_room: impl Fn(&str) -> bool) -> Option<&Ticket> {
        let provider = self.heads.values().find(|provider| has_room(provider))?;
        self.lanes.get(provider)?.first_key_value().map(|(_, ticket)| ticket)
    }

    pub(super) fn has(&self, provider: &str) -> bool {
        self.lanes.contains_key(provider)
    }

    pub(super) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.lanes.iter().map(|(provider, lane)| (&**provider, lane.len()))
    }

    pub(super) fn tickets_mut(&mut self) -> impl Iterator<Item = &mut Ticket> {
        self.lanes.values_mut().flat_map(BTreeMap::values_mut)
    }

    /// All of its runs, the last one first.
    pub(super) fn backwards(&self) -> Vec<RunKey> {
        let mut all: Vec<(&Order, &RunKey)> =
            self.lanes.values().flatten().map(|(order, ticket)| (order, &ticket.key)).collect();
        all.sort_unstable_by(|left, right| right.cmp(left));
        all.into_iter().map(|(_, key)| key.clone()).collect()
    }
}
