//! A consumer group: one record that says which messages its members have. Pure: the record and the request come in, the next record and
//! the answer go out.
//!
//! Messages up to `floor` were delivered. Those in `in_flight` are not settled yet: each has the epoch of its last delivery, and who
//! names another epoch does not have it any more.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rules::Refusal;

/// Maximum messages that a group has at once without an acknowledgement.
pub const MOST_IN_FLIGHT: usize = 1_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Group {
    /// The last message that was ever delivered.
    pub(super) floor: u64,
    /// Rises with every delivery and extension.
    pub(super) epoch: u64,
    /// By sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) in_flight: Vec<Flight>,
}

/// A message that a member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Flight {
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    /// Deliveries so far.
    pub(super) attempt: u32,
    /// 0 when a member gave it back.
    pub(super) lease_ms: u64,
}

/// What a member must name to settle a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    pub sequence: u64,
    pub epoch: u64,
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lse_{}_{}", self.sequence, self.epoch)
    }
}

impl Lease {
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let parts = text.strip_prefix("lse_").and_then(|rest| rest.split_once('_'));
        let read = parts
            .and_then(|(sequence, epoch)| Some(Self { sequence: sequence.parse().ok()?, epoch: epoch.parse().ok()? }));
        read.ok_or_else(|| Refusal::BadLease(text.chars().take(80).collect()))
    }
}

impl Flight {
    pub(super) fn lease(&self) -> Lease {
        Lease { sequence: self.sequence, epoch: self.epoch }
    }
}

/// What a member does with messages that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// They are done.
    Ack,
    /// They are given back, to be delivered again at once.
    Nak,
    /// They are kept for so long from now on.
    Extend { lease_ms: u64 },
}

/// What became of leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// The leases that held, as they are now.
    pub(super) held: Vec<Lease>,
    /// Leases of messages that were settled before, or that others have.
    pub(super) lost: Vec<Lease>,
}

/// What a delivery does to the record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Take<'a> {
    /// Messages that are delivered again.
    pub(super) again: &'a [u64],
    /// Messages that are delivered for the first time, in order, all after `floor`.
    pub(super) new: &'a [u64],
    /// Messages that leave the group: dead ones, and those that the channel does not keep any more.
    pub(super) gone: &'a [u64],
    pub(super) lease_ms: u64,
}

impl Group {
    /// Messages whose time is over: those to deliver again, and those whose attempts are used up.
    pub(super) fn over(
        &self,
        max_attempts: Option<u32>,
        is_over: impl Fn(&Flight) -> bool,
    ) -> (Vec<Flight>, Vec<Flight>) {
        let over = self.in_flight.iter().copied().filter(is_over);
        over.partition(|flight| max_attempts.is_none_or(|most| flight.attempt < most))
    }

    /// Whether the lease can be one that the group gave.
    pub(super) fn has_given(&self, lease: &Lease) -> bool {
        lease.sequence <= self.floor && lease.epoch <= self.epoch
    }

    /// How many further messages can be in flight when so many leave.
    pub(super) fn room(&self, leaving: usize) -> usize {
        (MOST_IN_FLIGHT + leaving).saturating_sub(self.in_flight.len())
    }

    /// The record after a delivery, and what was delivered: messages that come again first.
    pub(super) fn take(&self, take: &Take<'_>) -> (Self, Vec<Flight>) {
        let mut next = self.clone();
        next.epoch += 1;
        let epoch = next.epoch;
        next.in_flight.retain(|flight| !take.gone.contains(&flight.sequence));
        let mut delivered = Vec::with_capacity(take.again.len() + take.new.len());
        for flight in next.in_flight.iter_mut().filter(|flight| take.again.contains(&flight.sequence)) {
            *flight = Flight { epoch, attempt: flight.attempt.saturating_add(1), lease_ms: take.lease_ms, ..*flight };
            delivered.push(*flight);
        }
        for sequence in take.new {
            let flight = Flight { sequence: *sequence, epoch, attempt: 1, lease_ms: take.lease_ms };
            next.floor = next.floor.max(*sequence);
            next.in_flight.push(flight);
            delivered.push(flight);
        }
        (next, delivered)
    }

