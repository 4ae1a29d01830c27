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
        "Concurrent connections. A further one replaces an idle or stalled one, or gets 503.",
    ),
    Limit::new(
        "reserved_connections",
        Count(DEFAULT.reserved as u64),
        CLOSED,
        "Connections reserved for callers with a token. When the others are used up, the oldest idle one without a \
         token is closed.",
    ),
    Limit::new(
        "connections_per_caller",
        Count(DEFAULT.connections_per_caller as u64),
        "too_many_connections",
        "Connections per caller with a token. A further one replaces an idle one of the same caller, or gets 503.",
    ),
    Limit::new(
        "write_time",
        Amount::time(DEFAULT.write_timeout),
        CLOSED,
        "Time in which a client must read 16 KiB, or all pending data. A slower client is dropped.",
    ),
    Limit::new(
        "head_time",
        Amount::time(DEFAULT.head_timeout),
        CLOSED,
        "Time to receive a request's headers, including idle time between requests.",
    ),
    Limit::new("head_bytes", Bytes(CONNECTION_BUFFER as u64), "431", "Size of a request's headers."),
    Limit::new("body_time", Amount::time(DEFAULT.body_timeout), "body_too_slow", "Time to receive a request's body."),
    Limit::new(
        "body_bytes",
        Bytes(DEFAULT.body as u64),
        "too_large",
        "Size of a request's body; some operations have a lower limit.",
    ),
    Limit::new(
        "bodies_bytes",
        Bytes(DEFAULT.bodies as u64),
        "too_many_bodies",
        "Total size of request bodies over 64 KiB being received. The oldest incomplete one is dropped, or the new \
         one gets 503.",
    ),
    Limit::new(
        "answers_bytes",
        Bytes(DEFAULT.answers as u64),
        "too_many_answers",
        "Total size of buffered responses and events over 32 KiB. Stalled ones are dropped. If none is stalled, a \
         new response gets 503, and a follower is dropped and continues with Last-Event-ID.",
    ),
    Limit::new(
        "answers_bytes_per_caller",
        Bytes(DEFAULT.answers_per_caller as u64),
        "too_many_answers",
        "The same per caller with a token, or per address without one.",
    ),
    Limit::new("batch_body_bytes", Bytes(MAX_BATCH_BODY as u64), "too_large", "Size of the body of spawn_runs."),
    Limit::new("body_depth", Count(MAX_DEPTH as u64), "too_deep", "Nesting depth of a request's JSON."),
    Limit::new(
        "body_problems",
        Count(MAX_PROBLEMS as u64),
        "invalid_request",
        "Problems listed in the response to an invalid request. The rest is counted.",
    ),
    Limit::new("wait_time", Millis(MAX_WAIT_MS), "out_of_range", "Longest `wait_ms` of a request."),
    Limit::new("result_bytes", Bytes(MAX_RESULT_BYTES), "out_of_range", "Largest `result_bytes` of a request."),
    Limit::new(
        "parent_context_bytes",
        Bytes(LONGEST_CONTEXT as u64),
        "too_long",
        "Size of a run's `parent_context` as JSON.",
    ),
    Limit::new("artifact_read_bytes", Bytes(MAX_READ), "out_of_range", "Largest `max_bytes` of read_artifact."),
    Limit::new(
        "artifact_pattern_bytes",
        Bytes(excerpt::PATTERN_SIZE as u64),
        "bad_pattern",
        "Size of a compiled pattern of read_artifact.",
    ),
    Limit::new(
        "artifact_line_bytes",
        Bytes(excerpt::LINE as u64),
        "truncated",
        "Length of one line that read_artifact searches. The response says if the search was incomplete.",
    ),
    Limit::new(
        "artifact_search_time",
        Amount::time(read_artifact::PATIENCE),
        "truncated",
        "Duration of one search of read_artifact. The response says if the search was incomplete.",
    ),
    Limit::new(
        "artifact_searches",
        Count(read_artifact::AT_ONCE as u64),
        "too_many_searches",
        "Concurrent searches of read_artifact per tenant. Further ones wait up to 10 s and are then rejected.",
    ),
];
