//! Reading: subscribe, peek, acknowledge by cursor, await.

use std::time::Duration;

use drawloom_contract::{
    log::{LogChange, Message},
    once::Applied,
    time::Timestamp,
    values::{ChangeError, Expect, NewValue, Quota, ValueChange, ValueKey},
};
use serde_json::{Value, json};

use super::{
    By, Channel, ChannelError, Channels, MOST_CONSUMERS, MOST_PAGE, Place, Semantic, TRIES,
    place::check_consumer,
    rules::{self, Envelope, show_cursor},
};

/// Messages that one look at the log reads.
const CHUNK: u32 = 256;

/// Bytes of a message, when it is guessed how many are read at once.
const USUAL_MESSAGE: u64 = 4 * 1024;

/// So many expired messages at the beginning of a log are removed by the reader that finds them.
pub(super) const TRIM: u64 = 256;

/// How long a consumer's cursor is kept after its last move.
const CURSOR_LIFE: Duration = Duration::from_secs(90 * 86_400);

/// What to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscribe {
    /// Which consumer reads a broadcast channel; the agent or the user, if absent.
    pub consumer: Option<String>,
    /// The consumer group whose member reads.
    pub group: Option<String>,
    /// Lease of a group's messages, if it is not the channel's.
    pub lease_ms: Option<u64>,
    pub from: Option<u64>,
    pub max_messages: u32,
    /// Maximum bytes of the values. The first message comes whatever its size.
    pub bytes: u64,
}

/// What a subscribe found.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    Messages(Value),
    Nothing(Nothing),
}

/// There was nothing to read, and what to wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Nothing {
    /// The committed cursor.
    pub cursor: u64,
    /// Everything up to here was looked at.
    pub after: u64,
    /// The record of the group, and its revision.
    pub group: Option<(ValueKey, u64)>,
    /// When a lease of the group is over, which no event tells.
    pub look_again: Option<Duration>,
    pub warnings: Vec<String>,
}

/// Messages after a cursor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub messages: Vec<(Message, Envelope)>,
    /// Everything up to here was looked at, also what has expired.
    pub reached: u64,
    pub first: u64,
    pub head: u64,
}

/// What one channel of an `await` has.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    pub page: Page,
    /// After which sequence it was read.
    pub after: u64,
    /// `next_cursor`, which `ack` accepts.
    pub next: u64,
}

impl Looked {
    /// What callers see.
    pub fn shown(&self, channel: &Channel) -> Value {
        answer_of(channel, &self.page, self.after, self.next)
    }
}

impl Nothing {
    /// The answer of a subscribe whose wait is over.
    pub fn shown(&self, channel: &Channel, ask: &Subscribe) -> Value {
        let mut answer = json!({
            "channel": channel.name,
            "messages": [],
            "next_cursor": show_cursor(self.cursor),
            "more": false,
            "timed_out": true,
        });
        if let Some(group) = &ask.group {
            answer["group"] = group.as_str().into();
        }
        if !self.warnings.is_empty() {
            answer["warnings"] = json!(self.warnings);
        }
        answer
    }
}

impl Page {
    /// The last message, or the cursor when there is none.
    fn next(&self, cursor: u64) -> u64 {
        self.messages.last().map_or(cursor, |(message, _)| message.sequence)
    }
}

impl Channels {
    /// Takes messages: they are not delivered again, unless a group's member does not acknowledge them.
    pub async fn subscribe(
        &self,
        channel: &Channel,
        place: &Place,
        ask: &Subscribe,
        by: &By<'_>,
    ) -> Result<Taken, ChannelError> {
        match &ask.group {
            Some(group) => {
                if ask.consumer.is_some() || ask.from.is_some() {
                    let message = "group cannot be combined with consumer or from_cursor".to_owned();
                    return Err(ChannelError::BadFields(message));
                }
                self.take(channel, place, group, ask, by).await
            }
            None if ask.lease_ms.is_some() => Err(ChannelError::BadFields("lease_ms requires group".into())),
            None => self.read_on(channel, place, ask, by).await,
        }
    }

