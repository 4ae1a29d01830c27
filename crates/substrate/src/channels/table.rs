//! Which channels there are: those of the config, those made at runtime, and the dead-letter channels of both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
};

use drawloom_contract::{
    ids::{Digest, Tenant},
    once::{Applied, Once},
    time::Timestamp,
    values::{ChangeError, Expect, Kept, NewValue, Quota, Range, Seen, ValueChange, ValueKey, WatchFrom, Within},
};
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    By, ChannelConfig, ChannelError, Channels, MOST_DEFINED, TRIES,
    config::check_dead_letters,
    place::{DEFINITIONS, check_name},
};
use crate::hint::did_you_mean;

/// Pages in which stored things are listed.
const PAGE: u32 = 256;

/// Names that an error lists.
const SHOWN: usize = 20;

/// Who made a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The config file.
    Yaml,
    /// A request.
    Runtime,
    /// It was not made: it is the dead-letter channel of another.
    Implicit,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Runtime => "runtime",
            Self::Implicit => "implicit",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    pub config: ChannelConfig,
    pub source: Source,
    /// Counts the changes of a channel made at runtime; 1 for others.
    pub version: u64,
    pub digest: Digest,
    pub changed_at: Option<Timestamp>,
}

/// A channel made at runtime, as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u64,
    channel: ChannelConfig,
}

impl Channel {
    pub(super) fn declared(name: &str, config: &ChannelConfig) -> Self {
        let config = config.clone().plain();
        let digest = config.digest();
        Self { name: name.to_owned(), config, source: Source::Yaml, version: 1, digest, changed_at: None }
    }

    fn defined(name: &str, stored: Stored, at: Timestamp) -> Self {
        let Stored { version, channel } = stored;
        let (config, name) = (channel.plain(), name.to_owned());
        Self { name, digest: config.digest(), config, source: Source::Runtime, version, changed_at: Some(at) }
    }

    /// What callers see of it.
    pub fn shown(&self) -> Value {
        let ChannelConfig { description, scope, semantic, default_ttl, max_messages, lease_ms, max_attempts, .. } =
            &self.config;
        json!({
            "name": self.name,
            "description": description,
            "scope": scope,
            "semantic": semantic,
            "default_ttl": default_ttl,
            "max_messages": max_messages,
            "lease_ms": lease_ms,
            "max_attempts": max_attempts,
            "dead_letter": self.dead_letter(),
            "source": self.source.as_str(),
            "version": self.version,
            "digest": self.digest.to_string(),
            "changed_at": self.changed_at.map(Timestamp::to_rfc3339),
        })
    }

    /// The dead-letter channel of `self`.
    fn dead(&self, name: &str) -> Self {
        let config = ChannelConfig {
            description: format!("messages of {} that were not acknowledged", self.name),
            scope: self.config.scope,
            ..ChannelConfig::default()
        };
        let digest = config.digest();
        Self { name: name.to_owned(), config, source: Source::Implicit, version: 1, digest, changed_at: None }
    }

    /// The channel for messages that no member of a group acknowledged. A dead-letter channel has none: its messages stay.
    pub fn dead_letter(&self) -> Option<String> {
        match self.source {
            Source::Implicit => None,
            Source::Yaml | Source::Runtime => Some(self.config.dead_letter_of(&self.name)),
        }
    }
}

fn key_of(tenant: &Tenant, name: &str) -> ValueKey {
    ValueKey { tenant: tenant.clone(), space: DEFINITIONS, owner: "channels".into(), key: name.to_owned() }
}

