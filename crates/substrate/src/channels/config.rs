//! The config section `channels`, which is also what a channel made at runtime has as its source.

use std::collections::BTreeMap;

use drawloom_contract::{
    channel::{ChannelScope, Semantic},
    ids::Digest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    error::ChannelError,
    place::{MOST_NAME, check_name},
};
use crate::{definitions::without_defaults, problem::Problem};

/// Maximum messages that a channel can keep.
pub const MOST_MESSAGES: u64 = 1_000_000;

/// Maximum seconds that a message can live: 100 years.
pub(super) const MOST_TTL: u64 = 3_153_600_000;

/// Shortest and longest lease of a consumer group.
pub(super) const LEAST_LEASE_MS: u64 = 100;
pub(super) const MOST_LEASE_MS: u64 = 86_400_000;

/// Maximum deliveries of a message to a group.
pub(super) const MOST_ATTEMPTS: u32 = 1_000;

/// Maximum characters of a channel's description.
pub(super) const MOST_DESCRIPTION: usize = 4_096;

/// What the name of a dead-letter channel ends with, unless it is given.
const DEAD: &str = ".dead";

/// A channel: messages in order that agents and callers publish and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-not-built" = ["publisher", "period"]))]
pub struct ChannelConfig {
    /// What it is for. Shown to users, and to models that can use it.
    #[schemars(length(max = MOST_DESCRIPTION))]
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub description: String,
    /// Who shares its messages: `agent`, `user` or `tenant` (also `global`).
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub scope: ChannelScope,
    /// `queue`: each message goes to one reader. `broadcast` (also `topic`): each consumer gets every message.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub semantic: Semantic,
    /// Default time to live of a message, in seconds; unlimited by default.
    #[schemars(range(min = 1, max = MOST_TTL))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub default_ttl: Option<u64>,
    /// Maximum messages that are kept for each owner. The oldest are dropped beyond it, and the publisher is told.
    #[schemars(range(min = 1, max = MOST_MESSAGES))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_messages: u64,
    /// How long a member of a consumer group has a message before another gets it, in milliseconds.
    #[schemars(range(min = LEAST_LEASE_MS, max = MOST_LEASE_MS))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub lease_ms: u64,
    /// Maximum deliveries of a message to a consumer group. Then it goes to the dead-letter channel.
    #[schemars(range(min = 1, max = MOST_ATTEMPTS))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_attempts: u32,
    /// The channel for messages that no member of a group acknowledged. Defaults to the name with `.dead`. It exists without being
    /// declared, with the same scope.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub dead_letter: Option<String>,
}

/// The defaults.
pub(super) const USUAL_MESSAGES: u64 = 10_000;
pub(super) const USUAL_LEASE_MS: u64 = 60_000;
pub(super) const USUAL_ATTEMPTS: u32 = 5;

impl Default for ChannelConfig {
    fn default() -> Self {
        Self {
            description: String::new(),
            scope: ChannelScope::Tenant,
            semantic: Semantic::Queue,
            default_ttl: None,
            max_messages: USUAL_MESSAGES,
            lease_ms: USUAL_LEASE_MS,
            max_attempts: USUAL_ATTEMPTS,
            dead_letter: None,
        }
    }
}

