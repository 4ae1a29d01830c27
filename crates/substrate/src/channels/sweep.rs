//! Removes expired messages from the beginning of logs, and those that every reader of a queue has read. Messages of groups whose attempts
//! are used up go to the dead-letter channels, also when no member comes for more.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    log::{LogChange, LogKey},
    values::{Range, ValueKey, Within},
};

use super::{
    ChannelError, Channels, LogsAsked,
    place::{CHANNELS, GROUP},
    rules::Envelope,
};

/// How often.
const EVERY: Duration = Duration::from_secs(60);

/// Logs, and messages of one log, that are read at once.
const PAGE: u32 = 256;

impl Channels {
    /// Sweeps once a minute, for ever.
    pub async fn sweep_expired(self: Arc<Self>) {
        let mut is_known = false;
        loop {
            if !is_known {
                is_known = match self.know_groups().await {
                    Ok(()) => true,
                    Err(error) => {
                        tracing::warn!(%error, "consumer groups could not be read; it is tried again");
                        false
                    }
                };
            }
            self.parts.clock.sleep_until(self.parts.clock.now().after(EVERY)).await;
            match self.sweep().await {
                Ok(0) => {}
                Ok(messages) => tracing::debug!(messages, "expired and read messages were removed"),
                Err(error) => tracing::warn!(%error, "expired messages could not be removed; it is tried again"),
            }
            if let Err(error) = self.bury_all().await {
                tracing::warn!(%error, "dead letters could not be moved; it is tried again");
            }
        }
    }

    /// Begins to count the leases of all groups that an earlier process left. Those of this process are known already.
    pub(super) async fn know_groups(&self) -> Result<(), ChannelError> {
        let (range, mut after) = (Range { space: CHANNELS, within: Within::Space }, None::<ValueKey>);
        loop {
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, self.parts.clock.steady()).await?;
            for (key, _) in page.iter().filter(|(key, _)| key.key.starts_with(GROUP)) {
                self.know_group(key).await?;
            }
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Removes expired and read messages; says how many.
    pub(super) async fn sweep(&self) -> Result<u64, ChannelError> {
        let (mut removed, mut after) = (0, None);
        loop {
            let asked = LogsAsked { space: CHANNELS, within: None, after: after.take(), limit: PAGE };
            let page = self.parts.backlog.list_logs(&asked).await?;
            for state in &page {
                if state.kept == 0 {
                    self.forget_read(&state.log);
                    continue;
                }
                removed += self.sweep_log(&state.log).await?;
                removed += self.remove_read(&state.log).await?;
            }
            match page.last() {
                Some(last) if page.len() as u32 == PAGE => {
                    after = Some((last.log.tenant.clone(), last.log.name.clone()));
                }
                _ => return Ok(removed),
            }
        }
    }

    async fn sweep_log(&self, log: &LogKey) -> Result<u64, ChannelError> {
        let now = self.parts.clock.steady();
        let (mut at, mut up_to) = (0, None);
        // Most logs need no sweep: their first message has not expired.
        let mut limit = 1;
        'log: loop {
            let page = self.parts.logs.read_log(log, at, limit).await?;
            let count = page.messages.len() as u32;
            for message in page.messages {
                if Envelope::read(message.body).is_live(now) {
                    break 'log;
                }
                at = message.sequence;
                up_to = Some(at);
            }
            if count < limit {
                break;
            }
            limit = PAGE;
        }
        let Some(up_to) = up_to else { return Ok(0) };
        Ok(self.parts.logs.change_log(LogChange::Trim { log: log.clone(), up_to }, None).await?.result.dropped)
    }
}
