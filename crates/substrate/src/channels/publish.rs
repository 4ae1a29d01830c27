//! Publishing: a message is appended once, or waits for its time.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use drawloom_contract::{
    failure::{Explain as _, FailureKind},
    ids::Digest,
    log::{LogChange, NewMessage},
    once::Applied,
    time::Timestamp,
    values::{ChangeError, Expect, NewValue, Quota, ValueChange},
};
use serde_json::{Value, json};

use super::{
    By, Channel, ChannelError, Channels, MAX_DEFERRED_BYTES, MOST_DEFERRED, MOST_VALUE_BYTES, Place,
    config::MOST_TTL,
    rules::{self, Envelope, show_cursor},
};

/// A message to publish.
#[derive(Debug, Clone, PartialEq)]
pub struct Publish {
    pub value: Value,
    /// How long it can be read once it is visible, in seconds.
    pub ttl: Option<u64>,
    /// When it becomes visible; at once, if absent.
    pub deliver_at: Option<Timestamp>,
    pub deliver_after_ms: Option<u64>,
}

impl Channels {
    /// Publishes a message, once. `index` tells the messages of one call or request apart.
    pub async fn publish(
        &self,
        channel: &Channel,
        place: &Place,
        publish: &Publish,
        by: &By<'_>,
        index: u32,
    ) -> Result<Value, ChannelError> {
        let now = self.parts.clock.steady();
        check_size(&publish.value)?;
        let deliver_at = publish.deliver_at.map(|time| self.parts.clock.meant(time));
        let due = rules::due(deliver_at, publish.deliver_after_ms, now)?;
        let expires_at = rules::expiry(publish.ttl, channel.config.default_ttl, MOST_TTL, due.unwrap_or(now))?;
        let is_deferral = publish.deliver_at.is_some() || publish.deliver_after_ms.is_some();
        // Its time may have come since it was first asked for: then it was deferred under the same key, and is not published here.
        if due.is_none()
            && is_deferral
            && let Some(first) = self.first_answer(place.cursor(None), by, index, now).await?
        {
            return Ok(first);
        }
        let id = self.message_id(by, index, now)?;
        let by_whom = serde_json::to_value(by.writer()).expect("a writer has only text keys");
        let envelope = Envelope { value: publish.value.clone(), expires_at, by: by_whom };
        match due {
            Some(due) => self.defer(channel, place, envelope, id, due, by, index).await,
            None => self.append(channel, place, envelope, id, by, index, now).await,
        }
    }

