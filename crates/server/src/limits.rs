//! The limits of connections and requests, with their defaults.

use drawloom_contract::limits::{
    Amount::{self, Bytes, Count, Millis},
    Limit,
};
use drawloom_wire::{
    body::{MAX_BATCH_BODY, MAX_DEPTH},
    runs::{LONGEST_CONTEXT, MAX_READ, MAX_RESULT_BYTES, MAX_WAIT_MS},
    validate::MAX_PROBLEMS,
};

use drawloom_substrate::excerpt;

use crate::{Limits, operations::runs::read_artifact, serve::CONNECTION_BUFFER};

/// The code of a limit beyond which a connection is closed without an answer.
const CLOSED: &str = "closed";

const DEFAULT: Limits = Limits::DEFAULT;

/// Every limit of connections and requests.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "connections",
        Count(DEFAULT.connections as u64),
        "too_many_connections",
        "Connections at once. A further one takes the place of one that is idle or not read from, or gets 503.",
    ),
    Limit::new(
        "reserved_connections",
        Count(DEFAULT.reserved as u64),
        CLOSED,
        "Connections that only callers with a token get. Beyond the others, the oldest idle one without a token is closed.",
    ),
    Limit::new(
        "connections_per_caller",
        Count(DEFAULT.connections_per_caller as u64),
        "too_many_connections",
        "Connections of one caller with a token. A further one takes the place of an idle one of the same caller, or gets 503.",
    ),
    Limit::new(
        "write_time",
        Amount::time(DEFAULT.write_timeout),
        CLOSED,
        "Time in which a peer takes neither 16 KiB nor all that waits for it. Then it is dropped.",
    ),
    Limit::new(
        "head_time",
        Amount::time(DEFAULT.head_timeout),
        CLOSED,
        "Time until a request's head has come, also between requests.",
    ),
    Limit::new("head_bytes", Bytes(CONNECTION_BUFFER as u64), "431", "Bytes of a request's head."),
    Limit::new(
        "body_time",
        Amount::time(DEFAULT.body_timeout),
        "body_too_slow",
        "Time until a request's body has come.",
    ),
    Limit::new(
        "body_bytes",
        Bytes(DEFAULT.body as u64),
        "too_large",
        "Bytes of a request's body; some operations take less.",
    ),
    Limit::new(
        "bodies_bytes",
        Bytes(DEFAULT.bodies as u64),
        "too_many_bodies",
        "Bytes of all bodies over 64 KiB at once. The oldest one that has not come whole makes room, or the new one gets 503.",
    ),
    Limit::new(
        "answers_bytes",
        Bytes(DEFAULT.answers as u64),
        "too_many_answers",
        "Bytes of all answers and events over 32 KiB that wait for their readers. Those that are not read are dropped. If all are read, a new answer gets 503, and a follower is dropped and continues with Last-Event-ID.",
    ),
    Limit::new(
        "answers_bytes_per_caller",
        Bytes(DEFAULT.answers_per_caller as u64),
        "too_many_answers",
        "The same for one caller with a token, or one address without one.",
    ),
    Limit::new("batch_body_bytes", Bytes(MAX_BATCH_BODY as u64), "too_large", "Bytes of the body of spawn_runs."),
    Limit::new("body_depth", Count(MAX_DEPTH as u64), "too_deep", "Nesting of a request's JSON."),
    Limit::new(
        "body_problems",
        Count(MAX_PROBLEMS as u64),
        "invalid_request",
        "Problems of one request that the answer lists. It counts the rest.",
    ),
    Limit::new("wait_time", Millis(MAX_WAIT_MS), "out_of_range", "Time that a request may ask to wait with `wait_ms`."),
    Limit::new(
        "result_bytes",
        Bytes(MAX_RESULT_BYTES),
        "out_of_range",
        "Bytes that a request may ask for with `result_bytes`.",
    ),
    Limit::new(
        "parent_context_bytes",
        Bytes(LONGEST_CONTEXT as u64),
        "too_long",
        "Bytes of `parent_context` of one run, as JSON.",
    ),
    Limit::new(
        "artifact_read_bytes",
        Bytes(MAX_READ),
        "out_of_range",
        "Bytes that one read_artifact may ask for with `max_bytes`.",
    ),
    Limit::new(
        "artifact_pattern_bytes",
        Bytes(excerpt::PATTERN_SIZE as u64),
        "bad_pattern",
        "Bytes of a compiled pattern of read_artifact.",
    ),
    Limit::new(
        "artifact_line_bytes",
        Bytes(excerpt::LINE as u64),
        "truncated",
        "Bytes of one line that read_artifact searches. The answer says that not everything was searched.",
    ),
    Limit::new(
        "artifact_search_time",
        Amount::time(read_artifact::PATIENCE),
        "truncated",
        "Time of one search of read_artifact. The answer says that not everything was searched.",
    ),
    Limit::new(
        "artifact_searches",
        Count(read_artifact::AT_ONCE as u64),
        "too_many_searches",
        "Searches of read_artifact of one tenant at once. Others wait 10 s for their turn and are then refused.",
    ),
];
