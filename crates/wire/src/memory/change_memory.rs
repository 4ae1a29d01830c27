//! `change_memory`: changes what a key holds, by what it holds.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::{
    memory::{Named, Placed, given},
    request::{Changes, Request, Route},
};

/// Changes one key by what it holds: adds to a number, merges an object, appends to a list. Nobody's change is lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeMemory {
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
    /// What to do.
    pub op: MemoryOp,
    /// `merge`: an object. `append_dedupe` and `bounded_list`: the entry to append.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub value: Option<Value>,
    /// `incr`: the number to add. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Number>,
    /// `bounded_list`: how many entries the list keeps; the oldest go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<u32>,
    /// Time to live of the value, in seconds. Defaults to that of the config for `set` and for new keys; other operations keep
    /// the expiry of an existing value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_153_600_000_u64), extend("x-aliases" = ["ttl"]))]
    pub ttl_seconds: Option<u64>,
    /// Change the key only when it is at this revision; 0 means that it must not exist. Otherwise the answer is a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_revision: Option<u64>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// A change of a key by what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryOp {
    /// Adds to a number; a key that does not exist counts as 0.
    Incr,
    /// Merges an object into an object (RFC 7396): `null` removes a field.
    Merge,
    /// Appends to a list unless it has an equal entry.
    AppendDedupe,
    /// Appends to a list and drops the oldest entries beyond `limit`.
    BoundedList,
}

/// What a change made of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryChanged {
    /// What the key holds now.
    pub value: Value,
    /// The revision of the key now.
    pub revision: u64,
    /// `append_dedupe`: whether the list did not have the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appended: Option<bool>,
    /// `bounded_list`: how many of the oldest entries went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for ChangeMemory {
    const NAME: &'static str = "change_memory";
    const ROUTES: &'static [Route] = &[Route::post("/v1/memory/{scope}/keys/{key...}")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = MemoryChanged;
}

impl Placed for ChangeMemory {
    fn named(&self) -> Named {
        Named::new(self.scope, &self.agent, &self.run_id, &self.user_id)
    }
}
