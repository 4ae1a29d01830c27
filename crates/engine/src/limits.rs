//! The limits of runs, with their defaults.

use drawloom_contract::limits::{Amount, Limit};

use crate::{
    accept::MOST_SPAWNS, call::MOST_RESULT_BYTES, children::MOST_BYTES, feed::BACKLOG, plan::MOST_TOOLS,
    turn::MOST_PARTS,
};

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
        code: "too_deep",
        what: "Depth of a tree of runs; a root has depth 0. The call that would spawn deeper fails.",
    },
    Limit {
        name: "children_per_call",
        key: Some("concurrency.max_children_per_call"),
        default: Amount::Count(32),
        code: "too_many_children",
        what: "Runs that one tool call spawns. A call that asks for more fails and starts none.",
    },
    Limit {
        name: "runs_per_tree",
        key: Some("concurrency.max_runs_per_tree"),
        default: Amount::Count(1_000),
        code: "too_many_runs",
        what: "Runs of one tree, its root included. The call that would spawn more fails and starts none.",
    },
    Limit {
        name: "queued_children",
        key: Some("concurrency.max_queued_children"),
        default: Amount::Count(4_096),
        code: "too_many_children",
        what: "Spawned runs of all trees that wait for their first slot. The call that would add more fails and starts none.",
    },
    Limit {
        name: "calls_per_turn",
        key: Some("concurrency.max_calls_per_turn"),
        default: Amount::Count(128),
        code: "too_many_calls",
        what: "Tool calls of one model turn. Calls beyond it are not executed, and each has a result that says so.",
    },
    Limit {
        name: "parts_per_answer",
        key: None,
        default: Amount::Count(MOST_PARTS as u64),
        code: "model_stream_cut",
        what: "Tool calls and thoughts of one model answer. A larger answer counts as a broken stream and is retried.",
    },
    Limit {
        name: "tools_per_run",
        key: None,
        default: Amount::Count(MOST_TOOLS as u64),
        code: "warnings",
        what: "Tools of one run. Tools beyond it are left out, and the run's warnings say so.",
    },
    Limit {
        name: "model_turn_time",
        key: Some("concurrency.model_turn_timeout_ms"),
        default: Amount::Millis(1_800_000),
        code: "model_stream_cut",
        what: "Time of one model turn. A longer one is cut off and retried like any broken stream, which counts against retry_attempts.",
    },
    Limit {
        name: "run_time",
        key: Some("concurrency.default_timeout_ms"),
        default: Amount::Millis(86_400_000),
        code: "timeout",
        what: "Time from accept to end of a root run and everything below it, unless the request gives timeout_ms. Waits for slots, children, retries and rate limits count.",
    },
    Limit {
        name: "turns_per_run",
        key: Some("agents.*.max_iterations"),
        default: Amount::Count(16),
        code: "max_iterations",
        what: "Model turns of one run, retries not counted. After them the model writes a last turn without tools.",
    },
    Limit {
        name: "retries_per_turn",
        key: Some("agents.*.retry_attempts"),
        default: Amount::Count(2),
        code: "model_unavailable",
        what: "Retries of one turn after a transient failure. After them another model is asked, or the run fails. Throttling is not counted; run_time bounds it.",
    },
    Limit {
        name: "follower_backlog",
        key: None,
        default: Amount::Count(BACKLOG as u64),
        code: "resync",
        what: "Events that a follower may be behind in memory. One that is further behind reads the journal instead and misses only deltas.",
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
