//! `publish_channel`: appends a message to a channel, and what all requests about messages share.

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Publishes a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishChannel {
    /// The channel.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"), extend("x-aliases" = ["name"]))]
    pub channel: String,
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

/// A message that was published, or deferred.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The id of the message; the same for a repeat of the request.
    pub message_id: String,
    /// The channel.
    pub channel: String,
    /// When it was published (RFC 3339, UTC).
    pub published_at: String,
    /// The place of the message; absent when it is deferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// When a deferred message becomes visible (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_at: Option<String>,
    /// How many of the oldest messages were dropped before every reader had read them, because the channel was full.
    pub dropped_oldest: u64,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for PublishChannel {
    const NAME: &'static str = "publish_channel";
    const ROUTES: &'static [Route] = &[
        Route::post("/v1/channels/{channel}/publish"),
        Route::post("/v1/_channels/{channel}/publish"),
        Route::post("/v1/users/{user_id}/channels/{channel}/publish"),
    ];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = Published;
}

impl Placed for PublishChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}

/// Whose messages a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    pub scope: Option<ChannelScope>,
    pub agent: Option<&'a AgentName>,
    pub user_id: Option<&'a UserId>,
}

/// A request about the messages of one owner.
pub trait Placed {
    fn named(&self) -> Named<'_>;
}
