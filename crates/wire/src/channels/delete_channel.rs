//! `delete_channel`: deletes a channel made at runtime.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Deletes a channel made at runtime, with its messages, cursors and groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteChannel {
    /// The name of the channel.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"), extend("x-aliases" = ["channel"]))]
    pub name: String,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// A channel that was deleted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelDeleted {
    /// The name of the channel.
    pub name: String,
    /// Always true.
    pub deleted: bool,
    /// What the caller should know, such as dead letters that were deleted too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for DeleteChannel {
    const NAME: &'static str = "delete_channel";
    const ROUTES: &'static [Route] = &[Route::delete("/v1/channels/{name}"), Route::delete("/v1/_channels/{name}")];
    const CHANGES: Changes = Changes::Once;
    type Output = ChannelDeleted;
}
