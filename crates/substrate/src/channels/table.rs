//! Which channels there are: those of the config, those made at runtime, and the dead-letter channels of both.
//!
//! A channel made at runtime is a definition of the kind `channel`: `definitions/` stores its versions and builds the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drawloom_contract::{
    ids::{Digest, Tenant},
    once::{Applied, Once},
    suggest::closest,
    time::Timestamp,
    values::{ChangeError, ValueChange},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ChannelConfig, ChannelError, Channels, Place, Semantic, config::check_dead_letters, place::check_name};
use crate::hint::did_you_mean;

/// Names that an error lists.
const SHOWN: usize = 20;

/// Who made a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The config file.
    Yaml,
    /// A request, or an agent.
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
    /// The active version of a channel made at runtime; 1 for others.
    pub version: u32,
    /// Of the source.
    pub digest: Digest,
    /// When the version was made.
    pub changed_at: Option<Timestamp>,
}

impl Channel {
    fn declared(name: &str, config: &ChannelConfig) -> Self {
        let config = config.clone().plain();
        let digest = config.digest();
        Self { name: name.to_owned(), config, source: Source::Yaml, version: 1, digest, changed_at: None }
    }

    /// A channel made at runtime, from the source of its active version.
    pub(crate) fn defined(
        name: &str,
        source: &Value,
        (version, digest, at): (u32, Digest, Timestamp),
    ) -> Result<Self, serde_json::Error> {
        let config = serde_json::from_value::<ChannelConfig>(source.clone())?.plain();
        let (name, source) = (name.to_owned(), Source::Runtime);
        Ok(Self { name, config, source, version, digest, changed_at: Some(at) })
    }

    /// What callers see of it.
    pub fn shown(&self) -> Value {
        let ChannelConfig { description, scope, semantic, default_ttl, max_messages, lease_ms, max_attempts, .. } =
            &self.config;
        let mut shown = json!({
            "name": self.name,
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
        });
        if !description.is_empty() {
            shown["description"] = description.as_str().into();
        }
        shown
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

    /// Whether each consumer has a cursor of its own.
    pub fn has_consumers(&self) -> bool {
        match self.config.semantic.plain() {
            Semantic::Queue => false,
            Semantic::Broadcast | Semantic::Topic => true,
        }
    }

    /// The channel for messages that no member of a group acknowledged. A dead-letter channel has none: its messages stay.
    pub fn dead_letter(&self) -> Option<String> {
        match self.source {
            Source::Implicit => None,
            Source::Yaml | Source::Runtime => Some(self.config.dead_letter_of(&self.name)),
        }
    }
}

/// The channels of a tenant at one moment.
#[derive(Debug, Default)]
pub(crate) struct ChannelTable {
    declared: Arc<BTreeMap<String, Arc<Channel>>>,
    /// Made at runtime, and not of the config.
    defined: BTreeMap<String, Arc<Channel>>,
    /// Made at runtime, but without an active version that can be used. Their messages stay.
    inactive: BTreeSet<String>,
}

impl ChannelTable {
    /// The channels of the config alone.
    pub(crate) fn of_config(config: &BTreeMap<String, ChannelConfig>) -> Self {
        let declared = config.iter().map(|(name, config)| (name.clone(), Arc::new(Channel::declared(name, config))));
        Self { declared: Arc::new(declared.collect()), ..Self::default() }
    }

    /// The same with channels made at runtime.
    pub(crate) fn with(&self, defined: BTreeMap<String, Arc<Channel>>, inactive: BTreeSet<String>) -> Self {
        Self { declared: self.declared.clone(), defined, inactive }
    }

    pub(crate) fn is_declared(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    pub(crate) fn is_inactive(&self, name: &str) -> bool {
        self.inactive.contains(name)
    }

    /// The channel made at runtime, unless the config has its name.
    pub(crate) fn defined(&self, name: &str) -> Option<&Arc<Channel>> {
        self.defined.get(name)
    }

    /// The channels made at runtime that have this dead-letter channel.
    pub(crate) fn defined_with_dead_letter(&self, dead: &str) -> impl Iterator<Item = &str> {
        let has = move |channel: &&Arc<Channel>| channel.dead_letter().as_deref() == Some(dead);
        self.defined.values().filter(has).map(|channel| channel.name.as_str())
    }

    /// The channel of the config, or else of runtime; a dead-letter channel of one of them too.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Channel>> {
        if let Some(channel) = self.declared.get(name).or_else(|| self.defined.get(name)) {
            return Some(channel.clone());
        }
        let mut of = self.all().filter(|channel| channel.dead_letter().as_deref() == Some(name));
        of.next().map(|channel| Arc::new(channel.dead(name)))
    }

