//! The config section `memory`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::Bounds;

/// How much memory may keep, and for how long. Quotas count for each owner: one agent, one user, one tree of runs, or the
/// tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Maximum keys of one owner.
    #[schemars(range(min = 1, max = 10_000_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_keys: u64,
    /// Maximum stored bytes of one owner: keys and values, with about 300 bytes of provenance each.
    #[schemars(range(min = 1_024, max = 1_099_511_627_776_u64))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_bytes: u64,
    /// Maximum bytes of one value, as JSON.
    #[schemars(range(min = 64, max = 1_000_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_value_bytes: u64,
    /// Default time to live of a value, in seconds; unlimited by default.
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub default_ttl_seconds: Option<u64>,
    /// Maximum time to live of a value, in seconds, and the default if no other is set; no limit by
    /// default.
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_ttl_seconds: Option<u64>,
    /// Maximum bytes of the values that one search or list of the tool `Memory` returns; a call can request less.
    #[schemars(range(min = 1_024, max = 1_048_576))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub search_bytes: u64,
}

/// The defaults.
pub(super) const USUAL: MemoryConfig = MemoryConfig {
    max_keys: 10_000,
    max_bytes: 16 * 1024 * 1024,
    max_value_bytes: 64 * 1024,
    default_ttl_seconds: None,
    max_ttl_seconds: None,
    search_bytes: 32 * 1024,
};

impl Default for MemoryConfig {
    fn default() -> Self {
        USUAL
    }
}

impl MemoryConfig {
    pub(crate) fn bounds(&self) -> Bounds {
        let longest = self.max_ttl_seconds;
        let usual = self.default_ttl_seconds.or(longest).map(|usual| longest.map_or(usual, |most| usual.min(most)));
        Bounds { value_bytes: self.max_value_bytes, usual_ttl: usual, longest_ttl: longest }
    }
}
