//! The limits of runs, with their defaults.

use drawloom_contract::{
    limits::{Amount, Limit},
    tool::MAX_RESULT_BYTES,
};

use crate::{accept::MOST_SPAWNS, children::MOST_BYTES, feed::BACKLOG, plan::MOST_TOOLS, turn::MOST_PARTS};

/// Every limit of the engine.
pub const LIMITS: &[Limit] = &[
    Limit {
        name: "queued_roots",
        key: Some("concurrency.max_queue_depth"),
        default: Amount::Count(1_024),
        code: "backpressure",
        what: "Queued top-level runs. A request that exceeds it is rejected as a whole.",
    },
    Limit {
        name: "queue_time",
        key: Some("concurrency.queue_timeout_ms"),
        default: Amount::Millis(1_200_000),
        code: "queue_timeout",
        what: "Time a top-level run may wait in the queue before it times out.",
    },
    Limit {
        name: "batch_size",
        key: None,
        default: Amount::Count(MOST_SPAWNS as u64),
        code: "bad_batch_size",
        what: "Runs per batch. A larger batch is rejected as a whole.",
    },
    Limit {
        name: "spawn_depth",
        key: Some("concurrency.max_spawn_depth"),
        default: Amount::Count(3),
        code: "too_deep",
        what: "Depth of a run tree; a top-level run has depth 0. A call that spawns deeper fails.",
    },
    Limit {
        name: "children_per_call",
        key: Some("concurrency.max_children_per_call"),
        default: Amount::Count(32),
        code: "too_many_children",
        what: "Child runs per tool call. A call that requests more fails and starts none.",
    },
    Limit {
        name: "runs_per_tree",
        key: Some("concurrency.max_runs_per_tree"),
        default: Amount::Count(1_000),
        code: "too_many_runs",
        what: "Runs per tree, including the top-level run. A call that exceeds it fails and starts none.",
    },
    Limit {
        name: "queued_children",
        key: Some("concurrency.max_queued_children"),
        default: Amount::Count(4_096),
        code: "too_many_children",
        what: "Queued child runs across all trees. A call that exceeds it fails and starts none.",
    },
    Limit {
        name: "calls_per_turn",
        key: Some("concurrency.max_calls_per_turn"),
        default: Amount::Count(128),
        code: "too_many_calls",
        what: "Tool calls per model turn. Further calls are not executed; each returns an error that says so.",
    },
    Limit {
        name: "parts_per_answer",
        key: None,
        default: Amount::Count(MOST_PARTS as u64),
        code: "model_stream_cut",
        what: "Tool calls and reasoning blocks per model response. A larger response counts as a broken stream and is \
            retried.",
    },
    Limit {
        name: "tools_per_run",
        key: None,
        default: Amount::Count(MOST_TOOLS as u64),
        code: "warnings",
        what: "Tools per run. Further tools are omitted, with a warning on the run.",
    },
    Limit {
        name: "model_turn_time",
        key: Some("concurrency.model_turn_timeout_ms"),
        default: Amount::Millis(1_800_000),
        code: "model_stream_cut",
        what: "Duration of one model call. A longer one is aborted and retried like a broken stream, which counts \
            against retry_attempts.",
    },
    Limit {
        name: "run_time",
        key: Some("concurrency.default_timeout_ms"),
        default: Amount::Millis(86_400_000),
        code: "timeout",
        what: "Duration of a top-level run and its child runs, from accept to end, unless the request sets timeout_ms. \
            Includes time spent queued, waiting for child runs, retrying and rate limited.",
    },
    Limit {
        name: "turns_per_run",
        key: Some("agents.*.max_iterations"),
        default: Amount::Count(16),
        code: "max_iterations",
        what: "Model turns per run, not counting retries. Then the model gets one final turn without tools.",
    },
    Limit {
        name: "retries_per_turn",
        key: Some("agents.*.retry_attempts"),
        default: Amount::Count(2),
        code: "model_unavailable",
        what: "Retries of one model call after a transient error. Then the run falls back to another model or fails. \
            Rate limiting is not counted; run_time limits it.",
    },
    Limit {
        name: "follower_backlog",
        key: None,
        default: Amount::Count(BACKLOG as u64),
        code: "resync",
        what: "Events buffered in memory per follower. A follower that falls further behind reads the journal instead \
            and misses only deltas.",
    },
    Limit {
        name: "tool_result_bytes",
        key: None,
        default: Amount::Bytes(MAX_RESULT_BYTES as u64),
        code: "truncated",
        what: "Size of one tool result. A longer one is truncated for a model, with a notice, and is an error for an executor.",
    },
    Limit {
        name: "children_result_bytes",
        key: None,
        default: Amount::Bytes(MOST_BYTES as u64),
        code: "truncated",
        what: "Total size of the answers of all child runs of one call. Longer answers are truncated, with a notice.",
    },
];
