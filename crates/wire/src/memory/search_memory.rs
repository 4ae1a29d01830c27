//! `search_memory`: entries of memory by their words, best first.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    memory::{MemoryEntry, Named, Placed},
    request::{Changes, Request, Route},
};

/// Finds entries of memory by words in their keys and values, best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMemory {
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
    /// Words to find. "Words in quotes" must follow each other; `word*` matches a prefix. If no entry has all words, entries
    /// with some of them are returned.
    #[schemars(length(min = 1, max = 1000))]
    pub query: String,
    /// Only keys that begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub prefix: Option<String>,
    /// Maximum number of results. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50), extend("x-aliases" = ["top_k"]))]
    pub limit: Option<u32>,
    /// Maximum bytes of the values in the response. Defaults to `memory.search_bytes` of the config. For a value that does not
    /// fit, only its size is returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_048_576))]
    pub max_bytes: Option<u64>,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryHits {
    /// The hits, best first.
    pub entries: Vec<MemoryHit>,
    /// Whether there are more hits than the limit.
    pub truncated: bool,
    /// Whether every hit has all words of the query; not, when no entry has.
    pub all_words: bool,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A hit of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryHit {
    /// The entry.
    pub entry: MemoryEntry,
    /// How well it fits; higher is better. Scores of two searches cannot be compared.
    pub score: f64,
    /// Bytes of the value, when it is left out because it does not fit `max_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
}

impl Request for SearchMemory {
    const NAME: &'static str = "search_memory";
    const ROUTES: &'static [Route] = &[Route::get("/v1/memory/{scope}/search")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = MemoryHits;
}

impl Placed for SearchMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}