    /// Publishes one message to several channels, which were checked before. What fails is said for each.
    pub async fn broadcast(
        &self,
        to: &[(Arc<Channel>, Place)],
        publish: &Publish,
        by: &By<'_>,
    ) -> Result<Value, ChannelError> {
        check_size(&publish.value)?;
        let deliver_at = publish.deliver_at.map(|time| self.parts.clock.meant(time));
        rules::due(deliver_at, publish.deliver_after_ms, self.parts.clock.steady())?;
        let (mut results, mut failed) = (Vec::with_capacity(to.len()), 0);
        for (index, (channel, place)) in to.iter().enumerate() {
            match self.publish(channel, place, publish, by, index as u32).await {
                Ok(answer) => results.push(answer),
                // Nothing was published yet: the whole request is refused.
                Err(error) if index == 0 && error.kind() != FailureKind::Unavailable => return Err(error),
                Err(error) => {
                    failed += 1;
                    results.push(json!({ "channel": channel.name, "error": error.to_string(), "code": error.code() }));
                }
            }
        }
        Ok(json!({ "published": to.len() - failed, "failed": failed, "results": results }))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    async fn append(
        &self,
        channel: &Channel,
        place: &Place,
        envelope: Envelope,
        id: String,
        by: &By<'_>,
        index: u32,
        now: Timestamp,
    ) -> Result<Value, ChannelError> {
        let body = self.parts.redactor.clean(envelope.stored());
        let mut answer = json!({ "message_id": id, "channel": channel.name, "published_at": now.to_rfc3339() });
        let mut warnings = Vec::new();
        if body.is_masked() {
            warnings.push(MASKED.to_owned());
        }
        if !warnings.is_empty() {
            answer["warnings"] = json!(warnings);
        }
        let once = self.once(&answer, by, index, now);
        let is_keyed = once.is_some();
        let change = LogChange::Append {
            log: place.log(),
            messages: vec![NewMessage { id, at: now, body }],
            since: 0,
            keep: Some(channel.config.max_messages),
        };
        let Applied { result, answer: first, .. } = self.parts.logs.change_log(change, once).await?;
        let mut answer = if is_keyed { first } else { answer };
        answer["cursor"] = show_cursor(result.sequences.first().copied().unwrap_or(result.head)).into();
        let lost = if result.dropped > 0 { self.lost(place, result.dropped).await? } else { 0 };
        answer["dropped_oldest"] = lost.into();
        if lost > 0 {
            let dropped = format!(
                "channel {:?} was full: its {lost} oldest messages were dropped unread (max_messages is {})",
                channel.name, channel.config.max_messages
            );
            let mut warnings: Vec<Value> = answer["warnings"].as_array().cloned().unwrap_or_default();
            warnings.push(dropped.into());
            answer["warnings"] = warnings.into();
        }
        Ok(answer)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    async fn defer(
        &self,
        channel: &Channel,
        place: &Place,
        envelope: Envelope,
        id: String,
        due: Timestamp,
        by: &By<'_>,
        index: u32,
    ) -> Result<Value, ChannelError> {
        let now = self.parts.clock.steady();
        let waiting = json!({ "channel": channel.name, "id": id, "body": envelope.stored() });
        let value = self.parts.redactor.clean(waiting);
        let mut answer = json!({
            "message_id": id,
            "channel": channel.name,
            "published_at": now.to_rfc3339(),
            "visible_at": due.to_rfc3339(),
            "dropped_oldest": 0,
        });
        if value.is_masked() {
            answer["warnings"] = json!([MASKED]);
        }
        let key = place.deferred(super::deferred::key_of(due, &id));
        let quota = Some(Quota { keys: MOST_DEFERRED, bytes: MAX_DEFERRED_BYTES });
        let to = Some(NewValue { value, expires_at: None, quota, searched: None });
        let once = self.once(&answer, by, index, now);
        let change = ValueChange { key, expect: Expect::Absent, to, at: now };
        match self.change_values(change, answer.clone(), once).await {
            Ok(Applied { answer, .. }) => Ok(answer),
            // The same message, from a caller whose first answer was lost.
            Err(ChangeError::Stale { .. }) => Ok(answer),
            Err(error) => Err(error.into()),
        }
    }

    /// The id of a message: the same for a repeat of the call or request.
    fn message_id(&self, by: &By<'_>, index: u32, now: Timestamp) -> Result<String, ChannelError> {
        let name = match by {
            By::Call(context) => format!("{} {} {index}", context.run.run, context.call),
            By::Request { key: Some(key), .. } => {
                format!("{} {} {} {} {index}", key.tenant, key.subject, key.operation, key.key)
            }
            By::Request { key: None, .. } => {
                let mut bytes = [0; 16];
                self.parts.entropy.fill(&mut bytes)?;
                // Different also where the random bytes are not.
                let number = u128::from(self.published.fetch_add(1, Ordering::Relaxed));
                let random = (u128::from_be_bytes(bytes) ^ number) & (u128::MAX >> 48);
                // It begins with the time, so that the index over ids grows at its end and a commit writes few of its pages.
                return Ok(format!("msg_{:012x}{random:020x}", now.as_millis() & 0xffff_ffff_ffff));
            }
        };
        let digest = Digest::of(name.as_bytes());
        let half: [u8; 16] = digest.as_bytes()[..16].try_into().expect("half of a digest");
        Ok(format!("msg_{:032x}", u128::from_be_bytes(half)))
    }
}

const MASKED: &str = "the value contains a secret, which is masked in the stored message";

pub(super) fn check_size(value: &Value) -> Result<(), ChannelError> {
    let mut bytes = Counter(0);
    serde_json::to_writer(&mut bytes, value).expect("a value can be written");
    let Counter(bytes) = bytes;
    match bytes > MOST_VALUE_BYTES {
        true => Err(ChannelError::TooLarge { bytes, most: MOST_VALUE_BYTES }),
        false => Ok(()),
    }
}

/// Counts what is written to it.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0 += part.len();
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
