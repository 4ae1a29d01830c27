//! Who reads a channel, and what each reader has not read yet. Messages of a queue that every reader has read are removed after a while.

use std::{collections::HashMap, sync::PoisonError, time::Duration};

use drawloom_contract::{
    caller::Visible,
    ids::Tenant,
    log::{LogChange, LogKey},
    time::Instant,
    values::{Kept, Range, ValueKey, Within},
};

use super::{
    ChannelError, ChannelOwner, Channels, LogState, Place,
    group::Group,
    place::{CHANNELS, GROUP, prefix_of, range_of},
};

/// Pages in which stored things are listed.
const PAGE: u32 = 256;

/// How long messages of a queue stay after every reader has read them: a read that is made again after a crash, or with the same
/// idempotency key, gets them again.
const KEPT_AFTER_READ: Duration = Duration::from_secs(60 * 60);

/// Where one reader of a channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelReader {
    pub owner: ChannelOwner,
    pub who: Who,
    /// The last message that it was given.
    read: u64,
    /// Messages that members of a group have and did not acknowledge.
    in_flight: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// The readers of a queue, which share a cursor.
    All,
    /// A consumer of a broadcast channel, as its user and its name.
    Consumer(String),
    Group(String),
}

impl ChannelReader {
    /// The reader behind a stored cursor or group; nothing for other values.
    fn of(key: &ValueKey, kept: &Kept) -> Option<Self> {
        let owner = Place::named(key.tenant.clone(), &key.owner)?.owner().clone();
        if let Some(group) = key.key.strip_prefix(GROUP) {
            let record: Group = serde_json::from_value(kept.value.clone()).ok()?;
            let in_flight = record.in_flight.iter().map(|flight| flight.sequence).collect();
            return Some(Self { owner, who: Who::Group(group.to_owned()), read: record.floor, in_flight });
        }
        let who = match key.key.strip_prefix("cursor")? {
            "" => Who::All,
            consumer => Who::Consumer(consumer.strip_prefix('/')?.to_owned()),
        };
        Some(Self { owner, who, read: kept.value["after"].as_u64().unwrap_or(0), in_flight: Vec::new() })
    }

    /// Messages after `first` that it was not given, or did not acknowledge.
    fn unread(&self, first: u64, head: u64, kept: u64) -> u64 {
        let not_given = head.saturating_sub(self.read.max(first.saturating_sub(1))).min(kept);
        let taken = self.in_flight.iter().filter(|sequence| **sequence >= first).count() as u64;
        not_given + taken
    }

    /// How many of the messages before `first`, of which the last `dropped` were dropped just now, it had not read.
    fn lost(&self, first: u64, dropped: u64) -> u64 {
        let begin = first.saturating_sub(dropped);
        let not_given = first.saturating_sub(1).saturating_sub(self.read.max(begin.saturating_sub(1)));
        let taken = self.in_flight.iter().filter(|sequence| (begin..first).contains(*sequence)).count() as u64;
        (not_given + taken).min(dropped)
    }

    /// Everything up to this message was read.
    fn done(&self) -> u64 {
        self.in_flight.iter().min().map_or(self.read, |first| first.saturating_sub(1).min(self.read))
    }

    /// Whether a caller who sees this may see it.
    pub fn is_visible_to(&self, visible: &Visible) -> bool {
        let Some(own) = visible.owner() else { return true };
        let of_owner = match &self.owner {
            ChannelOwner::User(user) => user == own,
            ChannelOwner::Agent(_) | ChannelOwner::Tenant => true,
        };
        let of_consumer = match &self.who {
            Who::Consumer(name) => name.strip_prefix("user/").is_none_or(|name| {
                name.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }),
            Who::All | Who::Group(_) => true,
        };
        of_owner && of_consumer
    }
}

/// The readers of a channel with what each of them has not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    /// Messages that no reader has read, or that some reader has not: per owner the most of one reader, added up.
    pub messages: u64,
    pub readers: Vec<(ChannelReader, u64)>,
}

/// What was read of a log, and since when.
pub(super) type ReadMarks = HashMap<LogKey, (u64, Instant)>;

impl Channels {
    /// What the readers of a channel have not read, given its logs.
    pub(super) async fn unread(&self, tenant: &Tenant, name: &str, logs: &[LogState]) -> Result<Unread, ChannelError> {
        let mut unread = Unread::default();
        if logs.iter().all(|state| state.kept == 0) {
            return Ok(unread);
        }
        let readers = self.all_readers(tenant, name).await?;
        for state in logs.iter().filter(|state| state.kept > 0) {
            let first = (state.head + 1).saturating_sub(state.kept);
            let own = Place::named(tenant.clone(), &state.log.name);
            let of_log = readers.iter().filter(|reader| own.as_ref().is_some_and(|own| *own.owner() == reader.owner));
            let counted: Vec<_> =
                of_log.map(|reader| (reader.clone(), reader.unread(first, state.head, state.kept))).collect();
            unread.messages += counted.iter().map(|(_, unread)| *unread).max().unwrap_or(state.kept);
            unread.readers.extend(counted);
        }
        Ok(unread)
    }

