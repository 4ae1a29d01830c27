//! `await_channels`: waits for messages of several channels.

use std::collections::BTreeMap;

use drawloom_contract::{
    channel::{AwaitMode, ChannelScope},
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    channels::{ChannelMessages, Named, Placed},
    request::{Changes, Request, Route},
};

/// Waits for messages of several channels, without taking them: acknowledge with `ack_channel` and the cursors of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitChannels {
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
    /// When it is satisfied. Defaults to `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<AwaitMode>,
    /// Mode `at_least`: how many of the channels must have a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub n: Option<u32>,
    /// Read after these cursors, by channel, in place of the committed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_cursors: Option<BTreeMap<String, String>>,
    /// Broadcast channels only: which consumer reads. Each has its own cursor. Defaults to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub consumer: Option<String>,
    /// Maximum messages of each channel. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_messages: Option<u32>,
    /// How long to wait for a message, in milliseconds; at most 60,000 per request. `effective_wait_ms` says how long it was.
    /// Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What the channels have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Awaited {
    /// Whether enough channels have a message.
    pub satisfied: bool,
    /// Whether the wait ended before.
    pub timed_out: bool,
    /// The mode.
    pub mode: AwaitMode,
    /// The channels that have a message.
    pub fired: Vec<String>,
    /// How many messages the answer has.
    pub total_messages: u64,
    /// The messages, by channel.
    pub results: BTreeMap<String, ChannelMessages>,
    /// How long the request could wait, in milliseconds.
    pub effective_wait_ms: u64,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for AwaitChannels {
    const NAME: &'static str = "await_channels";
    const ROUTES: &'static [Route] = &[Route::post("/v1/channels:await"), Route::post("/v1/_channels/_await")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = Awaited;
}

impl Placed for AwaitChannels {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