    /// All that were declared or made.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Channel>> {
        self.declared.values().chain(self.defined.values())
    }

    /// The settings of all of them.
    pub(crate) fn configs(&self) -> BTreeMap<String, ChannelConfig> {
        self.all().map(|channel| (channel.name.clone(), channel.config.clone())).collect()
    }

    /// Checks that dead letters of this and of other channels have an owner.
    pub(crate) fn check_dead_letters(&self, name: &str, config: &ChannelConfig) -> Result<(), ChannelError> {
        let others: Vec<_> = self.all().map(|channel| (channel.name.as_str(), &channel.config)).collect();
        check_dead_letters(name, config, &others)
    }

    /// Refuses dead letters that come out in another scope, where others than their owners read them.
    pub(crate) fn check_walls(&self, name: &str, config: &ChannelConfig) -> Result<(), ChannelError> {
        let refuse = |of: (&str, &ChannelConfig), dead: (&str, &ChannelConfig)| {
            let (from, to) = (of.1.scope.plain(), dead.1.scope.plain());
            if from == to {
                return Ok(());
            }
            let message = format!(
                "dead letters of channel {:?} (scope {}) would come out in {:?} (scope {}), where others read them: a token that \
                 belongs to one user cannot arrange that; use the scope {}, another dead_letter, or a token with runs:read:all",
                of.0,
                from.as_str(),
                dead.0,
                to.as_str(),
                from.as_str(),
            );
            Err(ChannelError::Scope(message))
        };
        let dead = config.dead_letter_of(name);
        self.all().filter(|other| other.name != name).try_for_each(|other| {
            if other.name == dead {
                refuse((name, config), (&dead, &other.config))?;
            }
            match other.dead_letter().as_deref() == Some(name) {
                true => refuse((&other.name, &other.config), (name, config)),
                false => Ok(()),
            }
        })
    }

    /// Whether a dead-letter channel of `name` is more than that: defined on its own, or that of another channel too.
    pub(crate) fn is_used(&self, dead: &str, name: &str) -> bool {
        let is_other = |channel: &Arc<Channel>| {
            channel.name == dead || (channel.name != name && channel.dead_letter().as_deref() == Some(dead))
        };
        self.inactive.contains(dead) || self.all().any(is_other)
    }
}

impl Channels {
    pub(crate) fn table(&self, tenant: &Tenant) -> Arc<ChannelTable> {
        self.parts.layers.channels_of(tenant)
    }

    /// The channel of this name. One of the config wins over one made at runtime.
    pub fn find(&self, tenant: &Tenant, name: &str) -> Option<Arc<Channel>> {
        self.table(tenant).find(name)
    }

    /// The dead-letter channels that exist without being declared or made, by name.
    pub fn list_implicit(&self, tenant: &Tenant) -> Vec<Arc<Channel>> {
        let table = self.table(tenant);
        let names: BTreeSet<String> = table.all().filter_map(|channel| channel.dead_letter()).collect();
        let found = names.iter().filter_map(|name| table.find(name));
        found.filter(|channel| channel.source == Source::Implicit).collect()
    }

    /// All channels that were declared or made, by name.
    pub fn list(&self, tenant: &Tenant) -> Vec<Arc<Channel>> {
        let mut all: Vec<_> = self.table(tenant).all().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    pub fn load_channel(&self, tenant: &Tenant, name: &str) -> Result<Arc<Channel>, ChannelError> {
        check_name(name)?;
        let table = self.table(tenant);
        table.find(name).ok_or_else(|| {
            let hint = match table.is_inactive(name) {
                true => "it has no active version (make one active with promote_definition)".to_owned(),
                false => {
                    let names = || table.all().map(|channel| channel.name.as_str());
                    let similar = closest(name, names());
                    let known = names().take(SHOWN).filter(|_| similar.is_none()).chain(similar);
                    const ADD: &str = "add it under `channels` in the config, or make it with create_channel";
                    did_you_mean(name, known).map_or_else(|| ADD.to_owned(), |hint| format!("{hint} ({ADD})"))
                }
            };
            ChannelError::NotDeclared { name: name.to_owned(), hint }
        })
    }

    /// The channel of messages that a reader waits for: it may have been changed or deleted meanwhile.
    pub fn load_again(&self, place: &Place) -> Result<Arc<Channel>, ChannelError> {
        let channel = self.load_channel(place.tenant(), place.channel())?;
        match channel.config.scope.plain() == place.scope() {
            true => Ok(channel),
            false => Err(ChannelError::Scope(format!(
                "channel {:?} was deleted and created again with the scope {}",
                channel.name,
                channel.config.scope.as_str()
            ))),
        }
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
