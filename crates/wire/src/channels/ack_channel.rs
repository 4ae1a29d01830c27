//! `ack_channel`: acknowledges messages, by cursor or by lease.

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    channels::{Named, Placed},
    request::{Changes, Request, Route},
};

/// Acknowledges messages: everything up to a cursor, or a group's messages by their leases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckChannel {
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
    /// Everything up to this cursor was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), regex(pattern = r"^[A-Za-z0-9_]*$"))]
    pub cursor: Option<String>,
    /// Broadcast channels only: which consumer reads. Each has its own cursor. Defaults to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub consumer: Option<String>,
    /// The consumer group, with `leases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub group: Option<String>,
    /// The leases of the messages, with `group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_000))]
    pub leases: Option<Vec<String>>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was acknowledged, given back or extended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settled {
    /// Always true.
    pub ok: bool,
    /// The channel.
    pub channel: String,
    /// The cursor now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The consumer group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How many leases held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
    /// The new leases of messages that were extended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<String>,
    /// The new lease, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Leases that were lost: their messages went to others or were settled before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for AckChannel {
    const NAME: &'static str = "ack_channel";
    const ROUTES: &'static [Route] = &[
        Route::post("/v1/channels/{channel}/ack"),
        Route::post("/v1/_channels/{channel}/ack"),
        Route::post("/v1/users/{user_id}/channels/{channel}/ack"),
    ];
    const CHANGES: Changes = Changes::Once;
    type Output = Settled;
}

impl Placed for AckChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