impl ChannelConfig {
    /// The same without aliases.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.scope = self.scope.plain();
        self.semantic = self.semantic.plain();
        self
    }

    /// The settings that differ from the defaults, without aliases: the source of a definition.
    pub fn source(&self) -> Value {
        without_defaults(&self.clone().plain())
    }

    /// The digest of the source.
    pub fn digest(&self) -> Digest {
        Digest::of(self.source().to_string().as_bytes())
    }

    /// The dead-letter channel of a channel of this name.
    pub(crate) fn dead_letter_of(&self, name: &str) -> String {
        self.dead_letter.clone().unwrap_or_else(|| format!("{name}{DEAD}"))
    }

    /// The first mistake, as an error.
    pub(crate) fn check(&self, name: &str) -> Result<(), ChannelError> {
        self.mistakes(name).into_iter().next().map_or(Ok(()), |(_, mistake)| Err(mistake))
    }

    /// Every mistake with its field: what the schema of the config and of requests checks too, and what it cannot.
    pub(crate) fn mistakes(&self, name: &str) -> Vec<(&'static str, ChannelError)> {
        let mut found = Vec::new();
        match check_name(name) {
            Err(error) => found.push(("name", error)),
            Ok(()) if self.dead_letter.is_none() && name.len() + DEAD.len() > MOST_NAME => {
                let problem = "with `.dead` it is longer than 128 characters; use at most 123, or set dead_letter";
                found.push(("name", ChannelError::BadName { what: "channel", name: name.to_owned(), problem }));
            }
            Ok(()) => {}
        }
        match &self.dead_letter {
            Some(dead) if dead == name => {
                let problem = "a channel cannot be its own dead-letter channel";
                let error = ChannelError::BadName { what: "dead_letter", name: dead.clone(), problem };
                found.push(("dead_letter", error));
            }
            Some(dead) => found.extend(check_name(dead).err().map(|error| ("dead_letter", error))),
            None => {}
        }
        let mut within = |field, value: u64, least, most| {
            if !(least..=most).contains(&value) {
                found.push((field, ChannelError::OutOfRange { field, value, least, most }));
            }
        };
        within("max_messages", self.max_messages, 1, MOST_MESSAGES);
        within("default_ttl", self.default_ttl.unwrap_or(1), 1, MOST_TTL);
        within("lease_ms", self.lease_ms, LEAST_LEASE_MS, MOST_LEASE_MS);
        within("max_attempts", self.max_attempts.into(), 1, MOST_ATTEMPTS.into());
        let description = self.description.chars().count();
        if description > MOST_DESCRIPTION {
            let (value, most) = (description as u64, MOST_DESCRIPTION as u64);
            found.push(("description", ChannelError::TooLong { field: "description", value, most }));
        }
        found
    }
}

/// Checks that dead letters of the channel have an owner in its dead-letter channel, and those of `others` in this one. The owner is the
/// tenant, or the same as before: a message of one user's channel belongs to no agent.
pub(super) fn check_dead_letters(
    name: &str,
    config: &ChannelConfig,
    others: &[(&str, &ChannelConfig)],
) -> Result<(), ChannelError> {
    let fits = |of: (&str, &ChannelConfig), dead: (&str, ChannelScope), is_defined: bool| {
        let (has, wants) = (dead.1.plain(), of.1.scope.plain());
        if has == wants || (is_defined && has == ChannelScope::Tenant) {
            return Ok(());
        }
        let message = format!(
            "channel {:?} has the scope {}, but its dead-letter channel {:?} the scope {}; use the same scope, a \
             dead-letter channel that is defined with the scope tenant, or another dead_letter",
            of.0,
            wants.as_str(),
            dead.0,
            has.as_str(),
        );
        Err(ChannelError::Scope(message))
    };
    let dead = config.dead_letter_of(name);
    let mut others_of = others.iter().filter(|(other, _)| *other != name);
    match others.iter().find(|(other, _)| *other == dead) {
        Some((_, defined)) => fits((name, config), (&dead, defined.scope), true)?,
        // It takes the scope of the channels that name it, so they must have the same.
        None => {
            let mut sharing = others_of.clone().filter(|(other, config)| config.dead_letter_of(other) == dead);
            sharing.try_for_each(|(_, other)| fits((name, config), (&dead, other.scope), false))?;
        }
    }
    others_of.try_for_each(|(other, of)| match of.dead_letter_of(other) == name {
        true => fits((other, of), (name, config.scope), true),
        false => Ok(()),
    })
}

/// What is wrong with the channels of the config.
pub fn problems(channels: &BTreeMap<String, ChannelConfig>) -> Vec<Problem> {
    let all: Vec<_> = channels.iter().map(|(name, config)| (name.as_str(), config)).collect();
    let check =
        |name: &str, config: &ChannelConfig| config.check(name).and_then(|()| check_dead_letters(name, config, &all));
    let wrong = channels.iter().filter_map(|(name, config)| Some((name, check(name, config).err()?)));
    wrong.map(|(name, error)| Problem::new(["channels", name], error.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_of_a_channel_is_reported_with_its_place() {
        let channels = BTreeMap::from([
            ("a b".to_owned(), ChannelConfig::default()),
            ("good".to_owned(), ChannelConfig::default()),
            ("own".to_owned(), ChannelConfig { dead_letter: Some("own".into()), ..ChannelConfig::default() }),
            ("_system/x".to_owned(), ChannelConfig::default()),
        ]);
        let found = problems(&channels);
        let places: Vec<&str> = found.iter().map(|problem| problem.at[1].as_str()).collect();
        assert_eq!(places, ["_system/x", "a b", "own"]);
        assert!(found[0].message.contains("reserved"), "{}", found[0].message);
    }
}