    /// How many of `dropped` messages, the last before `first`, at least one reader had not read. Without readers that is all of them.
    pub(super) async fn lost(&self, place: &Place, dropped: u64) -> Result<u64, ChannelError> {
        let first = self.parts.logs.read_log(&place.log(), 0, 1).await?.first;
        let readers = self.readers_of(place).await?;
        Ok(readers.iter().map(|reader| reader.lost(first, dropped)).max().unwrap_or(dropped))
    }

    /// Removes what every reader of a queue has read a while ago; says how many. A broadcast channel keeps its messages for consumers
    /// that come later.
    pub(super) async fn remove_read(&self, log: &LogKey) -> Result<u64, ChannelError> {
        let now = self.parts.clock.now();
        let marked = self.marks().get(log).copied();
        if marked.is_some_and(|(_, since)| now.since(since) < KEPT_AFTER_READ) {
            return Ok(0);
        }
        let Some(place) = Place::named(log.tenant.clone(), &log.name) else { return Ok(0) };
        let is_queue = self.find(place.tenant(), place.channel()).is_some_and(|channel| !channel.has_consumers());
        let readers = if is_queue { self.readers_of(&place).await? } else { Vec::new() };
        let Some(done) = readers.iter().map(ChannelReader::done).min().filter(|done| *done > 0) else {
            self.marks().remove(log);
            return Ok(0);
        };
        self.marks().insert(log.clone(), (done, now));
        let Some((marked, _)) = marked else { return Ok(0) };
        // A group that is newer than the mark may be behind it.
        let trim = LogChange::Trim { log: log.clone(), up_to: marked.min(done) };
        Ok(self.parts.logs.change_log(trim, None).await?.result.dropped)
    }

    /// Forgets what was read of a log that has no messages.
    pub(super) fn forget_read(&self, log: &LogKey) {
        self.marks().remove(log);
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, ReadMarks> {
        self.read_marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The readers of one owner's messages.
    async fn readers_of(&self, place: &Place) -> Result<Vec<ChannelReader>, ChannelError> {
        self.listed_readers(&range_of(place.tenant(), CHANNELS, &place.name()), None, |_| true).await
    }

    /// The readers of all owners' messages.
    async fn all_readers(&self, tenant: &Tenant, name: &str) -> Result<Vec<ChannelReader>, ChannelError> {
        let (range, prefix) = (Range { space: CHANNELS, within: Within::Tenant(tenant.clone()) }, prefix_of(name));
        let start = ValueKey { tenant: tenant.clone(), space: CHANNELS, owner: prefix.clone(), key: String::new() };
        self.listed_readers(&range, Some(start), |key| key.owner.starts_with(&prefix)).await
    }

    async fn listed_readers(
        &self,
        range: &Range,
        mut after: Option<ValueKey>,
        is_meant: impl Fn(&ValueKey) -> bool,
    ) -> Result<Vec<ChannelReader>, ChannelError> {
        let mut readers = Vec::new();
        loop {
            let now = self.parts.clock.steady();
            let page = self.parts.values.list_values(range, after.as_ref(), PAGE, now).await?;
            let is_last = (page.len() as u32) < PAGE;
            for (key, kept) in &page {
                if !is_meant(key) {
                    return Ok(readers);
                }
                readers.extend(ChannelReader::of(key, kept));
            }
            match page.into_iter().next_back() {
                Some((last, _)) if !is_last => after = Some(last),
                _ => return Ok(readers),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(read: u64, in_flight: &[u64]) -> ChannelReader {
        ChannelReader { owner: ChannelOwner::Tenant, who: Who::All, read, in_flight: in_flight.to_vec() }
    }

    #[test]
    fn what_a_reader_has_not_read_is_counted_among_what_is_kept_and_what_was_dropped() {
        // Messages 11 to 20 are kept; 6 to 10 were dropped just now.
        for (read, in_flight, unread, lost, done) in [
            (0, &[][..], 10, 5, 0),
            (8, &[], 10, 2, 8),
            (10, &[], 10, 0, 10),
            (15, &[], 5, 0, 15),
            (20, &[], 0, 0, 20),
            (20, &[7, 18], 1, 1, 6),
        ] {
            let reader = reader(read, in_flight);
            assert_eq!((reader.unread(11, 20, 10), reader.lost(11, 5), reader.done()), (unread, lost, done), "{read}");
        }
    }
}
