//! `get_memory`: one key of memory, and what all requests about memory share.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Reads one key of memory. A key that does not exist is answered with revision 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetMemory {
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
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryValue {
    /// Whether the key exists.
    pub found: bool,
    /// The value; absent when the key does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<Value>")]
    pub value: Option<Value>,
    /// Increases with every change; 0 when the key does not exist.
    pub revision: u64,
    /// When the value expires (RFC 3339, UTC); absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Who wrote it, when, and what it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Who wrote an entry: the call of a run's agent, or a user by an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The run whose agent wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The agent that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The sequence of the call's record in the run's journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// The user for whom it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The operation that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// When it was written (RFC 3339, UTC).
    pub at: String,
    /// What it replaced; absent for a new key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
}

/// What an entry replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replaced {
    /// The revision before.
    pub revision: u64,
    /// SHA-256 of the value before, as JSON with its fields in order.
    pub digest: String,
}

impl Request for GetMemory {
    const NAME: &'static str = "get_memory";
    const ROUTES: &'static [Route] = &[Route::get("/v1/memory/{scope}/keys/{key...}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = MemoryValue;
}

impl Placed for GetMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}

/// Whose memory a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub scope: MemoryScope,
    pub agent: Option<AgentName>,
    pub run_id: Option<RunId>,
    pub user_id: Option<UserId>,
}

/// A request about the memory of one scope.
pub trait Placed {
    fn named(&self) -> Named;
}

impl Named {
    pub(super) fn new(
        scope: MemoryScope,
        agent: &Option<AgentName>,
        run_id: &Option<RunId>,
        user_id: &Option<UserId>,
    ) -> Self {
        Self { scope, agent: agent.clone(), run_id: *run_id, user_id: user_id.clone() }
    }
}

/// A field that was given, also when it is `null`.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
