//! Logs, values and answers in memory: the fake of tests that need no store. It passes the same suites as the store.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use drawloom_contract::{
    ids::{Digest, RunKey},
    journal::{Answers, StoreError},
    log::{Durability, Log, LogChange, LogChanged, LogKey, MOST_MESSAGE_BYTES, Message, Page, Tail},
    once::{Applied, Effected, Made, Once, RequestKey},
    record::Seq,
    redact::Redacted,
    time::Timestamp,
    values::{
        ChangeError, Expect, Kept, KeyValue, MOST_VALUE_BYTES, Present, Range, Seen, Space, ValueChange, ValueKey,
        WatchFrom,
    },
};
use futures::{
    StreamExt,
    channel::mpsc,
    stream::{self, BoxStream},
};
use serde_json::Value;

/// The fake. It knows no runs, so effects of calls are never refused because a run has ended.
#[derive(Default)]
pub struct Memory(Mutex<State>);

#[derive(Default, Clone)]
struct State {
    values: BTreeMap<ValueKey, Kept>,
    revision: u64,
    logs: HashMap<LogKey, Messages>,
    effects: HashMap<(RunKey, Seq, u32), Effected>,
    requests: HashMap<(String, Digest), (Digest, Effected)>,
    watchers: Vec<(Range, mpsc::UnboundedSender<Seen>)>,
    tails: Vec<(Space, mpsc::UnboundedSender<Tail>)>,
}

#[derive(Default, Clone)]
struct Messages {
    kept: Vec<Message>,
    head: u64,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every log with its head and how many messages it has, by tenant and name.
    pub fn logs(&self) -> Vec<(LogKey, u64, u64)> {
        let state = self.lock();
        let mut logs: Vec<_> =
            state.logs.iter().map(|(key, log)| (key.clone(), log.head, log.kept.len() as u64)).collect();
        logs.sort_by(|(one, ..), (other, ..)| (&one.tenant, &one.name).cmp(&(&other.tenant, &other.name)));
        logs
    }

    /// Applies changes, all or none, once.
    fn apply(
        &self,
        values: &[ValueChange],
        logs: &[LogChange],
        once: Option<&Once>,
    ) -> Result<Applied<Effected>, ChangeError> {
        let mut state = self.lock();
        if let Some(first) = once.map_or(Ok(None), |once| state.find(once))? {
            let mut first = first.again()?;
            let answer = std::mem::take(&mut first.answer);
            return Ok(Applied { result: first, answer, repeated: true });
        }
        let mut next = state.clone();
        let mut effected = Effected::default();
        for change in values {
            effected.revisions.push(next.change(change)?);
        }
        for change in logs {
            effected.logs.push(next.change_log(change)?);
        }
        let answer = once.map_or(Value::Null, given);
        if let Some(once) = once {
            next.keep(once, Effected { answer: answer.clone(), ..effected.clone() });
        }
        *state = next;
        state.tell(values, logs, &effected);
        Ok(Applied { result: effected, answer, repeated: false })
    }
}

fn given(once: &Once) -> Value {
    match once {
        Once::Request { made: Made::Answer { answer, .. }, .. } => Value::clone(answer),
        Once::Request { made: Made::Handle(_), .. } => Value::Null,
        Once::Call(effect) => Value::clone(&effect.answer),
    }
}

fn name(key: &RequestKey) -> (String, Digest) {
    (format!("{} {} {}", key.tenant, key.subject, key.operation), key.key)
}

impl State {
    fn find(&self, once: &Once) -> Result<Option<Effected>, ChangeError> {
        match once {
            Once::Call(effect) => Ok(self.effects.get(&(effect.run.clone(), effect.call, effect.part)).cloned()),
            Once::Request { key, .. } => match self.requests.get(&name(key)) {
                Some((body, effected)) if *body == key.body => Ok(Some(effected.clone())),
                Some(_) => Err(ChangeError::KeyReused),
                None => Ok(None),
            },
        }
    }

    fn keep(&mut self, once: &Once, effected: Effected) {
        match once {
            Once::Call(effect) => _ = self.effects.insert((effect.run.clone(), effect.call, effect.part), effected),
            Once::Request { key, .. } => {
                let stored = serde_json::from_str(&effected.of_request()).expect("it was written so");
                self.requests.insert(name(key), (key.body, stored));
            }
        }
    }

