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
    /// Most runs in one tree, its root included.
    pub max_runs_per_tree: u32,
    /// Most spawned runs of all trees that wait for a first slot.
    pub max_queued_children: u32,
    /// Most tool calls of one turn that are executed; the model is told about the rest.
    pub max_calls_per_turn: u32,
    /// Most tool calls of one turn at once.
    pub tool_parallelism: u32,
    /// How long one model turn may take in all, in milliseconds.
    pub model_turn_timeout_ms: u64,
    /// How long a root run may take when its request gives no `timeout_ms`, in milliseconds; 0 for no limit.
    pub default_timeout_ms: u64,
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
            max_runs_per_tree: 1_000,
            max_queued_children: 4_096,
            max_calls_per_turn: 128,
            tool_parallelism: 8,
            model_turn_timeout_ms: 1_800_000,
            default_timeout_ms: 86_400_000,
            drain_timeout_ms: 10_000,
        }
    }
}
