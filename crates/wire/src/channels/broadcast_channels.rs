//! `broadcast_channels`: publishes one message to several channels.

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    channels::{Named, Placed},
    request::{Changes, Request, Route},
};

/// Publishes one message to several channels. All of them are checked before anything is published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BroadcastChannels {
    /// The channels: 1 to 32.
    #[schemars(length(min = 1, max = 32))]
    pub channels: Vec<String>,
    /// The user, only for a channel with the scope `user`. Defaults to the caller; a principal's token allows no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["scope_id"]))]
    pub user_id: Option<UserId>,
    /// The agent; required for a channel with the scope `agent`, and only used there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The scope that the channel must have; otherwise the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ChannelScope>,
    /// The message: any JSON, at most 64 KiB.
    #[schemars(extend("x-aliases" = ["payload"]))]
    pub value: Value,
    /// Time to live of the message once it is visible, in seconds. Defaults to that of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_153_600_000_u64), extend("x-aliases" = ["ttl_seconds"]))]
    pub ttl: Option<u64>,
    /// When the message becomes visible (RFC 3339); at once, by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub deliver_at: Option<String>,
    /// How long until the message becomes visible, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 31_622_400_000_u64))]
    pub deliver_after_ms: Option<u64>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What became of a broadcast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Broadcasted {
    /// Channels to which it was published.
    pub published: u64,
    /// Channels to which it was not.
    pub failed: u64,
    /// Each channel, in the order of the request.
    pub results: Vec<BroadcastResult>,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What became of a broadcast in one channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BroadcastResult {
    /// The channel.
    pub channel: String,
    /// The id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// When it was published (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
    /// The place of the message; absent when it is deferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// When a deferred message becomes visible (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_at: Option<String>,
    /// How many of the oldest messages were dropped before every reader had read them, because the channel was full.
    #[serde(default)]
    pub dropped_oldest: u64,
    /// Why it was not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The code of that error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for BroadcastChannels {
    const NAME: &'static str = "broadcast_channels";
    const ROUTES: &'static [Route] = &[Route::post("/v1/channels:broadcast"), Route::post("/v1/_channels/_broadcast")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = Broadcasted;
}

impl Placed for BroadcastChannels {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
