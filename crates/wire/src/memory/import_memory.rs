//! `import_memory`: many entries at once, all or none.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    memory::{Named, Placed},
    request::{Changes, Request, Route},
};

/// Writes entries, all or none, whatever their keys held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportMemory {
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
    /// The entries, each key once.
    #[schemars(length(min = 1, max = 500))]
    pub entries: Vec<ImportEntry>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// An entry to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportEntry {
    /// The key: 1 to 512 bytes, without control characters.
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub key: String,
    /// The value: any JSON.
    pub value: Value,
    /// When it expires (RFC 3339). Defaults to never. Expired entries are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryImported {
    /// Entries that were written.
    pub imported: u64,
    /// Entries that were left out, because their time is over.
    pub expired: u64,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for ImportMemory {
    const NAME: &'static str = "import_memory";
    const ROUTES: &'static [Route] = &[Route::post("/v1/memory/{scope}/import")];
    const CHANGES: Changes = Changes::Once;
    type Output = MemoryImported;
}

impl Placed for ImportMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}
