//! `subscribe_channel`: takes the next messages of a channel.

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

/// Takes the next messages: they are not delivered again. With a group, only acknowledged ones are not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscribeChannel {
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
    /// Broadcast channels only: which consumer reads. Each has its own cursor. Defaults to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub consumer: Option<String>,
    /// Consumer group: messages come under a lease, and come back unless they are acknowledged with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub group: Option<String>,
    /// Groups only: time until an unacknowledged message comes back, in milliseconds. Defaults to that of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 86_400_000_u64))]
    pub lease_ms: Option<u64>,
    /// Read after this cursor, in place of the committed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), regex(pattern = r"^[A-Za-z0-9_]*$"))]
    pub from_cursor: Option<String>,
    /// Maximum messages. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_messages: Option<u32>,
    /// How long to wait for a message, in milliseconds; at most 60,000 per request. `effective_wait_ms` says how long it was.
    /// Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// Messages of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelMessages {
    /// The channel.
    pub channel: String,
    /// The messages, in the order of the channel.
    pub messages: Vec<ChannelMessage>,
    /// Everything up to here was read: `cursor` of `ack_channel`.
    pub next_cursor: String,
    /// Whether there are more messages already.
    pub more: bool,
    /// Messages that were dropped, purged or expired before they were read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Whether the wait ended without a message.
    #[serde(default, skip_serializing_if = "is_false")]
    pub timed_out: bool,
    /// The consumer group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The lease of the messages, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long the request could wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_wait_ms: Option<u64>,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelMessage {
    /// Its id.
    pub id: String,
    /// What was published.
    pub value: Value,
    /// When it became visible (RFC 3339, UTC).
    pub published_at: String,
    /// Its place: `cursor` of `ack_channel`.
    pub cursor: String,
    /// Groups only: how often it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Groups only: what acknowledges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Request for SubscribeChannel {
    const NAME: &'static str = "subscribe_channel";
    const ROUTES: &'static [Route] = &[
        Route::post("/v1/channels/{channel}/subscribe"),
        Route::post("/v1/_channels/{channel}/subscribe"),
        Route::post("/v1/users/{user_id}/channels/{channel}/subscribe"),
    ];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = ChannelMessages;
}

impl Placed for SubscribeChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
