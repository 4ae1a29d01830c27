//! Memory: what agents and callers keep between runs, by scope, over the store's values.
//!
//! The rules are pure (`rules.rs`). A change reads the key, asks the rules and writes with compare-and-swap, under a lock of this
//! process for the key, so that one commit has one winner. It is written under the key of its call or request: made again, it
//! changes nothing and gets the first answer.

mod config;
mod entry;
mod error;
mod limits;
mod place;
mod recent;
pub mod rules;
mod search;
mod tool;

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use drawloom_contract::{
    caller::Caller,
    ids::Tenant,
    once::{Applied, Made, Once, RequestKey},
    redact::Redactor,
    time::{Clock, Timestamp},
    tool::ToolContext,
    values::{ChangeError, Expect, KeyValue, NewValue, Quota, Seen, ValueChange, ValueKey, WatchFrom},
};
use futures::{StreamExt as _, stream::BoxStream};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

pub use config::MemoryConfig;
pub use entry::{Entry, Replaced, Writer};
pub use error::MemoryError;
pub use limits::LIMITS;
pub use place::{Owner, Place};
pub use search::{Asked, Fit, Hit, Hits, Search, Term, Terms};
pub use tool::TOOL;

pub(crate) use place::plain;
use recent::Recent;
use rules::{Ask, Change, Current, Next, apply};

/// Maximum bytes of a key.
pub const MOST_KEY_BYTES: usize = 512;

/// Maximum entries of one list.
pub const MOST_LISTED: u32 = 1_000;

/// Entries that a list reads at once.
const LIST_PART: u32 = 32;

/// Maximum entries of one import.
pub const MOST_IMPORTED: usize = 500;

/// Locks of keys. Two keys that share one only wait for each other.
const LOCKS: usize = 1_024;

/// How often a change is tried again when others were first. The lock keeps others of this process away.
const TRIES: u32 = 32;

/// What memory is made of.
pub struct MemoryParts {
    pub config: MemoryConfig,
    pub values: Arc<dyn KeyValue>,
    pub search: Arc<dyn Search>,
    pub clock: Arc<dyn Clock>,
    pub redactor: Arc<Redactor>,
}

pub struct Memory {
    parts: MemoryParts,
    locks: Vec<Mutex<()>>,
    recent: Recent,
}

/// Who changes something.
pub enum By<'a> {
    Call(&'a ToolContext),
    Request {
        caller: &'a Caller,
        operation: &'static str,
        /// The caller's idempotency key.
        key: Option<RequestKey>,
    },
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListAsked {
    pub prefix: String,
    /// Only keys after this one.
    pub after: Option<String>,
    pub limit: u32,
    /// Maximum bytes of all keys and values. The first entry comes whatever its size, so that the next page goes on.
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    pub entries: Vec<Entry>,
    /// `after` of the next page, when there is more.
    pub next: Option<String>,
}

/// An entry to import.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    pub key: String,
    pub value: Value,
    pub expires_at: Option<Timestamp>,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    Written(Entry),
    Removed {
        key: String,
        revision: u64,
    },
    CaughtUp,
    /// Changes were missed: list what matters again.
    Gap,
}

impl By<'_> {
    pub(crate) fn tenant(&self) -> &Tenant {
        match self {
            Self::Call(context) => &context.run.tenant,
            Self::Request { caller, .. } => &caller.tenant,
        }
    }

    pub(crate) fn writer(&self) -> Writer {
        match self {
            Self::Call(context) => Writer {
                run_id: Some(context.run.run),
                agent: Some(context.definition.name.clone()),
                call: Some(context.call),
                user_id: Some(context.user.clone()),
                operation: None,
            },
            Self::Request { caller, operation, .. } => Writer {
                user_id: Some(caller.subject.clone()),
                operation: Some((*operation).to_owned()),
                ..Writer::default()
            },
        }
    }
}

impl Memory {
    pub fn new(parts: MemoryParts) -> Arc<Self> {
        Arc::new(Self { parts, locks: (0..LOCKS).map(|_| Mutex::default()).collect(), recent: Recent::default() })
    }

    pub fn config(&self) -> &MemoryConfig {
        &self.parts.config
    }

    pub async fn get(&self, place: &Place, key: &str) -> Result<Option<Entry>, MemoryError> {
        self.check_key(key)?;
        self.find(&place.key(key), self.parts.clock.steady()).await
    }

