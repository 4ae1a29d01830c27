//! The limits of runs, with their defaults.

use drawloom_contract::limits::{Amount, Limit};

use crate::{accept::MOST_SPAWNS, children::MOST_BYTES, perform::MOST_RESULT_BYTES};

/// Every limit of the engine.
pub const LIMITS: &[Limit] = &[
    Limit {
        name: "queued_roots",
        key: Some("concurrency.max_queue_depth"),
        default: Amount::Count(1_024),
        code: "backpressure",
        what: "Root runs that wait for a slot. A request that would add more is refused whole.",
    },
    Limit {
        name: "queue_time",
        key: Some("concurrency.queue_timeout_ms"),
        default: Amount::Millis(1_200_000),
        code: "queue_timeout",
        what: "Time a root run waits for its first slot. After it the run ends as timed out.",
    },
    Limit {
        name: "batch_size",
        key: None,
        default: Amount::Count(MOST_SPAWNS as u64),
        code: "bad_batch_size",
        what: "Runs of one batch. A larger batch is refused whole.",
    },
    Limit {
        name: "spawn_depth",
        key: Some("concurrency.max_spawn_depth"),
        default: Amount::Count(3),
        code: "tool_error",
        what: "Depth of a tree of runs; a root has depth 0. The call that would spawn deeper fails.",
    },
    Limit {
        name: "children_per_call",
        key: Some("concurrency.max_children_per_call"),
        default: Amount::Count(32),
        code: "tool_error",
        what: "Runs that one tool call spawns. A call that asks for more fails and starts none.",
    },
    Limit {
        name: "tool_result_bytes",
        key: None,
        default: Amount::Bytes(MOST_RESULT_BYTES as u64),
        code: "truncated",
        what: "Bytes of one tool result that the model gets. A longer one is cut and says so.",
    },
    Limit {
        name: "children_result_bytes",
        key: None,
        default: Amount::Bytes(MOST_BYTES as u64),
        code: "truncated",
        what: "Bytes of the answers of all children of one call together. Longer answers are cut and say so.",
    },
];
