//! `channeldef`: create_channel, update_channel, delete_channel and purge_channel under one name.

use drawloom_contract::{
    channel::{ChannelScope, Semantic},
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    channels::given_or_null,
    request::{Changes, Request, Route},
};

/// Makes, changes, deletes or purges a channel: what create_channel, update_channel, delete_channel and purge_channel do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-not-built" = ["publisher", "period"]))]
pub struct ChannelDef {
    /// What to do.
    pub op: ChannelDefOp,
    /// The name of the channel.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"), extend("x-aliases" = ["channel"]))]
    pub name: String,
    /// What it is for. For `create` and `update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_096))]
    pub description: Option<String>,
    /// Who shares its messages. Defaults to `tenant`. For `create`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ChannelScope>,
    /// `queue` (default): each message goes to one reader. `broadcast` (also `topic`): each consumer gets every message. For
    /// `create` and `update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<Semantic>,
    /// Default time to live of a message, in seconds; unlimited by default. For `create` and `update`, where
    /// `null` removes it.
    #[serde(default, deserialize_with = "given_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    pub default_ttl: Option<Option<u64>>,
    /// Maximum messages that are kept for each owner; the oldest are dropped beyond it. Defaults to 10,000. For `create` and `update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_messages: Option<u64>,
    /// How long a member of a consumer group has a message, in milliseconds. Defaults to 60,000. For `create` and `update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 86_400_000_u64))]
    pub lease_ms: Option<u64>,
    /// Maximum deliveries of a message to a consumer group. Defaults to 5. For `create` and `update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_attempts: Option<u32>,
    /// The channel for messages that were not acknowledged. Defaults to the name with `.dead`. For `create` and
    /// `update`, where `null` means that default.
    #[serde(default, deserialize_with = "given_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub dead_letter: Option<Option<String>>,
    /// Only the messages of this user. For `purge` of a channel with the scope `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["scope_id"]))]
    pub user_id: Option<UserId>,
    /// Only the messages of this agent. For `purge` of a channel with the scope `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What to do with a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelDefOp {
    Create,
    Update,
    Delete,
    Purge,
}

/// What became of a channel: its settings after `create` and `update`, or what `delete` and `purge` removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelDefined {
    /// The name of the channel.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who shares its messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ChannelScope>,
    /// Who gets a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<Semantic>,
    /// Default time to live of a message, in seconds; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<u64>,
    /// Maximum messages that are kept for each owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u64>,
    /// How long a member of a consumer group has a message, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Maximum deliveries of a message to a consumer group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The channel for messages that were not acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
    /// `runtime`: made at runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The active version of a channel made at runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// SHA-256 of its settings: `content_sha256` of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When that version was made (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// How many messages it has, of all owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_count: Option<u64>,
    /// True after `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<bool>,
    /// How many messages `purge` removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<u64>,
    /// How many deferred messages `purge` removed before they became visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<u64>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for ChannelDef {
    const NAME: &'static str = "channeldef";
    const ROUTES: &'static [Route] = &[Route::post("/v1/channeldef")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = ChannelDefined;
}