    /// Makes a change, once. The answer has the revision of the key afterwards.
    pub async fn change(&self, place: &Place, key: &str, ask: &Ask, by: &By<'_>) -> Result<Value, MemoryError> {
        self.check_key(key)?;
        let (ask, is_masked) = self.masked(ask);
        let key = place.key(key);
        let _alone = self.lock(&key).await;
        for _ in 0..TRIES {
            let now = self.parts.clock.steady();
            let recent = self.recent.find(&key, now);
            let is_recent = recent.is_some();
            let current = match recent {
                Some(current) => Some(current),
                None => self.find(&key, now).await?.map(|entry| Arc::new(Current::from(entry))),
            };
            let current = current.as_deref();
            let (next, mut answer) = match apply(&ask, current, now, self.parts.config.bounds()) {
                // Only what is written is compared with the store; the rest is decided from the store itself.
                Err(_) | Ok((Next::Same, _)) if is_recent => {
                    self.recent.forget(&key);
                    continue;
                }
                Ok(decided) => decided,
                // What was done before under the same key is still done.
                Err(refusal) => return self.first_answer(key, by, now).await?.ok_or(refusal.into()),
            };
            answer["revision"] = current.map_or(0, |current| current.revision).into();
            let change = self.change_of(&key, current, next, by, now);
            if is_masked || change.iter().any(is_masked_change) {
                answer["warnings"] = json!(["the value contains a secret, which is masked in the stored value"]);
            }
            match self.write(change.into_iter().collect(), answer, by, now).await {
                Err(MemoryError::Change(ChangeError::Stale { .. })) => {}
                written => return written,
            }
        }
        Err(MemoryError::Busy(key.key))
    }

