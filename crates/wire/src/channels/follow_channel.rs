//! `follow_channel`: messages of a channel, as they are published.

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    channels::{ChannelMessages, Named, Placed},
    request::{Changes, Request, Route},
};

/// Follows the messages of a channel without taking them: those that it has, then every new one. As JSON it answers messages after
/// `after`, or waits for the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowChannel {
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
    /// Only messages after this sequence, the id of an event; also the header `Last-Event-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Begin with new messages, if `after` is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<bool>,
    /// JSON only: maximum messages. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_messages: Option<u32>,
    /// JSON only: how long to wait for a message, in milliseconds; at most 60,000. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl Request for FollowChannel {
    const NAME: &'static str = "follow_channel";
    const ROUTES: &'static [Route] = &[
        Route::get("/v1/channels/{channel}/events"),
        Route::get("/v1/_channels/{channel}/events"),
        Route::get("/v1/users/{user_id}/channels/{channel}/events"),
    ];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ChannelMessages;
}

impl Placed for FollowChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