    /// The record after members settled messages.
    pub(super) fn settle(&self, leases: &[Lease], settle: Settle) -> (Self, Settled) {
        let mut next = self.clone();
        next.epoch += 1;
        let mut settled = Settled::default();
        for lease in leases {
            let place = next.in_flight.iter().position(|flight| flight.lease() == *lease);
            let Some(place) = place else {
                settled.lost.push(*lease);
                continue;
            };
            match settle {
                Settle::Ack => {
                    next.in_flight.remove(place);
                    settled.held.push(*lease);
                }
                Settle::Nak | Settle::Extend { .. } => {
                    let flight = &mut next.in_flight[place];
                    flight.epoch = next.epoch;
                    flight.lease_ms = if let Settle::Extend { lease_ms } = settle { lease_ms } else { 0 };
                    settled.held.push(flight.lease());
                }
            }
        }
        (next, settled)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn leases_are_read_as_they_are_shown() {
        let lease = Lease { sequence: 7, epoch: 12 };
        assert_eq!(Lease::read(&lease.to_string()), Ok(lease));
        for text in ["", "lse_", "lse_1", "lse_1_", "lse_a_1", "x_1_1"] {
            assert!(Lease::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_acknowledged_comes_back_until_its_attempts_are_used_up() {
        let take = Take { new: &[1, 2], lease_ms: 50, ..Take::default() };
        let (group, first) = Group::default().take(&take);
        let (group, settled) = group.settle(&[first[0].lease()], Settle::Ack);
        assert_eq!((settled.held, settled.lost), (vec![first[0].lease()], vec![]));
        let (again, dead) = group.over(Some(2), |_| true);
        assert_eq!((again.len(), dead.len()), (1, 0));
        let (group, second) = group.take(&Take { again: &[2], lease_ms: 50, ..Take::default() });
        assert_eq!((second[0].attempt, group.floor), (2, 2));
        let (group, zombie) = group.settle(&[first[1].lease()], Settle::Ack);
        assert_eq!(zombie.lost, [first[1].lease()], "the old lease is refused");
        let (again, dead) = group.over(Some(2), |_| true);
        assert_eq!((again.len(), dead.len()), (0, 1));
        let (group, none) = group.take(&Take { gone: &[2], ..Take::default() });
        assert_eq!((group.in_flight, none), (vec![], vec![]));
    }

    #[test]
    fn a_message_that_is_given_back_is_over_at_once_and_an_extended_one_has_a_new_lease() {
        let (group, taken) = Group::default().take(&Take { new: &[4], lease_ms: 50, ..Take::default() });
        let (extended, settled) = group.settle(&[taken[0].lease()], Settle::Extend { lease_ms: 90 });
        assert_eq!(extended.in_flight[0].lease_ms, 90);
        assert_ne!(settled.held, [taken[0].lease()]);
        let (back, _) = extended.settle(&settled.held, Settle::Nak);
        assert_eq!((back.in_flight[0].lease_ms, back.in_flight[0].attempt), (0, 1));
        assert!(back.settle(&settled.held, Settle::Ack).1.held.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Act {
        Take(usize),
        Settle(usize, u8),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            (1..5usize).prop_map(Act::Take),
            (0..8usize, 0..3u8).prop_map(|(which, how)| Act::Settle(which, how)),
        ];
        prop::collection::vec(act, 1..60)
    }

    proptest! {
        /// However members take, settle and lose leases: no acknowledged message is delivered again, every other one is in flight or not
        /// delivered yet, one lease of a message holds, and attempts count its deliveries.
        #[test]
        fn nothing_acknowledged_comes_back_and_nothing_is_lost(acts in acts()) {
            let mut group = Group::default();
            let (mut head, mut acked) = (0u64, BTreeSet::new());
            let mut deliveries: BTreeMap<u64, u32> = BTreeMap::new();
            let mut leases: Vec<Lease> = Vec::new();
            for act in acts {
                match act {
                    Act::Take(count) => {
                        let again: Vec<u64> = group.over(None, |flight| flight.sequence % 2 == 0).0
                            .iter().map(|flight| flight.sequence).collect();
                        let new: Vec<u64> = (head + 1..=head + count as u64).collect();
                        head += count as u64;
                        let (next, delivered) =
                            group.take(&Take { again: &again, new: &new, gone: &[], lease_ms: 10 });
                        for flight in &delivered {
                            prop_assert!(!acked.contains(&flight.sequence));
                            let count = deliveries.entry(flight.sequence).or_default();
                            *count += 1;
                            prop_assert_eq!(*count, flight.attempt);
                            leases.push(flight.lease());
                        }
                        group = next;
                    }
                    Act::Settle(which, how) => {
                        let Some(lease) = leases.get(which % leases.len().max(1)).copied() else { continue };
                        let holds = group.in_flight.iter().any(|flight| flight.lease() == lease);
                        let settle = match how { 0 => Settle::Ack, 1 => Settle::Nak, _ => Settle::Extend { lease_ms: 20 } };
                        let (next, settled) = group.settle(&[lease], settle);
                        prop_assert_eq!(settled.held.len() == 1, holds);
                        if holds && settle == Settle::Ack {
                            acked.insert(lease.sequence);
                        }
                        leases.extend(settled.held);
                        group = next;
                    }
                }
                let in_flight: BTreeSet<u64> = group.in_flight.iter().map(|flight| flight.sequence).collect();
                prop_assert_eq!(in_flight.len(), group.in_flight.len());
                prop_assert!(in_flight.is_disjoint(&acked));
                prop_assert_eq!(in_flight.len() + acked.len(), head as usize);
                prop_assert_eq!(group.floor, head);
            }
        }
    }
}
