//! `list_channels`: the channels of the tenant.

use drawloom_contract::{
    channel::{ChannelScope, Semantic},
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Lists channels: those of the config, those made at runtime, and dead-letter channels of both that have messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListChannels {
    /// Only channels whose name begins with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub prefix: Option<String>,
    /// Only channels after this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub after: Option<String>,
    /// Maximum channels. Defaults to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: Option<u32>,
}

/// Channels by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelList {
    /// The channels.
    pub channels: Vec<ChannelDescriptor>,
    /// `after` of the next page, when there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelDescriptor {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who shares its messages.
    pub scope: ChannelScope,
    /// Who gets a message.
    pub semantic: Semantic,
    /// Default time to live of a message, in seconds; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<u64>,
    /// Maximum messages that are kept for each owner.
    pub max_messages: u64,
    /// How long a member of a consumer group has a message, in milliseconds.
    pub lease_ms: u64,
    /// Maximum deliveries of a message to a consumer group.
    pub max_attempts: u32,
    /// The channel for messages that were not acknowledged; a dead-letter channel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
    /// `yaml`: the config file. `runtime`: create_channel. `implicit`: the dead-letter channel of another channel.
    pub source: String,
    /// The active version of a channel made at runtime; 1 for others.
    pub version: u64,
    /// SHA-256 of its settings: `content_sha256` of the version.
    pub digest: String,
    /// When that version was made (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<String>,
    /// How many messages it has, of all owners.
    #[serde(default)]
    pub message_count: u64,
    /// How many of them have readers that did not read them: for each owner those of the reader that is furthest behind, or all when
    /// nothing has read yet. Only in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_count: Option<u64>,
    /// Its readers, those with the most unread messages first; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<ChannelReader>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A reader of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelReader {
    /// `all` for the readers of a queue, which share a cursor; the consumer of a broadcast channel, with its user; or `group/NAME`.
    pub reader: String,
    /// The user, of a channel with the scope `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The agent, of a channel with the scope `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Messages that it has not read; of a group also those that were not acknowledged.
    pub unread: u64,
}

impl Request for ListChannels {
    const NAME: &'static str = "list_channels";
    const ROUTES: &'static [Route] = &[Route::get("/v1/channels"), Route::get("/v1/_channels")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ChannelList;
}
