//! `update_channel`: changes a channel made at runtime.

use drawloom_contract::channel::Semantic;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    channels::ChannelDescriptor,
    request::{Changes, Request, Route},
};

/// Changes settings of a channel made at runtime. Those that are not given stay. It makes a new version that is active at once; settings
/// that an earlier version has make that one active.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateChannel {
    /// The name of the channel.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"), extend("x-aliases" = ["channel"]))]
    pub name: String,
    /// What it is for. Shown to users, and to models that can use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4_096))]
    pub description: Option<String>,
    /// `queue` (default): each message goes to one reader. `broadcast` (also `topic`): each consumer gets every message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<Semantic>,
    /// Default time to live of a message, in seconds; unlimited by default. `null` removes it.
    #[serde(default, deserialize_with = "given_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    pub default_ttl: Option<Option<u64>>,
    /// Maximum messages that are kept for each owner; the oldest are dropped beyond it. Defaults to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_messages: Option<u64>,
    /// How long a member of a consumer group has a message, in milliseconds. Defaults to 60,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 86_400_000_u64))]
    pub lease_ms: Option<u64>,
    /// Maximum deliveries of a message to a consumer group. Defaults to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_attempts: Option<u32>,
    /// The channel for messages that were not acknowledged. Defaults to the name with `.dead`. `null` means that
    /// default.
    #[serde(default, deserialize_with = "given_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub dead_letter: Option<Option<String>>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for UpdateChannel {
    const NAME: &'static str = "update_channel";
    const ROUTES: &'static [Route] = &[Route::patch("/v1/channels/{name}"), Route::patch("/v1/_channels/{name}")];
    const CHANGES: Changes = Changes::Once;
    type Output = ChannelDescriptor;
}

/// A field that was given, also when it is `null`.
pub(super) fn given_or_null<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