    /// Writes entries, all or none, whatever the keys had before. Those whose time is over are left out, and counted; one that the
    /// key holds already is not written again.
    pub async fn import(&self, place: &Place, entries: Vec<NewEntry>, by: &By<'_>) -> Result<Value, MemoryError> {
        if entries.len() > MOST_IMPORTED {
            return Err(MemoryError::TooMany(entries.len()));
        }
        let mut keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MemoryError::Twice(twice[0].to_owned()));
        }
        let by_steady_time = |mut entry: NewEntry| {
            entry.expires_at = entry.expires_at.map(|time| self.parts.clock.meant(time));
            entry
        };
        let entries: Vec<NewEntry> = entries.into_iter().map(by_steady_time).collect();
        for entry in &entries {
            self.check_key(&entry.key)?;
            let (bytes, most) = (entry.value.to_string().len() as u64, self.parts.config.max_value_bytes);
            if bytes > most {
                return Err(rules::Refusal::TooLarge { bytes, most }.into());
            }
        }
        // In order, so that no two imports wait for each other.
        let mut locks: Vec<usize> = entries.iter().map(|entry| stripe(&place.key(&entry.key))).collect();
        locks.sort_unstable();
        locks.dedup();
        let mut alone = Vec::with_capacity(locks.len());
        for lock in locks {
            alone.push(self.locks[lock].lock().await);
        }
        for _ in 0..TRIES {
            let now = self.parts.clock.steady();
            let (mut changes, mut expired) = (Vec::with_capacity(entries.len()), 0);
            for entry in &entries {
                if entry.expires_at.is_some_and(|time| time <= now) {
                    expired += 1;
                    continue;
                }
                let expires_at = rules::imported_expiry(entry.expires_at, now, self.parts.config.bounds())?;
                let key = place.key(&entry.key);
                let before = self.find(&key, now).await?.map(Current::from);
                let is_same = |kept: &Current| kept.value == entry.value && kept.expires_at == expires_at;
                if before.as_ref().is_some_and(is_same) {
                    continue;
                }
                let next = Next::Put { value: entry.value.clone(), expires_at };
                changes.extend(self.change_of(&key, before.as_ref(), next, by, now));
            }
            let mut answer = json!({ "imported": entries.len() - expired, "expired": expired });
            let masked: Vec<String> = changes
                .iter()
                .filter(|change| is_masked_change(change))
                .map(|change| {
                    format!("the value of {:?} contains a secret, which is masked in the stored value", change.key.key)
                })
                .collect();
            if !masked.is_empty() {
                answer["warnings"] = masked.into();
            }
            match self.write(changes, answer, by, now).await {
                Err(MemoryError::Change(ChangeError::Stale { .. })) => {}
                Ok(mut answer) => {
                    answer.as_object_mut().map(|fields| fields.remove("revision"));
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            }
        }
        Err(MemoryError::Busy(entries.first().map(|entry| entry.key.clone()).unwrap_or_default()))
    }

    /// Entries in order of their keys.
    pub async fn list(&self, place: &Place, asked: &ListAsked) -> Result<Listed, MemoryError> {
        let now = self.parts.clock.steady();
        let (limit, after) = (asked.limit.clamp(1, MOST_LISTED), asked.after.as_deref().map(|key| place.key(key)));
        let range = place.range(&asked.prefix);
        let (mut listed, mut bytes, mut more, mut after) = (Listed::default(), 0, true, after);
        // Some at a time: what is not returned is not read.
        'pages: while more {
            let left = limit as usize - listed.entries.len();
            let part = u32::try_from(left + 1).unwrap_or(u32::MAX).min(LIST_PART);
            let found = self.parts.values.list_values(&range, after.as_ref(), part, now).await?;
            more = found.len() == part as usize;
            for (key, kept) in found {
                if listed.entries.len() == limit as usize {
                    more = true;
                    break 'pages;
                }
                after = Some(key.clone());
                let entry = Entry::read(key.key, kept)?;
                bytes += (entry.key.len() + entry.value.to_string().len()) as u64;
                if asked.bytes.is_some_and(|most| bytes > most) && !listed.entries.is_empty() {
                    more = true;
                    break 'pages;
                }
                listed.entries.push(entry);
            }
        }
        listed.next = listed.entries.last().filter(|_| more).map(|entry| entry.key.clone());
        Ok(listed)
    }

    /// The best hits for a query in the memory of these places, all of one tenant.
    pub async fn search(&self, places: &[Place], asked: &Asked) -> Result<Hits, MemoryError> {
        search::search(&*self.parts.search, places, asked, self.parts.clock.steady()).await
    }

    /// Changes from the moment of this call on, with every entry that is there first when it begins at the start.
    pub fn watch(&self, place: &Place, prefix: &str, from: WatchFrom) -> BoxStream<'static, Told> {
        let (clock, values) = (self.parts.clock.clone(), self.parts.values.clone());
        let told = self.parts.values.watch(&place.range(prefix), from).filter_map(move |seen| {
            let (now, values) = (clock.steady(), values.clone());
            async move {
                match seen {
                    // Read when the watcher takes it: one that is slow holds names, not values.
                    Seen::Is { key, revision, present: Some(_) } => match values.find_value(&key, now).await {
                        // An entry of an unknown form can only be read again.
                        Ok(Some(kept)) if kept.revision == revision => {
                            Some(Entry::read(key.key, kept).map_or(Told::Gap, Told::Written))
                        }
                        // Its time is over, or a later change follows.
                        Ok(_) => None,
                        Err(_) => Some(Told::Gap),
                    },
                    Seen::Is { key, revision, present: None } => Some(Told::Removed { key: key.key, revision }),
                    Seen::CaughtUp => Some(Told::CaughtUp),
                    Seen::Gap => Some(Told::Gap),
                }
            }
        });
        told.boxed()
    }

    async fn find(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Entry>, MemoryError> {
        let kept = self.parts.values.find_value(key, now).await?;
        Ok(kept.map(|kept| Entry::read(key.key.clone(), kept)).transpose()?)
    }

    fn change_of(
        &self,
        key: &ValueKey,
        before: Option<&Current>,
        next: Next,
        by: &By<'_>,
        now: Timestamp,
    ) -> Option<ValueChange> {
        let to = match next {
            Next::Same => return None,
            Next::Removed => None,
            Next::Put { value, expires_at } => {
                let kept = entry::stored(value, &by.writer(), before.map(Replaced::of).as_ref());
                let MemoryConfig { max_keys: keys, max_bytes: bytes, .. } = self.parts.config;
                Some(NewValue {
                    value: self.parts.redactor.clean(kept),
                    expires_at,
                    quota: Some(Quota { keys, bytes }),
                    searched: Some(entry::VALUE),
                })
            }
        };
        let expect = before.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        Some(ValueChange { key: key.clone(), expect, to, at: now })
    }

    /// Writes changes under the key of the call or request, with the answer that a repeat gets.
    async fn write(
        &self,
        changes: Vec<ValueChange>,
        answer: Value,
        by: &By<'_>,
        now: Timestamp,
    ) -> Result<Value, MemoryError> {
        let once = self.once(&answer, by, now);
        if changes.is_empty() && once.is_none() {
            return Ok(answer);
        }
        let is_keyed = once.is_some();
        // Forgotten before, because this future may be dropped when the change is made.
        changes.iter().for_each(|change| self.recent.forget(&change.key));
        let written = match changes.as_slice() {
            [ValueChange { key, to: Some(new), .. }] => {
                entry::value_of(&new.value).map(|value| (key.clone(), value.clone(), new.expires_at))
            }
            _ => None,
        };
        let Applied { result, answer: first, repeated } = self.parts.values.change(changes, once).await?;
        if let (Some((key, value, expires_at)), [revision], false) = (written, result.as_slice(), repeated) {
            self.recent.keep(key, Current { value, revision: *revision, expires_at });
        }
        let mut answer = if is_keyed { first } else { self.parts.redactor.clean(answer).into_inner() };
        if let Some(revision) = result.first() {
            answer["revision"] = (*revision).into();
        }
        Ok(answer)
    }

    /// What was answered before under the same key. It asks for a change that never happens: a used key is looked at first.
    async fn first_answer(&self, key: ValueKey, by: &By<'_>, now: Timestamp) -> Result<Option<Value>, MemoryError> {
        let Some(once) = self.once(&Value::Null, by, now) else { return Ok(None) };
        let never = ValueChange { key, expect: Expect::Revision(u64::MAX), to: None, at: now };
        match self.parts.values.change(vec![never], Some(once)).await {
            Ok(Applied { result, mut answer, .. }) => {
                if let Some(revision) = result.first() {
                    answer["revision"] = (*revision).into();
                }
                Ok(Some(answer))
            }
            Err(ChangeError::Stale { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn once(&self, answer: &Value, by: &By<'_>, now: Timestamp) -> Option<Once> {
        match by {
            By::Call(context) => Some(context.once(0, answer.clone())),
            By::Request { key, .. } => {
                let key = key.clone()?;
                Some(Once::Request {
                    key,
                    made: Made::Answer { answer: self.parts.redactor.clean(answer.clone()), at: now },
                })
            }
        }
    }

    /// The change with the entry that is compared as it would be kept, and whether that was masked. Other values are masked when
    /// they are written.
    fn masked<'a>(&self, ask: &'a Ask) -> (Cow<'a, Ask>, bool) {
        let Change::AppendDedupe(value) = &ask.change else { return (Cow::Borrowed(ask), false) };
        let clean = self.parts.redactor.clean(value.clone());
        let is_masked = clean.is_masked();
        (Cow::Owned(Ask { change: Change::AppendDedupe(clean.into_inner()), ..*ask }), is_masked)
    }

    async fn lock(&self, key: &ValueKey) -> MutexGuard<'_, ()> {
        self.locks[stripe(key)].lock().await
    }

    fn check_key(&self, key: &str) -> Result<(), MemoryError> {
        let refuse = |problem| Err(MemoryError::BadKey { key: key.chars().take(80).collect(), problem });
        if key.is_empty() || key.len() > MOST_KEY_BYTES {
            return refuse("invalid length");
        }
        if key.chars().any(char::is_control) {
            return refuse("it contains a control character");
        }
        // It is not shown: it would be in the error.
        if self.parts.redactor.mask(&mut key.to_owned()) {
            return Err(MemoryError::BadKey { key: "…".into(), problem: "it contains a secret" });
        }
        Ok(())
    }
}

impl From<Entry> for Current {
    fn from(entry: Entry) -> Self {
        Self { value: entry.value, revision: entry.revision, expires_at: entry.expires_at }
    }
}

/// Whether the value that is written held a secret.
fn is_masked_change(change: &ValueChange) -> bool {
    change.to.as_ref().is_some_and(|new| new.value.is_masked())
}

fn stripe(key: &ValueKey) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % LOCKS as u64) as usize
}

#[cfg(test)]
mod tests;
