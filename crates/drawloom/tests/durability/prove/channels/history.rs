//! What publishers, readers and members saw, and what must hold of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

/// A message of `short` lives so long.
const SHORT_MS: i64 = 1_000;

/// A delivery to a member of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivered {
    pub(super) cursor: u64,
    /// When its request was first sent.
    pub(super) began: Instant,
    pub(super) attempt: u64,
}

/// An acknowledgement that was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acked {
    pub(super) cursor: u64,
    pub(super) at: Instant,
}

#[derive(Default)]
pub(super) struct History {
    /// Messages in each channel.
    pub(super) published: u64,
    pub(super) poisoned: u64,
    /// What publishers of `small` were told.
    pub(super) dropped: u64,
    pub(super) purged: u64,
    /// Waits that ended with their message.
    pub(super) woken: u64,
    pub(super) acked: Vec<Acked>,
    group: Vec<Delivered>,
    poison: Vec<Delivered>,
    /// By channel: what was read, by cursor.
    taken: BTreeMap<String, BTreeMap<u64, (u64, u64)>>,
    missed: BTreeMap<String, u64>,
}

impl History {
    pub(super) fn delivered(&mut self, channel: &str, delivered: Delivered) {
        match channel {
            "group" => self.group.push(delivered),
            _ => self.poison.push(delivered),
        }
    }

    /// Takes in what a plain reader got by a request that began at `began`.
    pub(super) fn read(&mut self, channel: &str, messages: &[Value], missed: Option<u64>, began: i64) {
        *self.missed.entry(channel.to_owned()).or_default() += missed.unwrap_or(0);
        let taken = self.taken.entry(channel.to_owned()).or_default();
        let mut last = 0;
        for message in messages {
            let cursor = super::cursor_of(message);
            assert!(cursor > last, "{channel}: the messages of an answer are not in order");
            last = cursor;
            let value =
                (message["value"][0].as_u64().expect("a number"), message["value"][1].as_u64().expect("a number"));
            assert_eq!(taken.insert(cursor, value), None, "{channel}: {message} was taken twice");
            if channel == "short" {
                let published = message["published_at"].as_str().expect("a time");
                let published =
                    drawloom_contract::time::Timestamp::from_rfc3339(published).expect("a time").as_millis();
                assert!(published + SHORT_MS > began, "an expired message was read: {message}, asked at {began}");
            }
        }
    }

    /// Checks everything; says what was seen.
    pub(super) fn check(&self, publishers: u64, messages: u64, left_in_small: u64, dead: &[Value]) -> String {
        assert_eq!(self.published, publishers * messages, "not every message was published");
        let empty = BTreeMap::new();
        let taken = |channel: &str| self.taken.get(channel).unwrap_or(&empty);
        // Nothing is lost, nothing is doubled.
        for channel in ["plain", "later"] {
            let values: BTreeSet<(u64, u64)> = taken(channel).values().copied().collect();
            assert_eq!(taken(channel).len(), values.len(), "{channel}: a message was published twice");
            assert_eq!(values.len() as u64, self.published, "{channel}: messages were lost");
            assert_eq!(self.missed.get(channel).copied().unwrap_or(0), 0, "{channel}");
        }
        // The order of each publisher is the order of the channel.
        for channel in ["plain", "small", "short", "purged"] {
            let mut last: BTreeMap<u64, u64> = BTreeMap::new();
            for (publisher, number) in taken(channel).values() {
                if let Some(before) = last.insert(*publisher, *number) {
                    assert!(before < *number, "{channel}: {publisher} published {before} before {number}");
                }
            }
        }
        self.check_groups();
        // A cap says what it drops unread; the rest was read before it was dropped.
        assert!(
            self.published >= self.dropped + left_in_small,
            "small: more was said to be dropped than was published"
        );
        let small = taken("small").len() as u64;
        let missed = self.missed.get("small").copied().unwrap_or(0);
        assert!(small + missed <= self.published, "small: more was read and missed than published");
        let purged = taken("purged").len() as u64;
        assert!(self.purged <= self.published, "more was purged than published");
        let poison: BTreeSet<&str> = dead.iter().filter_map(|letter| letter["value"]["message_id"].as_str()).collect();
        assert_eq!(poison.len(), dead.len(), "a dead letter came twice");
        assert_eq!(dead.len() as u64, self.poisoned, "not every poison message is in the dead-letter channel");
        assert!(dead.iter().all(|letter| letter["value"]["attempts"] == 2), "a message died too early or too late");
        assert!(self.poison.iter().all(|delivered| delivered.attempt <= 2), "a message was delivered too often");
        format!(
            "{} messages in each channel; plain and deferred ones were taken once, {} acknowledgements of a group and {} deliveries \
             agree, {} dead letters, {} dropped by a cap and said so, {purged} read beside purges, {} short-lived read in time, \
             {} waits woken",
            self.published,
            self.acked.len(),
            self.group.len(),
            dead.len(),
            self.dropped,
            taken("short").len(),
            self.woken
        )
    }

    fn check_groups(&self) {
        let mut acked: BTreeMap<u64, Instant> = BTreeMap::new();
        for ack in &self.acked {
            assert!(acked.insert(ack.cursor, ack.at).is_none(), "message {} was acknowledged twice", ack.cursor);
        }
        assert_eq!(acked.len() as u64, self.published, "messages of the group were lost");
        let mut attempts: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for delivered in &self.group {
            let at = acked.get(&delivered.cursor).expect("every message was acknowledged in the end");
            assert!(delivered.began < *at, "message {} came back after its acknowledgement", delivered.cursor);
            let is_new = attempts.entry(delivered.cursor).or_default().insert(delivered.attempt);
            assert!(is_new, "two members had message {} at the same attempt", delivered.cursor);
        }
    }
}
