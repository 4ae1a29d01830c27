//! `nak_channel`: gives messages of a group back.

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    channels::{Named, Placed, Settled},
    request::{Changes, Request, Route},
};

/// Gives messages back: a member of the group gets them again at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NakChannel {
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
    /// The consumer group.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub group: String,
    /// The leases of the messages.
    #[schemars(length(min = 1, max = 1_000))]
    pub leases: Vec<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl Request for NakChannel {
    const NAME: &'static str = "nak_channel";
    const ROUTES: &'static [Route] = &[
        Route::post("/v1/channels/{channel}/nak"),
        Route::post("/v1/_channels/{channel}/nak"),
        Route::post("/v1/users/{user_id}/channels/{channel}/nak"),
    ];
    const CHANGES: Changes = Changes::Once;
    type Output = Settled;
}

impl Placed for NakChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