impl Channels {
    /// Reads the channels that were made at runtime. Called once, before anything else.
    pub async fn load(&self) -> Result<(), ChannelError> {
        let (range, now) = (Range { space: DEFINITIONS, within: Within::Space }, self.parts.clock.wall());
        let mut after: Option<ValueKey> = None;
        loop {
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, now).await?;
            for (key, kept) in &page {
                self.remember(key, Some(kept));
            }
            match page.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Keeps the table in step with the store: a request that is cut off after its commit tells the table nothing. It watches from the
    /// moment of the call on, not from when the task begins.
    pub fn follow_definitions(self: Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let range = Range { space: DEFINITIONS, within: Within::Space };
        let mut watch = self.parts.values.watch(&range, WatchFrom::Now);
        async move {
            while let Some(seen) = watch.next().await {
                let taken = match seen {
                    Seen::Is { key, .. } => self.refresh(&key).await,
                    Seen::Gap => self.refresh_all(&range).await,
                    Seen::CaughtUp => Ok(()),
                };
                if let Err(error) = taken {
                    tracing::warn!(%error, "cannot read a changed channel");
                }
            }
        }
    }

    /// Reads one definition again. Under the lock of its changes, so that an older one never replaces a newer one.
    async fn refresh(&self, key: &ValueKey) -> Result<(), ChannelError> {
        let _alone = self.lock(key).await;
        let found = self.parts.values.find_value(key, self.parts.clock.wall()).await?;
        self.remember(key, found.as_ref());
        Ok(())
    }

    /// Reads all again: those that the store has, and those that it had.
    async fn refresh_all(&self, range: &Range) -> Result<(), ChannelError> {
        let mut keys = BTreeSet::new();
        {
            let defined = self.defined.read().unwrap_or_else(PoisonError::into_inner);
            let known = defined.iter().flat_map(|(tenant, channels)| channels.keys().map(|name| key_of(tenant, name)));
            keys.extend(known);
        }
        let mut after: Option<ValueKey> = None;
        loop {
            let page = self.parts.values.list_values(range, after.as_ref(), PAGE, self.parts.clock.wall()).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            keys.extend(page.into_iter().map(|(key, _)| key));
        }
        for key in &keys {
            self.refresh(key).await?;
        }
        Ok(())
    }

    /// What the store has now, so that every run and request uses it at once.
    fn remember(&self, key: &ValueKey, kept: Option<&Kept>) {
        let stored = kept.map(|kept| (serde_json::from_value::<Stored>(kept.value.clone()), kept.at));
        let mut defined = self.defined.write().unwrap_or_else(PoisonError::into_inner);
        let channels = defined.entry(key.tenant.clone()).or_default();
        match stored {
            Some((Ok(stored), at)) => {
                channels.insert(key.key.clone(), Arc::new(Channel::defined(&key.key, stored, at)));
            }
            // A later version wrote it: it is not used, and cannot be changed by accident.
            Some((Err(error), _)) => tracing::warn!(channel = key.key, %error, "cannot read the channel's definition"),
            None => _ = channels.remove(&key.key),
        }
    }

    /// The channel of this name. One of the config wins over one made at runtime.
    pub fn find(&self, tenant: &Tenant, name: &str) -> Option<Arc<Channel>> {
        if let Some(channel) = self.declared.get(name) {
            return Some(channel.clone());
        }
        let defined = self.defined.read().unwrap_or_else(PoisonError::into_inner);
        let defined = defined.get(tenant);
        if let Some(channel) = defined.and_then(|channels| channels.get(name)) {
            return Some(channel.clone());
        }
        let all = self.declared.values().chain(defined.into_iter().flat_map(BTreeMap::values));
        let mut of = all.filter(|channel| channel.dead_letter().as_deref() == Some(name));
        of.next().map(|channel| Arc::new(channel.dead(name)))
    }

    /// All channels that were declared or made, by name.
    pub fn list(&self, tenant: &Tenant) -> Vec<Arc<Channel>> {
        let defined = self.defined.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = defined.get(tenant).cloned().unwrap_or_default();
        all.extend(self.declared.iter().map(|(name, channel)| (name.clone(), channel.clone())));
        all.into_values().collect()
    }

    /// The configs of all of them.
    pub(crate) fn configs(&self, tenant: &Tenant) -> BTreeMap<String, ChannelConfig> {
        self.list(tenant).into_iter().map(|channel| (channel.name.clone(), channel.config.clone())).collect()
    }

    pub fn load_channel(&self, tenant: &Tenant, name: &str) -> Result<Arc<Channel>, ChannelError> {
        check_name(name)?;
        self.find(tenant, name).ok_or_else(|| {
            let known = self.list(tenant);
            let names = known.iter().map(|channel| channel.name.as_str()).take(SHOWN);
            let hint = did_you_mean(name, names).map(|hint| format!("{hint} ")).unwrap_or_default();
            let hint = format!("{hint}(add it under `channels` in the config, or make it with create_channel)");
            ChannelError::NotDeclared { name: name.to_owned(), hint }
        })
    }

    /// Makes a channel. Messages that one of the same name left are removed before.
    pub async fn create(&self, name: &str, config: ChannelConfig, by: &By<'_>) -> Result<Value, ChannelError> {
        let (config, tenant) = (config.plain(), by.tenant());
        config.check(name)?;
        if self.declared.contains_key(name) {
            return Err(ChannelError::NameInUse(name.to_owned()));
        }
        let key = key_of(tenant, name);
        let _alone = self.lock(&key).await;
        let now = self.parts.clock.wall();
        let found = self.parts.values.find_value(&key, now).await?;
        self.remember(&key, found.as_ref());
        if found.is_some() {
            let taken = ChannelError::NameInUse(name.to_owned());
            return self.first_answer(key, by, 0, now).await?.ok_or(taken);
        }
        self.check_scopes(tenant, name, &config)?;
        // A dead-letter channel that existed without a definition keeps its messages when it gets one.
        for name in [name, &config.dead_letter_of(name)] {
            if self.find(tenant, name).is_none() {
                self.remove_contents(tenant, name, now).await?;
            }
        }
        let answer = self.write(key, Stored { version: 1, channel: config }, Expect::Absent, by, now).await;
        match answer {
            Err(ChannelError::Change(ChangeError::Stale { .. })) => Err(ChannelError::NameInUse(name.to_owned())),
            answer => answer,
        }
    }

    /// Changes a channel made at runtime.
    pub async fn update(
        &self,
        name: &str,
        change: impl Fn(&mut ChannelConfig) + Send + Sync,
        by: &By<'_>,
    ) -> Result<Value, ChannelError> {
        let (key, tenant) = (key_of(by.tenant(), name), by.tenant());
        self.refuse_declared(name)?;
        let _alone = self.lock(&key).await;
        for _ in 0..TRIES {
            let now = self.parts.clock.wall();
            let found = self.parts.values.find_value(&key, now).await?;
            self.remember(&key, found.as_ref());
            let Some(kept) = found else {
                let unknown = self.load_channel(tenant, name).err();
                let unknown = unknown.unwrap_or_else(|| ChannelError::Immutable(name.to_owned()));
                return self.first_answer(key, by, 0, now).await?.ok_or(unknown);
            };
            let stored: Stored =
                serde_json::from_value(kept.value.clone()).map_err(|error| unreadable(name, &error))?;
            let mut channel = stored.channel.clone();
            change(&mut channel);
            let channel = channel.plain();
            channel.check(name)?;
            if channel.scope != stored.channel.scope.plain() {
                let message = format!("the scope of channel {name:?} cannot be changed; delete it and create it again");
                return Err(ChannelError::Scope(message));
            }
            // What an older version allowed can still be changed, as long as its dead letters stay where they are.
            if channel.dead_letter != stored.channel.dead_letter {
                self.check_scopes(tenant, name, &channel)?;
            }
            let next = Stored { version: stored.version + u64::from(channel != stored.channel), channel };
            match self.write(key.clone(), next, Expect::Revision(kept.revision), by, now).await {
                Err(ChannelError::Change(ChangeError::Stale { .. })) => {}
                answer => return answer,
            }
        }
        Err(ChannelError::Busy(name.to_owned()))
    }

    /// Deletes a channel made at runtime, with everything in it.
    pub async fn delete(&self, name: &str, by: &By<'_>) -> Result<Value, ChannelError> {
        let (key, tenant) = (key_of(by.tenant(), name), by.tenant());
        self.refuse_declared(name)?;
        let _alone = self.lock(&key).await;
        let now = self.parts.clock.wall();
        let found = self.parts.values.find_value(&key, now).await?;
        self.remember(&key, found.as_ref());
        if found.is_none() {
            let unknown = self.load_channel(tenant, name).err();
            let unknown = unknown.unwrap_or_else(|| ChannelError::Immutable(name.to_owned()));
            let first = self.first_answer(key, by, 0, now).await?.ok_or(unknown)?;
            // The first request may have been cut off before this.
            self.remove_left(tenant, name, &format!("{name}.dead"), now).await?;
            return Ok(first);
        }
        // The definition goes first, so that nothing is published afterwards. What a crash leaves is removed by a repeat, or by the next
        // create.
        let mut answer = json!({ "name": name, "deleted": true });
        let dead = self.own_dead_letter(tenant, name);
        if let Some(dead) = &dead {
            let messages = self.count(tenant, dead).await?.messages;
            if messages > 0 {
                let warning = format!("its dead-letter channel {dead:?} was deleted too, with {messages} messages");
                answer["warnings"] = json!([warning]);
            }
        }
        let once = self.once(&answer, by, 0, now);
        let Applied { answer, .. } = self.change_values(ValueChange::remove(key.clone(), now), answer, once).await?;
        self.remember(&key, None);
        self.remove_contents(tenant, name, now).await?;
        if let Some(dead) = dead {
            self.remove_left(tenant, name, &dead, now).await?;
        }
        Ok(answer)
    }

    /// The dead-letter channel that goes with a channel made at runtime: not defined on its own, and no other channel names it.
    fn own_dead_letter(&self, tenant: &Tenant, name: &str) -> Option<String> {
        let all = self.list(tenant);
        let dead = all.iter().find(|channel| channel.name == name)?.dead_letter()?;
        let is_used = |channel: &Arc<Channel>| {
            channel.name == dead || (channel.name != name && channel.dead_letter().as_deref() == Some(dead.as_str()))
        };
        (!all.iter().any(is_used)).then_some(dead)
    }

    /// Removes what a deleted channel and its dead-letter channel left, unless the names mean something again.
    async fn remove_left(&self, tenant: &Tenant, name: &str, dead: &str, now: Timestamp) -> Result<(), ChannelError> {
        for name in [name, dead] {
            if self.find(tenant, name).is_none() {
                self.remove_contents(tenant, name, now).await?;
            }
        }
        Ok(())
    }

    fn check_scopes(&self, tenant: &Tenant, name: &str, config: &ChannelConfig) -> Result<(), ChannelError> {
        let all = self.list(tenant);
        let others: Vec<_> = all.iter().map(|channel| (channel.name.as_str(), &channel.config)).collect();
        check_dead_letters(name, config, &others)
    }

    fn refuse_declared(&self, name: &str) -> Result<(), ChannelError> {
        check_name(name)?;
        match self.declared.contains_key(name) {
            true => Err(ChannelError::Immutable(name.to_owned())),
            false => Ok(()),
        }
    }

    async fn write(
        &self,
        key: ValueKey,
        stored: Stored,
        expect: Expect,
        by: &By<'_>,
        now: Timestamp,
    ) -> Result<Value, ChannelError> {
        let value = serde_json::to_value(&stored).expect("a channel has only text keys");
        let channel = Channel::defined(&key.key, stored, now);
        let answer = channel.shown();
        let clean = self.parts.redactor.clean(value);
        let kept = Kept { value: Value::clone(&clean), revision: 0, at: now, expires_at: None };
        let quota = Some(Quota { keys: MOST_DEFINED, bytes: 16 * 1024 * 1024 });
        let to = Some(NewValue { value: clean, expires_at: None, quota, searched: None });
        let once = self.once(&answer, by, 0, now);
        let change = ValueChange { key: key.clone(), expect, to, at: now };
        let Applied { answer, repeated, .. } = self.change_values(change, answer, once).await?;
        if !repeated {
            self.remember(&key, Some(&kept));
        }
        Ok(answer)
    }

    /// Makes a change, once; without a key the answer is the given one.
    pub(super) async fn change_values(
        &self,
        change: ValueChange,
        answer: Value,
        once: Option<Once>,
    ) -> Result<Applied<Vec<u64>>, ChangeError> {
        let is_keyed = once.is_some();
        let mut applied = self.parts.values.change(vec![change], once).await?;
        if !is_keyed {
            applied.answer = self.parts.redactor.clean(answer).into_inner();
        }
        Ok(applied)
    }
}

fn unreadable(name: &str, error: &serde_json::Error) -> ChannelError {
    let detail = format!("the definition of channel {name:?} cannot be read: {error}");
    ChannelError::Store(drawloom_contract::journal::StoreError::Failed { store: "the store".into(), detail })
}
