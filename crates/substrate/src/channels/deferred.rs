//! Deferred messages: values that sort by their time, appended when that has come.
//!
//! They are never in the log before: a cursor would pass them. The append has a key of its own, then the value goes: a crash in between
//! appends nothing twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    ids::Tenant,
    journal::StoreError,
    log::{LogChange, LogKey, NewMessage},
    streams,
    time::{Instant, Timestamp},
    values::{Range, Seen, ValueChange, ValueKey, WatchFrom, Within},
};
use futures::{FutureExt as _, StreamExt as _};

use super::{
    ChannelError, Channels,
    place::{CHANNELS, DEFERRED},
};

/// Longest sleep: the wall clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// How long a message that could not be appended waits.
const RETRY: Duration = Duration::from_secs(1);

/// Deferred messages that are read at once.
const PAGE: u32 = 256;

/// The key of a deferred message: its time, then its id.
pub(super) fn key_of(due: Timestamp, id: &str) -> String {
    format!("{:020}/{id}", due.as_millis())
}

fn due_of(key: &ValueKey) -> Option<Timestamp> {
    key.key.get(..20)?.parse().ok().map(Timestamp::from_millis)
}

/// What became of a deferred message whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It was appended, or its channel was deleted.
    Done,
    /// It stays: its channel is not defined, and was not deleted.
    Parked { channel: String },
}

/// Deferred messages by tenant, in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Queue {
    tenants: BTreeMap<Tenant, BTreeSet<(Timestamp, ValueKey)>>,
    /// Who had the last turn.
    last: Option<Tenant>,
}

impl Queue {
    pub(super) fn add(&mut self, due: Timestamp, key: ValueKey) {
        self.tenants.entry(key.tenant.clone()).or_default().insert((due, key));
    }

    fn remove(&mut self, due: Timestamp, key: ValueKey) {
        let tenant = key.tenant.clone();
        if let Some(messages) = self.tenants.get_mut(&tenant) {
            messages.remove(&(due, key));
            if messages.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
    }

    /// The earliest message of the next tenant that has a due one.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, ValueKey)> {
        let is_due = |messages: &BTreeSet<(Timestamp, ValueKey)>| messages.first().is_some_and(|(due, _)| *due <= now);
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.tenants.range::<Tenant, _>((after, Bound::Unbounded));
        let mut in_turn = later.chain(self.tenants.iter()).filter(|(_, messages)| is_due(messages));
        let tenant = in_turn.next()?.0.clone();
        let messages = self.tenants.get_mut(&tenant)?;
        let first = messages.pop_first();
        if messages.is_empty() {
            self.tenants.remove(&tenant);
        }
        self.last = Some(tenant);
        first
    }

    fn first_due(&self) -> Option<Timestamp> {
        self.tenants.values().filter_map(|messages| messages.first()).map(|(due, _)| *due).min()
    }
}