    fn change(&mut self, change: &ValueChange) -> Result<u64, ChangeError> {
        let ValueChange { key, expect, to, at } = change;
        let live = self.values.get(key).filter(|kept| kept.expires_at.is_none_or(|time| time > *at));
        let found = live.map(|kept| kept.revision);
        let is_expected = match expect {
            Expect::Anything => true,
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found == Some(*revision),
        };
        if !is_expected {
            return Err(ChangeError::Stale { key: key.key.clone(), found });
        }
        let Some(new) = to else {
            self.values.remove(key);
            self.revision += u64::from(found.is_some());
            return Ok(found.map_or(0, |_| self.revision));
        };
        let text = new.value.to_string();
        if text.len() > MOST_VALUE_BYTES {
            let (key, bytes) = (key.key.clone(), text.len());
            return Err(ChangeError::TooLarge { key, bytes, most: MOST_VALUE_BYTES });
        }
        if let Some(quota) = new.quota {
            if key.owner.is_empty() {
                let detail = format!("the value {:?} has a quota and no owner", key.key);
                return Err(ChangeError::Store(StoreError::Failed { store: "memory".into(), detail }));
            }
            let is_owned =
                |other: &ValueKey| (&other.tenant, &other.space, &other.owner) == (&key.tenant, &key.space, &key.owner);
            let others = self.values.iter().filter(|(other, kept)| {
                is_owned(other) && *other != key && kept.expires_at.is_none_or(|time| time > *at)
            });
            let size = |key: &ValueKey, text: &str| (key.key.len() + text.len()) as u64;
            let (keys, bytes) = others.fold((1, size(key, &text)), |(keys, bytes), (other, kept)| {
                (keys + 1, bytes + size(other, &kept.value.to_string()))
            });
            if keys > quota.keys || bytes > quota.bytes {
                return Err(ChangeError::OverQuota { owner: key.owner.clone(), keys, bytes, quota });
            }
        }
        self.revision += 1;
        let value = Value::clone(&new.value);
        let kept = Kept { value, revision: self.revision, at: *at, expires_at: new.expires_at };
        self.values.insert(key.clone(), kept);
        Ok(self.revision)
    }

    fn change_log(&mut self, change: &LogChange) -> Result<LogChanged, ChangeError> {
        let log = self.logs.entry(change.log().clone()).or_default();
        let mut changed = LogChanged::default();
        let before = log.kept.len();
        let mut added = 0;
        match change {
            LogChange::Append { messages, since, keep, .. } => {
                for message in messages {
                    let bytes = message.body.to_string().len();
                    if bytes > MOST_MESSAGE_BYTES {
                        return Err(ChangeError::TooLarge { key: message.id.clone(), bytes, most: MOST_MESSAGE_BYTES });
                    }
                    let known = log.kept.iter().find(|known| known.id == message.id && known.sequence > *since);
                    let sequence = known.map(|known| known.sequence).unwrap_or_else(|| {
                        log.head += 1;
                        log.head
                    });
                    if known.is_none() {
                        let (id, at, body) = (message.id.clone(), message.at, Value::clone(&message.body));
                        log.kept.push(Message { sequence, id, at, body });
                        added += 1;
                    }
                    changed.sequences.push(sequence);
                }
                let most = keep.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
                let surplus = log.kept.len().saturating_sub(most);
                log.kept.drain(..surplus);
            }
            LogChange::Trim { up_to, .. } => log.kept.retain(|message| message.sequence > *up_to),
        }
        changed.added = added as u64;
        changed.dropped = (before + added - log.kept.len()) as u64;
        changed.head = log.head;
        Ok(changed)
    }

