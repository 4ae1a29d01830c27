//! Consumer groups: members take messages under leases; what they do not acknowledge comes back.
//!
//! Whether a lease is over is judged by this process's own clock that never jumps, from the moment it saw the lease begin. After a restart
//! counting begins anew. The epoch in a lease fences: a member whose lease was taken over is refused.

use std::{
    collections::{HashMap, HashSet},
    sync::{LazyLock, MutexGuard, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    log::{LogChange, Message, NewMessage},
    once::Applied,
    time::{Instant, Timestamp},
    values::{ChangeError, Expect, NewValue, Quota, ValueChange, ValueKey},
};
use serde_json::{Value, json};

use super::{
    By, Channel, ChannelError, ChannelOwner, ChannelScope, Channels, MOST_CONSUMERS, MOST_PAGE, Nothing, Place,
    Subscribe, TRIES, Taken,
    config::{LEAST_LEASE_MS, MOST_LEASE_MS},
    group::{Flight, Group, Lease, MOST_IN_FLIGHT, Settle, Settled, Take},
    place::{GROUP, check_consumer},
    read::{TRIM, shown},
    rules::{Envelope, Refusal, missed, show_cursor},
};

impl Channels {
    /// Takes messages for a member of a group: those that came back first.
    pub(super) async fn take(
        &self,
        channel: &Channel,
        place: &Place,
        group: &str,
        ask: &Subscribe,
        by: &By<'_>,
    ) -> Result<Taken, ChannelError> {
        check_consumer("group", group)?;
        let lease_ms = lease_of(channel, ask.lease_ms)?;
        let key = place.group(group);
        let most = ask.max_messages.clamp(1, MOST_PAGE) as usize;
        let _alone = self.lock(&key).await;
        // Messages that left the group in a change without an answer.
        let mut left_before = 0;
        for _ in 0..TRIES {
            let (now, wall) = (self.parts.clock.now(), self.parts.clock.steady());
            let (record, revision) = self.group(&key, wall).await?;
            let (again, dead) = {
                let mut leases = self.leases();
                let seen = seen_of(&mut leases, &key, &record, now);
                let max_attempts = channel.dead_letter().map(|_| channel.config.max_attempts);
                record.over(max_attempts, |flight| is_over(seen, flight, now))
            };
            let mut gone = self.bury_some(channel, place, group, &dead, wall).await?;
            let (mut delivered, mut size) = (Vec::new(), 0);
            let mut lost = 0;
            for flight in again.iter().take(most) {
                match self.message(place, flight.sequence, wall).await? {
                    Some((message, envelope)) => {
                        size += envelope.value.to_string().len() as u64;
                        if size > ask.bytes && !delivered.is_empty() {
                            break;
                        }
                        delivered.push((message, envelope));
                    }
                    None => {
                        lost += 1;
                        gone.push(flight.sequence);
                    }
                }
            }
            let is_cut = again.len() as u64 > delivered.len() as u64 + lost;
            let again: Vec<u64> = delivered.iter().map(|(message, _)| message.sequence).collect();
            let room = record.room(gone.len());
            let left = most.saturating_sub(again.len()).min(room);
            let mut unread = 0;
            let mut reached = record.floor;
            let mut is_more = false;
            let mut first_kept = u64::MAX;
            if left > 0 && (delivered.is_empty() || size < ask.bytes) {
                let bytes = ask.bytes.saturating_sub(size);
                let page = self.page(place, record.floor, left as u32, bytes, wall).await?;
                let is_new = revision.is_none();
                unread = if is_new { 0 } else { missed(record.floor, page.first) };
                (reached, is_more) = (page.reached, page.reached < page.head);
                first_kept = page.first;
                delivered.extend(page.messages);
            } else if room > 0 {
                is_more = self.parts.logs.head(&place.log()).await? > record.floor;
            }
            let new: Vec<u64> = delivered[again.len()..].iter().map(|(message, _)| message.sequence).collect();
            if delivered.is_empty() && gone.is_empty() {
                if let Some(first) = self.first_answer(key.clone(), by, 0, wall).await? {
                    return Ok(Taken::Messages(self.read_again(place, first).await?));
                }
                // Expired messages behind a live one stay in the log: without a move every take looks through them again.
                if record.floor >= first_kept && reached.saturating_sub(record.floor) >= TRIM {
                    let next = Group { floor: reached, ..record.clone() };
                    let change = self.group_change(&key, &next, revision, wall);
                    match self.parts.values.change(vec![change], None).await {
                        Ok(_) | Err(ChangeError::Stale { .. }) => continue,
                        // Only time is lost.
                        Err(ChangeError::OverQuota { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                let mut nothing = self.nothing(key, &record, revision, reached, now);
                nothing.warnings.extend((left_before > 0).then(|| dropped_warning(left_before)));
                return Ok(Taken::Nothing(nothing));
            }
            let (next, flights) = record.take(&Take { again: &again, new: &new, gone: &gone, lease_ms });
            let messages: Vec<Value> = delivered
                .iter()
                .zip(&flights)
                .map(|((message, envelope), flight)| {
                    let mut message = shown(message, envelope);
                    message["attempt"] = flight.attempt.into();
                    message["lease"] = flight.lease().to_string().into();
                    message
                })
                .collect();
            let mut answer = json!({
                "channel": channel.name,
                "group": group,
                "messages": messages,
                "lease_ms": lease_ms,
                "next_cursor": show_cursor(next.floor),
                "more": is_more || is_cut,
            });
            let dropped = unread + lost + left_before;
            if dropped > 0 {
                answer["missed"] = dropped.into();
                answer["warnings"] = json!([dropped_warning(dropped)]);
            }
            // Messages that only leave the group are no answer: they are put away, and the rest is looked at again.
            let change = self.group_change(&key, &next, revision, wall);
            if delivered.is_empty() {
                match self.parts.values.change(vec![change], None).await {
                    Ok(_) => left_before += lost,
                    Err(ChangeError::Stale { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            match self.take_once(place, change, answer, by, wall).await {
                Ok((answer, repeated)) => {
                    if !repeated {
                        self.begin_leases(&key, &flights);
                    }
                    return Ok(Taken::Messages(answer));
                }
                Err(ChannelError::Change(ChangeError::Stale { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ChannelError::Busy(channel.name.clone()))
    }

    /// Acknowledges, gives back or extends messages that a member has. Leases that are lost are named; when all are, it is refused.
    pub async fn settle(
        &self,
        channel: &Channel,
        place: &Place,
        group: &str,
        leases: &[Lease],
        settle: Settle,
        by: &By<'_>,
    ) -> Result<Value, ChannelError> {
        check_consumer("group", group)?;
        if leases.is_empty() || leases.len() > MOST_IN_FLIGHT {
            let message = format!("leases must name 1 to {MOST_IN_FLIGHT} leases, not {}", leases.len());
            return Err(ChannelError::BadFields(message));
        }
        let settle = match settle {
            Settle::Extend { lease_ms } => Settle::Extend { lease_ms: lease_of(channel, Some(lease_ms))? },
            Settle::Ack | Settle::Nak => settle,
        };
        // A lease that is named twice is settled once.
        let mut named = HashSet::new();
        let leases: Vec<Lease> = leases.iter().copied().filter(|lease| named.insert(*lease)).collect();
        let key = place.group(group);
        let _alone = self.lock(&key).await;
        for _ in 0..TRIES {
            let wall = self.parts.clock.steady();
            let (record, revision) = self.group(&key, wall).await?;
            let (next, settled) = record.settle(&leases, settle);
            let names = |leases: &[Lease]| leases.iter().map(Lease::to_string).collect::<Vec<_>>();
            let Settled { held, lost } = settled;
            if held.is_empty() {
                let refused = match lost.iter().any(|lease| record.has_given(lease)) {
                    _ if revision.is_none() => {
                        ChannelError::UnknownGroup { channel: channel.name.clone(), group: group.to_owned() }
                    }
                    true => ChannelError::LeaseLost(names(&lost)),
                    false => Refusal::BadLease(names(&lost).join(", ")).into(),
                };
                return self.first_answer(key, by, 0, wall).await?.ok_or(refused);
            }
            let mut answer = json!({ "ok": true, "channel": channel.name, "group": group, "settled": held.len() });
            if let Settle::Extend { lease_ms } = settle {
                answer["leases"] = json!(names(&held));
                answer["lease_ms"] = lease_ms.into();
            }
            if !lost.is_empty() {
                answer["lost"] = json!(names(&lost));
                let warning =
                    format!("{} leases were lost: their messages went to others or were settled before", lost.len());
                answer["warnings"] = json!([warning]);
            }
            let once = self.once(&answer, by, 0, wall);
            let change = self.group_change(&key, &next, revision, wall);
            match self.change_values(change, answer, once).await {
                Ok(Applied { answer, repeated, .. }) => {
                    let extended = next.in_flight.iter().filter(|flight| held.contains(&flight.lease()));
                    if !repeated {
                        self.begin_leases(&key, &extended.copied().collect::<Vec<_>>());
                        if next.in_flight.is_empty() {
                            self.leases().remove(&key);
                        }
                    }
                    return Ok(answer);
                }
                Err(ChangeError::Stale { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ChannelError::Busy(channel.name.clone()))
    }

    /// Moves messages whose attempts are used up to the dead-letter channels, of all groups that have messages in flight.
    pub(super) async fn bury_all(&self) -> Result<(), ChannelError> {
        let keys: Vec<ValueKey> = self.leases().keys().cloned().collect();
        for key in &keys {
            let place = Place::named(key.tenant.clone(), &key.owner);
            let (Some(place), Some(group)) = (place, key.key.strip_prefix(GROUP)) else { continue };
            match self.find(place.tenant(), place.channel()) {
                Some(channel) => self.bury_over(&channel, &place, group, key).await?,
                // Deleted with its groups, or without an active version.
                None => self.know_group(key).await?,
            }
        }
        Ok(())
    }

    /// The same for one group.
    async fn bury_over(
        &self,
        channel: &Channel,
        place: &Place,
        group: &str,
        key: &ValueKey,
    ) -> Result<(), ChannelError> {
        let Some(max_attempts) = channel.dead_letter().map(|_| channel.config.max_attempts) else { return Ok(()) };
        let _alone = self.lock(key).await;
        for _ in 0..TRIES {
            let (now, wall) = (self.parts.clock.now(), self.parts.clock.steady());
            let (record, revision) = self.group(key, wall).await?;
            let (_, dead) = {
                let mut leases = self.leases();
                let seen = seen_of(&mut leases, key, &record, now);
                record.over(Some(max_attempts), |flight| is_over(seen, flight, now))
            };
            if dead.is_empty() {
                return Ok(());
            }
            let gone = self.bury_some(channel, place, group, &dead, wall).await?;
            let (next, _) = record.take(&Take { gone: &gone, ..Take::default() });
            let change = self.group_change(key, &next, revision, wall);
            match self.parts.values.change(vec![change], None).await {
                Ok(_) | Err(ChangeError::Stale { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The rest comes with the next sweep.
        Ok(())
    }

    /// Notes the leases of a group, so that they are counted from now on.
    pub(super) async fn know_group(&self, key: &ValueKey) -> Result<(), ChannelError> {
        let _alone = self.lock(key).await;
        let (record, _) = self.group(key, self.parts.clock.steady()).await?;
        seen_of(&mut self.leases(), key, &record, self.parts.clock.now());
        Ok(())
    }

    /// Buries the first of `dead`, and says which leave the group.
    async fn bury_some(
        &self,
        channel: &Channel,
        place: &Place,
        group: &str,
        dead: &[Flight],
        now: Timestamp,
    ) -> Result<Vec<u64>, ChannelError> {
        let mut gone = Vec::new();
        for flight in dead.iter().take(MOST_PAGE as usize) {
            if let Some((message, envelope)) = self.message(place, flight.sequence, now).await? {
                self.bury(channel, place, group, flight, &message, envelope, now).await?;
            }
            gone.push(flight.sequence);
        }
        Ok(gone)
    }

    /// What to wait for when a group has nothing to deliver.
    fn nothing(&self, key: ValueKey, record: &Group, revision: Option<u64>, reached: u64, now: Instant) -> Nothing {
        let mut leases = self.leases();
        let seen = seen_of(&mut leases, &key, record, now);
        let left = record.in_flight.iter().map(|flight| {
            let began = seen.get(&flight.lease()).copied().unwrap_or(now);
            Duration::from_millis(flight.lease_ms).saturating_sub(now.since(began))
        });
        let look_again = left.min();
        let is_full = record.room(0) == 0;
        let warnings = is_full.then(|| {
            format!("the group has {MOST_IN_FLIGHT} messages without an acknowledgement; acknowledge some to get more")
        });
        // A full group reads nothing, however much the channel grows: its record must change first.
        let after = if is_full { u64::MAX } else { reached };
        let group = Some((key, revision.unwrap_or(0)));
        Nothing { cursor: record.floor, after, group, look_again, warnings: warnings.into_iter().collect() }
    }

    async fn group(&self, key: &ValueKey, now: Timestamp) -> Result<(Group, Option<u64>), ChannelError> {
        let Some(kept) = self.parts.values.find_value(key, now).await? else { return Ok((Group::default(), None)) };
        let record = serde_json::from_value(kept.value).map_err(|error| {
            let detail = format!("the group {:?} cannot be read: {error}", key.key);
            ChannelError::Store(drawloom_contract::journal::StoreError::Failed { store: "the store".into(), detail })
        })?;
        Ok((record, Some(kept.revision)))
    }

    fn group_change(&self, key: &ValueKey, next: &Group, revision: Option<u64>, now: Timestamp) -> ValueChange {
        let value = serde_json::to_value(next).expect("a group has only text keys");
        let quota = Some(Quota { keys: MOST_CONSUMERS, bytes: u64::MAX >> 1 });
        let to = Some(NewValue { value: self.parts.redactor.clean(value), expires_at: None, quota, searched: None });
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        ValueChange { key: key.clone(), expect, to, at: now }
    }

    /// A live message.
    async fn message(
        &self,
        place: &Place,
        sequence: u64,
        now: Timestamp,
    ) -> Result<Option<(Message, Envelope)>, ChannelError> {
        let page = self.parts.logs.read_log(&place.log(), sequence.saturating_sub(1), 1).await?;
        let found = page.messages.into_iter().find(|message| message.sequence == sequence);
        let found = found.map(|message| {
            let envelope = Envelope::read(message.body.clone());
            (message, envelope)
        });
        Ok(found.filter(|(_, envelope)| envelope.is_live(now)))
    }

    /// Appends a message to the dead-letter channel, once. The record of the group changes afterwards: a crash in between loses nothing,
    /// and the key keeps the message from being appended twice.
    #[expect(clippy::too_many_arguments, reason = "the parts of one dead letter")]
    async fn bury(
        &self,
        channel: &Channel,
        place: &Place,
        group: &str,
        flight: &Flight,
        message: &Message,
        envelope: Envelope,
        now: Timestamp,
    ) -> Result<(), ChannelError> {
        let Some(name) = channel.dead_letter() else { return Ok(()) };
        let dead = self.find(place.tenant(), &name);
        let keep = dead.as_ref().map(|dead| dead.config.max_messages);
        // Its own scope says who reads it.
        let at = match dead.as_ref().map(|dead| dead.config.scope.plain()) {
            Some(ChannelScope::Tenant) => Place::new(place.tenant().clone(), &name, ChannelOwner::Tenant),
            Some(scope) if scope != channel.config.scope.plain() => {
                // Such a pair is refused when it is made; a channel that was deleted or made by an older version can leave one.
                tracing::warn!(channel = channel.name, dead_letter = name, "the dead-letter channel has another scope");
                place.beside(&name)
            }
            _ => place.beside(&name),
        };
        let value = json!({
            "value": envelope.value,
            "channel": channel.name,
            "group": group,
            "message_id": message.id,
            "published_at": message.at.to_rfc3339(),
            "attempts": flight.attempt,
            "reason": format!("not acknowledged after {} deliveries to the group {group}", flight.attempt),
        });
        let body = Envelope { value, expires_at: None, by: envelope.by };
        let id = format!("{}.{group}", message.id);
        let name_of_change = format!("{} {group} {}", place.name(), flight.sequence);
        let once = Self::own_key(place.tenant(), "dead_letter", &name_of_change, now, &self.parts.redactor);
        let change = LogChange::Append {
            log: at.log(),
            messages: vec![NewMessage { id, at: now, body: self.parts.redactor.clean(body.stored()) }],
            since: 0,
            keep,
        };
        let dropped = self.parts.logs.change_log(change, Some(once)).await?.result.dropped;
        if dropped > 0 {
            tracing::warn!(
                channel = name,
                dropped,
                "the dead-letter channel is full; its oldest messages were dropped"
            );
        }
        tracing::warn!(
            channel = channel.name,
            group,
            message = message.id,
            dead_letter = name,
            "message not acknowledged"
        );
        Ok(())
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<ValueKey, HashMap<Lease, Instant>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_leases(&self, key: &ValueKey, flights: &[Flight]) {
        if flights.is_empty() {
            return;
        }
        let now = self.parts.clock.now();
        let mut leases = self.leases();
        let seen = leases.entry(key.clone()).or_default();
        seen.extend(flights.iter().map(|flight| (flight.lease(), now)));
    }
}

/// When this process first saw each lease of a record; those that it has no more are forgotten.
fn seen_of<'a>(
    leases: &'a mut HashMap<ValueKey, HashMap<Lease, Instant>>,
    key: &ValueKey,
    record: &Group,
    now: Instant,
) -> &'a HashMap<Lease, Instant> {
    // A group without messages has no entry: there may be ever new groups.
    static NONE: LazyLock<HashMap<Lease, Instant>> = LazyLock::new(HashMap::new);
    if record.in_flight.is_empty() {
        leases.remove(key);
        return &NONE;
    }
    let seen = leases.entry(key.clone()).or_default();
    *seen = record
        .in_flight
        .iter()
        .map(|flight| (flight.lease(), seen.get(&flight.lease()).copied().unwrap_or(now)))
        .collect();
    seen
}

fn dropped_warning(messages: u64) -> String {
    format!("{messages} messages were dropped, purged or expired unread")
}

fn is_over(seen: &HashMap<Lease, Instant>, flight: &Flight, now: Instant) -> bool {
    let began = seen.get(&flight.lease()).copied().unwrap_or(now);
    now.since(began) >= Duration::from_millis(flight.lease_ms)
}

fn lease_of(channel: &Channel, asked: Option<u64>) -> Result<u64, ChannelError> {
    let value = asked.unwrap_or(channel.config.lease_ms);
    match (LEAST_LEASE_MS..=MOST_LEASE_MS).contains(&value) {
        true => Ok(value),
        false => Err(ChannelError::OutOfRange { field: "lease_ms", value, least: LEAST_LEASE_MS, most: MOST_LEASE_MS }),
    }
}