impl Channels {
    /// Whether a message waits for its time. One whose channel is not defined waits for a change of the config, not for a time.
    pub async fn has_deferred(&self) -> Result<bool, StoreError> {
        let (range, mut after) = (Range { space: DEFERRED, within: Within::Space }, None::<ValueKey>);
        loop {
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, self.parts.clock.steady()).await?;
            let Some((last, _)) = page.last() else { return Ok(false) };
            let channel = |key: &ValueKey| key.owner.split_once(':').map(|(channel, _)| channel.to_owned());
            if page.iter().any(|(key, _)| channel(key).is_some_and(|name| self.is_known(&key.tenant, &name))) {
                return Ok(true);
            }
            after = Some(last.clone());
        }
    }

    /// Appends deferred messages when their time has come, for ever. What was due while no server ran is appended first. Tenants have
    /// their turns: however many messages one has, the next message of another comes after one of them.
    pub async fn deliver_deferred(self: Arc<Self>) {
        loop {
            let range = Range { space: DEFERRED, within: Within::Space };
            let channels = Arc::clone(&self);
            let first = self.parts.values.watch(&range, WatchFrom::Start);
            let open = move || Some(channels.parts.values.watch(&range, WatchFrom::Now));
            let mut watch = streams::reopened(first, open, || Seen::Gap, self.parts.clock.clone());
            let mut queue = Queue::default();
            // Due messages whose channel is unknown now: the config file may have it again after a restart.
            let mut parked: BTreeMap<(Tenant, String), BTreeSet<(Timestamp, ValueKey)>> = BTreeMap::new();
            let mut is_caught_up = false;
            let mut resting = None;
            loop {
                // What was told meanwhile takes part in the next turn.
                let seen = match watch.next().now_or_never() {
                    Some(seen) => Some(seen),
                    None => {
                        let now = self.parts.clock.steady();
                        parked.retain(|(tenant, channel), messages| {
                            let is_known = self.is_known(tenant, channel);
                            if is_known {
                                messages.iter().for_each(|(due, key)| queue.add(*due, key.clone()));
                            }
                            !is_known
                        });
                        let may_deliver = is_caught_up && resting.is_none_or(|until| self.parts.clock.now() >= until);
                        let due = if may_deliver { queue.pop_due(now) } else { None };
                        if let Some(due) = due {
                            resting = self.take_turn(due, &mut queue, &mut parked).await;
                            continue;
                        }
                        None
                    }
                };
                let seen = match seen {
                    Some(seen) => seen,
                    None => {
                        let next = queue.first_due().map(|due| due.since(self.parts.clock.steady()));
                        let sleep = next.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                        let sleep = if resting.is_some() { sleep.max(RETRY) } else { sleep };
                        let until = self.parts.clock.now().after(sleep);
                        tokio::select! {
                            seen = watch.next() => seen,
                            () = self.parts.clock.sleep_until(until) => continue,
                        }
                    }
                };
                match seen {
                    Some(Seen::Is { key, present, .. }) => {
                        if let Some(due) = due_of(&key) {
                            match present {
                                Some(_) => queue.add(due, key),
                                None => queue.remove(due, key),
                            }
                        }
                    }
                    // In the order of their times, which is known once all were told.
                    Some(Seen::CaughtUp) => is_caught_up = true,
                    // Also after the watch was opened again.
                    Some(Seen::Gap) | None => break,
                }
            }
        }
    }

    /// Delivers one message. After an error it says until when nothing is tried.
    async fn take_turn(
        &self,
        (due, key): (Timestamp, ValueKey),
        queue: &mut Queue,
        parked: &mut BTreeMap<(Tenant, String), BTreeSet<(Timestamp, ValueKey)>>,
    ) -> Option<Instant> {
        match self.deliver(&key).await {
            Ok(Delivery::Done) => None,
            Ok(Delivery::Parked { channel }) => {
                let messages = parked.entry((key.tenant.clone(), channel.clone())).or_default();
                if messages.is_empty() {
                    tracing::warn!(channel, "due deferred messages wait: their channel is not defined");
                }
                messages.insert((due, key));
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a deferred message could not be published; it is tried again");
                queue.add(due, key);
                Some(self.parts.clock.now().after(RETRY))
            }
        }
    }

    /// Appends one message, once, then removes it from those that wait. A message whose channel was deleted is removed.
    pub(super) async fn deliver(&self, key: &ValueKey) -> Result<Delivery, ChannelError> {
        let now = self.parts.clock.steady();
        let Some(kept) = self.parts.values.find_value(key, now).await? else { return Ok(Delivery::Done) };
        let name = kept.value["channel"].as_str().unwrap_or_default().to_owned();
        let is_known = self.is_known(&key.tenant, &name);
        if !is_known && self.find_deletion(&key.tenant, &name).await?.is_none() {
            return Ok(Delivery::Parked { channel: name });
        }
        match is_known {
            true => {
                // A channel without an active version keeps what it has; its next version says how much.
                let keep = self.find(&key.tenant, &name).map(|channel| channel.config.max_messages);
                let message = NewMessage {
                    id: kept.value["id"].as_str().unwrap_or_default().to_owned(),
                    at: now,
                    body: self.parts.redactor.clean(kept.value["body"].clone()),
                };
                let log = LogKey { tenant: key.tenant.clone(), space: CHANNELS, name: key.owner.clone() };
                let name_of_change = format!("{} {}", key.owner, key.key);
                let once = Self::own_key(&key.tenant, "deliver", &name_of_change, now, &self.parts.redactor);
                let change = LogChange::Append { log, messages: vec![message], since: 0, keep };
                let dropped = self.parts.logs.change_log(change, Some(once)).await?.result.dropped;
                if dropped > 0 {
                    tracing::warn!(channel = name, dropped, "the channel is full; its oldest messages were dropped");
                }
            }
            false => tracing::warn!(channel = name, "a deferred message was removed: its channel was deleted"),
        }
        self.parts.values.change(vec![ValueChange::remove(key.clone(), now)], None).await?;
        Ok(Delivery::Done)
    }

    /// Whether messages can be appended to the channel, also while it has no active version.
    fn is_known(&self, tenant: &Tenant, name: &str) -> bool {
        let table = self.table(tenant);
        table.find(name).is_some() || table.is_inactive(name)
    }
}
