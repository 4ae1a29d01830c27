//! How much may happen at once: the config section `concurrency`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much may happen at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Most runs with a slot at once.
    pub max_concurrent_runs: u32,
    /// Most runs with a slot at once for one user; 0 for no cap.
    pub max_concurrent_runs_per_user: u32,
    /// Most root runs that wait for a slot; more are refused.
    pub max_queue_depth: u32,
    /// How long a root run may wait for its first slot, in milliseconds.
    pub queue_timeout_ms: u64,
    /// How deep runs may spawn runs; a root has depth 0.
    pub max_spawn_depth: u32,
    /// Most children that one call may spawn.
    pub max_children_per_call: u32,
    /// Most tool calls of one turn at once.
    pub tool_parallelism: u32,
    /// How long a stopping server waits for steps in flight, in milliseconds.
    pub drain_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_concurrent_runs: 8,
            max_concurrent_runs_per_user: 0,
            max_queue_depth: 1024,
            queue_timeout_ms: 1_200_000,
            max_spawn_depth: 3,
            max_children_per_call: 32,
            tool_parallelism: 8,
            drain_timeout_ms: 10_000,
        }
    }
}
