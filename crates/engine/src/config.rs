//! How much may happen at once: the config section `concurrency`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Concurrency limits and timeouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Maximum concurrent runs.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_concurrent_runs: u32,
    /// Maximum concurrent runs per user; 0 for no limit.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_concurrent_runs_per_user: u32,
    /// Maximum queued top-level runs; further ones are rejected.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_queue_depth: u32,
    /// Maximum time that a top-level run waits in the queue, in milliseconds.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub queue_timeout_ms: u64,
    /// Maximum spawn depth; a top-level run has depth 0.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_spawn_depth: u32,
    /// Maximum child runs per call.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_children_per_call: u32,
    /// Maximum runs per tree, including the top-level run.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_runs_per_tree: u32,
    /// Maximum queued child runs across all trees.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_queued_children: u32,
    /// Maximum tool calls executed per turn; further calls return an error.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_calls_per_turn: u32,
    /// Maximum concurrent tool calls per turn.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub tool_parallelism: u32,
    /// Timeout of one model call, in milliseconds.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub model_turn_timeout_ms: u64,
    /// Timeout of a top-level run if its request sets no `timeout_ms`, in milliseconds; 0 for no limit.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub default_timeout_ms: u64,
    /// Time that the server waits for current steps at shutdown, in milliseconds.
    #[schemars(extend("x-harmless" = "a limit"))]
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
