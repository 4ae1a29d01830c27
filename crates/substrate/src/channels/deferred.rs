//! Deferred messages: values that sort by their time, appended when that has come.
//!
//! They are never in the log before: a cursor would pass them. The append has a key of its own, then the value goes: a crash in between
//! appends nothing twice.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use drawloom_contract::{
    journal::StoreError,
    log::{LogChange, LogKey, NewMessage},
    time::Timestamp,
    values::{Range, Seen, ValueChange, ValueKey, WatchFrom, Within},
};
use futures::StreamExt as _;

use super::{
    ChannelError, Channels,
    place::{CHANNELS, DEFERRED},
};

/// Longest sleep: the wall clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// How long a message that could not be appended waits.
const RETRY: Duration = Duration::from_secs(1);

/// The key of a deferred message: its time, then its id.
pub(super) fn key_of(due: Timestamp, id: &str) -> String {
    format!("{:020}/{id}", due.as_millis())
}

fn due_of(key: &ValueKey) -> Option<Timestamp> {
    key.key.get(..20)?.parse().ok().map(Timestamp::from_millis)
}

impl Channels {
    /// Whether a message waits for its time.
    pub async fn has_deferred(&self) -> Result<bool, StoreError> {
        let range = Range { space: DEFERRED, within: Within::Space };
        Ok(!self.parts.values.list_values(&range, None, 1, self.parts.clock.wall()).await?.is_empty())
    }

    /// Appends deferred messages when their time has come, for ever. What was due while no server ran is appended first.
    pub async fn deliver_deferred(self: Arc<Self>) {
        loop {
            let range = Range { space: DEFERRED, within: Within::Space };
            let mut watch = self.parts.values.watch(&range, WatchFrom::Start);
            let mut waiting: BTreeSet<(Timestamp, ValueKey)> = BTreeSet::new();
            let mut is_caught_up = false;
            loop {
                let now = self.parts.clock.wall();
                // In the order of their times, which is known once all were told.
                while is_caught_up && let Some((due, key)) = waiting.pop_first() {
                    if due > now {
                        waiting.insert((due, key));
                        break;
                    }
                    if let Err(error) = self.deliver(&key).await {
                        tracing::warn!(%error, "a deferred message could not be published; it is tried again");
                        waiting.insert((now.after(RETRY), key));
                        break;
                    }
                }
                let next = waiting.first().map(|(due, _)| due.since(self.parts.clock.wall()));
                let sleep = next.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                let until = self.parts.clock.now().after(sleep);
                tokio::select! {
                    seen = watch.next() => match seen {
                        Some(Seen::Is { key, kept, .. }) => {
                            if let Some(due) = due_of(&key) {
                                match kept {
                                    Some(_) => _ = waiting.insert((due, key)),
                                    None => _ = waiting.remove(&(due, key)),
                                }
                            }
                        }
                        Some(Seen::CaughtUp) => is_caught_up = true,
                        Some(Seen::Gap) => break,
                        // The store is closed.
                        None => return,
                    },
                    () = self.parts.clock.sleep_until(until) => {}
                }
            }
        }
    }

    /// Appends one message, once, then removes it from those that wait.
    pub(super) async fn deliver(&self, key: &ValueKey) -> Result<(), ChannelError> {
        let now = self.parts.clock.wall();
        let Some(kept) = self.parts.values.find_value(key, now).await? else { return Ok(()) };
        let name = kept.value["channel"].as_str().unwrap_or_default().to_owned();
        let table = self.table(&key.tenant);
        // A channel without an active version keeps what it has; its next version says how much.
        let keep = match table.find(&name) {
            Some(channel) => Some(Some(channel.config.max_messages)),
            None => table.is_inactive(&name).then_some(None),
        };
        match keep {
            Some(keep) => {
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
            None => tracing::warn!(channel = name, "a deferred message was dropped: its channel was deleted"),
        }
        self.parts.values.change(vec![ValueChange::remove(key.clone(), now)], None).await?;
        Ok(())
    }
}