    fn tell(&mut self, values: &[ValueChange], logs: &[LogChange], effected: &Effected) {
        for (change, revision) in values.iter().zip(&effected.revisions).filter(|(_, revision)| **revision > 0) {
            let present = change.to.as_ref().map(|new| Present { expires_at: new.expires_at });
            let seen = Seen::Is { key: change.key.clone(), revision: *revision, present };
            self.watchers
                .retain(|(range, told)| !range.contains(&change.key) || told.unbounded_send(seen.clone()).is_ok());
        }
        for (change, changed) in logs.iter().zip(&effected.logs).filter(|(_, changed)| changed.added > 0) {
            let log = change.log();
            let grew = Tail::Grew { log: log.clone(), head: changed.head };
            self.tails.retain(|(space, told)| *space != log.space || told.unbounded_send(grew.clone()).is_ok());
        }
    }
}

#[async_trait]
impl KeyValue for Memory {
    async fn change(&self, changes: Vec<ValueChange>, once: Option<Once>) -> Result<Applied<Vec<u64>>, ChangeError> {
        let Applied { result, answer, repeated } = self.apply(&changes, &[], once.as_ref())?;
        Ok(Applied { result: result.revisions, answer, repeated })
    }

    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Kept>, StoreError> {
        let found = self.lock().values.get(key).cloned();
        Ok(found.filter(|kept| kept.expires_at.is_none_or(|time| time > now)))
    }

    async fn list_values(
        &self,
        range: &Range,
        after: Option<&ValueKey>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(ValueKey, Kept)>, StoreError> {
        let state = self.lock();
        let is_listed = |(key, kept): &(&ValueKey, &Kept)| {
            range.contains(key)
                && after.is_none_or(|after| *key > after)
                && kept.expires_at.is_none_or(|time| time > now)
        };
        let listed = state.values.iter().filter(is_listed).take(limit as usize);
        Ok(listed.map(|(key, kept)| (key.clone(), kept.clone())).collect())
    }

    fn watch(&self, range: &Range, from: WatchFrom) -> BoxStream<'static, Seen> {
        let mut state = self.lock();
        let (told, changes) = mpsc::unbounded();
        state.watchers.push((range.clone(), told));
        let mut first = Vec::new();
        if from == WatchFrom::Start {
            let found = state.values.iter().filter(|(key, _)| range.contains(key));
            first.extend(found.map(|(key, kept)| Seen::Is {
                key: key.clone(),
                revision: kept.revision,
                present: Some(Present { expires_at: kept.expires_at }),
            }));
            first.push(Seen::CaughtUp);
        }
        stream::iter(first).chain(changes).boxed()
    }
}

#[async_trait]
impl Log for Memory {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        let Applied { result, answer, repeated } = self.apply(&[], &[change], once.as_ref())?;
        let result = result.logs.into_iter().next().ok_or(ChangeError::KeyReused)?;
        Ok(Applied { result, answer, repeated })
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError> {
        let state = self.lock();
        let Some(found) = state.logs.get(log) else { return Ok(Page { messages: Vec::new(), first: 1, head: 0 }) };
        let first = found.kept.first().map_or(found.head + 1, |message| message.sequence);
        let page = found.kept.iter().filter(|message| message.sequence > after).take(limit as usize);
        Ok(Page { messages: page.cloned().collect(), first, head: found.head })
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        Ok(self.lock().logs.get(log).map_or(0, |found| found.head))
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        let (told, changes) = mpsc::unbounded();
        self.lock().tails.push((space.clone(), told));
        changes.boxed()
    }

    fn durability(&self) -> Durability {
        Durability::Unknown
    }
}

#[async_trait]
impl Answers for Memory {
    async fn store_answer(
        &self,
        key: RequestKey,
        answer: Redacted<Value>,
        at: Timestamp,
    ) -> Result<Value, ChangeError> {
        let once = Once::Request { key, made: Made::Answer { answer, at } };
        self.apply(&[], &[], Some(&once)).map(|applied| applied.answer)
    }

    async fn find_answer(&self, key: &RequestKey) -> Result<Option<Value>, ChangeError> {
        match self.lock().requests.get(&name(key)) {
            Some((body, effected)) if *body == key.body => Ok(Some(effected.clone().again()?.answer)),
            Some(_) => Err(ChangeError::KeyReused),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    async fn open() -> Box<Memory> {
        Box::default()
    }

    mod answers {
        crate::answers_suite!(super::open);
    }

    mod key_value {
        crate::key_value_suite!(super::open);
    }

    mod log {
        crate::log_suite!(super::open);
    }
}
