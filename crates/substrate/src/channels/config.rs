//! The config section `channels`, which is also what a channel made at runtime is stored as.

use std::collections::BTreeMap;

use drawloom_contract::{
    channel::{ChannelScope, Semantic},
    ids::Digest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{error::ChannelError, place::check_name};
use crate::problem::Problem;

/// Maximum messages that a channel can keep.
pub const MOST_MESSAGES: u64 = 1_000_000;

/// Maximum seconds that a message can live: 100 years.
pub(super) const MOST_TTL: u64 = 3_153_600_000;

/// Shortest and longest lease of a consumer group.
pub(super) const LEAST_LEASE_MS: u64 = 100;
pub(super) const MOST_LEASE_MS: u64 = 86_400_000;

/// Maximum deliveries of a message to a group.
pub(super) const MOST_ATTEMPTS: u32 = 1_000;

/// A channel: messages in order that agents and callers publish and read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-not-built" = ["publisher", "period"]))]
pub struct ChannelConfig {
    /// What it is for. Shown to users, and to models that can use it.
    pub description: String,
    /// Who shares its messages: `agent`, `user` or `tenant` (also `global`).
    pub scope: ChannelScope,
    /// `queue`: each message goes to one reader. `broadcast` (also `topic`): each consumer gets every message.
    pub semantic: Semantic,
    /// Default time to live of a message, in seconds; unlimited by default.
    #[schemars(range(min = 1, max = MOST_TTL))]
    pub default_ttl: Option<u64>,
    /// Maximum messages that are kept for each owner. The oldest are dropped beyond it, and the publisher is told.
    #[schemars(range(min = 1, max = MOST_MESSAGES))]
    pub max_messages: u64,
    /// How long a member of a consumer group has a message before another gets it, in milliseconds.
    #[schemars(range(min = LEAST_LEASE_MS, max = MOST_LEASE_MS))]
    pub lease_ms: u64,
    /// Maximum deliveries of a message to a consumer group. Then it goes to the dead-letter channel.
    #[schemars(range(min = 1, max = MOST_ATTEMPTS))]
    pub max_attempts: u32,
    /// The channel for messages that no member of a group acknowledged. Defaults to the name with `.dead`. It exists without being
    /// declared, with the same scope.
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

    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("a channel has only text keys"))
    }

    /// Checks what the schema of the config and of requests checks too, and what it cannot.
    pub(super) fn check(&self, name: &str) -> Result<(), ChannelError> {
        check_name(name)?;
        if let Some(dead) = &self.dead_letter {
            check_name(dead)?;
            if dead == name {
                let problem = "a channel cannot be its own dead-letter channel";
                return Err(ChannelError::BadName { what: "dead_letter", name: dead.clone(), problem });
            }
        }
        let beyond = |field, value: u64, least, most| Err(ChannelError::OutOfRange { field, value, least, most });
        match self {
            Self { max_messages: value, .. } if !(1..=MOST_MESSAGES).contains(value) => {
                beyond("max_messages", *value, 1, MOST_MESSAGES)
            }
            Self { default_ttl: Some(value), .. } if !(1..=MOST_TTL).contains(value) => {
                beyond("default_ttl", *value, 1, MOST_TTL)
            }
            Self { lease_ms: value, .. } if !(LEAST_LEASE_MS..=MOST_LEASE_MS).contains(value) => {
                beyond("lease_ms", *value, LEAST_LEASE_MS, MOST_LEASE_MS)
            }
            Self { max_attempts: value, .. } if !(1..=MOST_ATTEMPTS).contains(value) => {
                beyond("max_attempts", u64::from(*value), 1, u64::from(MOST_ATTEMPTS))
            }
            _ => Ok(()),
        }
    }
}

/// What is wrong with the channels of the config.
pub fn problems(channels: &BTreeMap<String, ChannelConfig>) -> Vec<Problem> {
    let wrong = channels.iter().filter_map(|(name, config)| Some((name, config.check(name).err()?)));
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