    /// Reads after the cursor, and moves it in the same change that keeps the answer.
    async fn read_on(
        &self,
        channel: &Channel,
        place: &Place,
        ask: &Subscribe,
        by: &By<'_>,
    ) -> Result<Taken, ChannelError> {
        let key = self.cursor_key(channel, place, ask.consumer.as_deref(), by)?;
        let _alone = self.lock(&key).await;
        let mut looked = None;
        for _ in 0..TRIES {
            let now = self.parts.clock.steady();
            let (committed, revision) = self.cursor(&key, now).await?;
            let head = if ask.from.is_some() { self.parts.logs.head(&place.log()).await? } else { 0 };
            let after = match rules::start(committed, ask.from, head) {
                Ok(after) => after,
                // What was done before under the same key is still done.
                Err(refusal) => {
                    let stored = self.first_answer(key, by, 0, now).await?.ok_or(ChannelError::from(refusal))?;
                    return Ok(Taken::Messages(self.read_again(place, stored).await?));
                }
            };
            let page = self.page(place, after, ask.max_messages, ask.bytes, now).await?;
            if page.messages.is_empty() {
                let reached = page.reached.max(after);
                looked = Some((committed, reached));
                // Expired messages behind a live one stay in the log: without a move every read looks through them again.
                if after == committed && after >= page.first && reached - after >= TRIM {
                    let change = self.move_cursor(channel, &key, reached, revision, now);
                    match self.parts.values.change(vec![change], None).await {
                        Ok(_) => looked = Some((reached, reached)),
                        // Only time is lost.
                        Err(ChangeError::Stale { .. } | ChangeError::OverQuota { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                break;
            }
            let next = page.next(after);
            let answer = answer_of(channel, &page, begun(channel, &page, after, revision.is_none()), next);
            let change = self.move_cursor(channel, &key, next, revision, now);
            match self.take_once(place, change, answer, by, now).await {
                Ok((taken, _)) => return Ok(Taken::Messages(taken)),
                Err(ChannelError::Change(ChangeError::Stale { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        let Some((cursor, after)) = looked else { return Err(ChannelError::Busy(channel.name.clone())) };
        if let Some(first) = self.first_answer(key, by, 0, self.parts.clock.steady()).await? {
            return Ok(Taken::Messages(self.read_again(place, first).await?));
        }
        Ok(Taken::Nothing(Nothing { cursor, after, group: None, look_again: None, warnings: Vec::new() }))
    }

    /// Reads without taking. The answer has a cursor that `ack` accepts.
    pub async fn peek(
        &self,
        channel: &Channel,
        place: &Place,
        ask: &Subscribe,
        by: &By<'_>,
    ) -> Result<Value, ChannelError> {
        let Looked { page, after, next } = self.look(channel, place, ask, by).await?;
        Ok(answer_of(channel, &page, after, next))
    }

    /// What a channel has after a cursor, or after the committed one.
    pub async fn look(
        &self,
        channel: &Channel,
        place: &Place,
        ask: &Subscribe,
        by: &By<'_>,
    ) -> Result<Looked, ChannelError> {
        let now = self.parts.clock.steady();
        let key = self.cursor_key(channel, place, ask.consumer.as_deref(), by)?;
        let (after, is_new) = match ask.from {
            Some(from) => (from, false),
            None => {
                let (after, revision) = self.cursor(&key, now).await?;
                (after, revision.is_none())
            }
        };
        let page = self.page(place, after, ask.max_messages, ask.bytes, now).await?;
        if ask.from.is_some() {
            rules::within(after, page.head)?;
        }
        let next = page.next(after);
        Ok(Looked { after: begun(channel, &page, after, is_new), next, page })
    }

    /// Moves the cursor: messages up to it are not delivered again.
    pub async fn ack(
        &self,
        channel: &Channel,
        place: &Place,
        consumer: Option<&str>,
        cursor: u64,
        by: &By<'_>,
    ) -> Result<Value, ChannelError> {
        let key = self.cursor_key(channel, place, consumer, by)?;
        let _alone = self.lock(&key).await;
        for _ in 0..TRIES {
            let now = self.parts.clock.steady();
            let (committed, revision) = self.cursor(&key, now).await?;
            let head = self.parts.logs.head(&place.log()).await?;
            let next = match rules::moved(committed, cursor, head) {
                Ok(next) => next,
                Err(refusal) => return self.first_answer(key, by, 0, now).await?.ok_or(refusal.into()),
            };
            let answer = json!({ "ok": true, "channel": channel.name, "cursor": show_cursor(next) });
            let once = self.once(&answer, by, 0, now);
            if next == committed && once.is_none() {
                return Ok(answer);
            }
            let change = self.move_cursor(channel, &key, next, revision, now);
            match self.change_values(change, answer, once).await {
                Ok(Applied { answer, .. }) => return Ok(answer),
                Err(ChangeError::Stale { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ChannelError::Busy(channel.name.clone()))
    }

    /// The newest sequence that was ever assigned; 0 before the first.
    pub async fn head(&self, place: &Place) -> Result<u64, ChannelError> {
        Ok(self.parts.logs.head(&place.log()).await?)
    }

    /// Live messages after a sequence, in order.
    pub async fn page(
        &self,
        place: &Place,
        after: u64,
        limit: u32,
        bytes: u64,
        now: Timestamp,
    ) -> Result<Page, ChannelError> {
        let log = place.log();
        let limit = limit.clamp(1, MOST_PAGE);
        // What is not returned should not be read either: messages can be long.
        let first = limit.min(u32::try_from(bytes / USUAL_MESSAGE).unwrap_or(limit).max(1));
        let mut page = Page { reached: after, ..Page::default() };
        let (mut at, mut size, mut chunk) = (after, 0u64, first);
        let (mut expired, mut dead_until) = (0u64, None);
        'chunks: loop {
            let read = self.parts.logs.read_log(&log, at, chunk).await?;
            (page.first, page.head) = (read.first, read.head);
            let count = read.messages.len();
            for message in read.messages {
                at = message.sequence;
                let envelope = Envelope::read(message.body.clone());
                if !envelope.is_live(now) {
                    expired += 1;
                    if page.messages.is_empty() && after < read.first {
                        dead_until = Some(at);
                    }
                    page.reached = at;
                    continue;
                }
                size += envelope.value.to_string().len() as u64;
                if size > bytes && !page.messages.is_empty() {
                    break 'chunks;
                }
                page.reached = at;
                page.messages.push((message, envelope));
                if page.messages.len() as u32 == limit {
                    break 'chunks;
                }
            }
            if (count as u32) < chunk {
                page.reached = page.reached.max(read.head);
                break;
            }
            // Many that have expired are passed in few steps.
            chunk = if expired > 0 { CHUNK } else { first };
        }
        // A log that begins with expired messages would be looked through by every reader until the sweeper comes.
        if let Some(up_to) = dead_until.filter(|_| expired >= TRIM) {
            self.parts.logs.change_log(LogChange::Trim { log, up_to }, None).await?;
        }
        Ok(page)
    }

    /// Where a reader is, and the revision of that; at the beginning when nothing is stored.
    pub(super) async fn cursor(&self, key: &ValueKey, now: Timestamp) -> Result<(u64, Option<u64>), ChannelError> {
        let kept = self.parts.values.find_value(key, now).await?;
        Ok(kept.map_or((0, None), |kept| (kept.value["after"].as_u64().unwrap_or(0), Some(kept.revision))))
    }

    fn move_cursor(
        &self,
        channel: &Channel,
        key: &ValueKey,
        next: u64,
        revision: Option<u64>,
        now: Timestamp,
    ) -> ValueChange {
        let value = self.parts.redactor.clean(json!({ "after": next }));
        let expires_at = match channel.config.semantic.plain() {
            Semantic::Queue => None,
            Semantic::Broadcast | Semantic::Topic => Some(now.after(CURSOR_LIFE)),
        };
        let quota = Some(Quota { keys: MOST_CONSUMERS, bytes: u64::MAX >> 1 });
        let to = Some(NewValue { value, expires_at, quota, searched: None });
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        ValueChange { key: key.clone(), expect, to, at: now }
    }

    /// Whose cursor: on a queue all readers share one, on a broadcast channel each consumer has its own.
    fn cursor_key(
        &self,
        channel: &Channel,
        place: &Place,
        consumer: Option<&str>,
        by: &By<'_>,
    ) -> Result<ValueKey, ChannelError> {
        match (channel.config.semantic.plain(), consumer) {
            (Semantic::Queue, None) => Ok(place.cursor(None)),
            (Semantic::Queue, Some(_)) => {
                let message = format!(
                    "channel {:?} is a queue, whose readers share one cursor: consumer cannot be used (group can)",
                    channel.name
                );
                Err(ChannelError::BadFields(message))
            }
            (Semantic::Broadcast | Semantic::Topic, consumer) => {
                if let Some(consumer) = consumer {
                    check_consumer("consumer", consumer)?;
                }
                Ok(place.cursor(Some(&consumer_of(by, consumer))))
            }
        }
    }
}

/// A consumer's name: within its user, the one it gave, or that of the agent. No given name has a slash, so they never meet.
fn consumer_of(by: &By<'_>, given: Option<&str>) -> String {
    match (by, given) {
        (By::Call(context), Some(given)) => format!("user/{}/{given}", context.user),
        (By::Call(context), None) => format!("user/{}/agent/{}", context.user, context.definition.name),
        (By::Request { caller, .. }, Some(given)) => format!("user/{}/{given}", caller.subject),
        (By::Request { caller, .. }, None) => format!("user/{}", caller.subject),
    }
}

/// Where a reader begins: a new consumer of a broadcast channel has missed nothing.
fn begun(channel: &Channel, page: &Page, after: u64, is_new: bool) -> u64 {
    match channel.config.semantic.plain() {
        Semantic::Broadcast | Semantic::Topic if is_new => page.first.saturating_sub(1).max(after),
        _ => after,
    }
}

/// A message as readers see it.
pub(super) fn shown(message: &Message, envelope: &Envelope) -> Value {
    json!({
        "id": message.id,
        "value": envelope.value,
        "published_at": message.at.to_rfc3339(),
        "cursor": show_cursor(message.sequence),
    })
}

/// The answer of a read.
pub(super) fn answer_of(channel: &Channel, page: &Page, after: u64, next: u64) -> Value {
    let messages: Vec<Value> = page.messages.iter().map(|(message, envelope)| shown(message, envelope)).collect();
    let mut answer = json!({
        "channel": channel.name,
        "messages": messages,
        "next_cursor": show_cursor(next),
        "more": page.head > next && !page.messages.is_empty() && page.reached < page.head,
    });
    let missed = rules::missed(after, page.first);
    if missed > 0 && page.first > 0 {
        answer["missed"] = missed.into();
        answer["warnings"] =
            json!([format!("{missed} messages after {} were dropped, purged or expired unread", show_cursor(after))]);
    }
    answer
}
