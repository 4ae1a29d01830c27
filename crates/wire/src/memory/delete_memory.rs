//! `delete_memory`: removes one key of memory.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    memory::{Named, Placed},
    request::{Changes, Request, Route},
};

/// Removes one key of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteMemory {
    /// Who shares the memory.
    pub scope: MemoryScope,
    /// The agent; required with the scope `agent`, and only used there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Any run of the tree; required with the scope `run`, and only used there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The user, only with the scope `user`. Defaults to the caller; a principal's token allows no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The key: 1 to 512 bytes, without control characters.
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub key: String,
    /// Change the key only when it is at this revision; 0 means that it must not exist. Otherwise the answer is a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<u64>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryDeleted {
    /// Whether the key existed.
    pub deleted: bool,
    /// The revision of the removal; 0 when the key did not exist.
    pub revision: u64,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for DeleteMemory {
    const NAME: &'static str = "delete_memory";
    const ROUTES: &'static [Route] = &[Route::delete("/v1/memory/{scope}/keys/{key...}")];
    const CHANGES: Changes = Changes::Once;
    type Output = MemoryDeleted;
}

impl Placed for DeleteMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}
