//! `list_memory`: keys of memory by prefix, page by page.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    memory::{Named, Placed, Provenance},
    request::{Changes, Request, Route},
};

/// Lists keys of memory in order, with their values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListMemory {
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
    /// Only keys that begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub prefix: Option<String>,
    /// Only keys after this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub after: Option<String>,
    /// Maximum number of keys. Defaults to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Leave the values out.
    #[serde(default)]
    pub keys_only: bool,
    /// Say who wrote each entry, when, and what it replaced.
    #[serde(default)]
    pub include_provenance: bool,
}

/// A page of entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPage {
    /// The entries, by key.
    pub entries: Vec<MemoryEntry>,
    /// Whether there are more.
    pub truncated: bool,
    /// `after` of the next page, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An entry of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryEntry {
    /// The key.
    pub key: String,
    /// The value, unless it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Increases with every change.
    pub revision: u64,
    /// When the value expires (RFC 3339, UTC); absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Who wrote it, when, and what it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

impl Request for ListMemory {
    const NAME: &'static str = "list_memory";
    const ROUTES: &'static [Route] = &[Route::get("/v1/memory/{scope}/keys")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = MemoryPage;
}

impl Placed for ListMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}
