//! `peek_channel`: reads messages without taking them.

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

/// Reads messages without taking them. `ack_channel` accepts `next_cursor` of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeekChannel {
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
    /// Read after this cursor, in place of the committed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40), regex(pattern = r"^[A-Za-z0-9_]*$"))]
    pub from_cursor: Option<String>,
    /// Maximum messages. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_messages: Option<u32>,
}

impl Request for PeekChannel {
    const NAME: &'static str = "peek_channel";
    const ROUTES: &'static [Route] = &[
        Route::get("/v1/channels/{channel}/peek"),
        Route::get("/v1/_channels/{channel}/peek"),
        Route::get("/v1/users/{user_id}/channels/{channel}/peek"),
    ];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ChannelMessages;
}

impl Placed for PeekChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
