//! `purge_channel`: removes the messages of a channel.

use drawloom_contract::ids::{AgentName, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Removes the messages of a channel, also of one of the config: those of one user or agent, or all. Cursors stay valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PurgeChannel {
    /// The name of the channel.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"), extend("x-aliases" = ["channel"]))]
    pub name: String,
    /// Only the messages of this user; for a channel with the scope `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["scope_id"]))]
    pub user_id: Option<UserId>,
    /// Only the messages of this agent; for a channel with the scope `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelPurged {
    /// The name of the channel.
    pub name: String,
    /// How many messages were removed.
    pub purged: u64,
    /// How many deferred messages were removed before they became visible.
    pub deferred: u64,
    /// What the caller should know, such as a wait that was clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for PurgeChannel {
    const NAME: &'static str = "purge_channel";
    const ROUTES: &'static [Route] =
        &[Route::post("/v1/channels/{name}/purge"), Route::post("/v1/_channels/{name}/purge")];
    // A message that came after the first one is removed by the second.
    const CHANGES: Changes = Changes::EveryTime;
    type Output = ChannelPurged;
}
