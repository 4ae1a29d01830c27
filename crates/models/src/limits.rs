//! The limits of answers of models, with their defaults.

use drawloom_contract::limits::{
    Amount::{self, Bytes},
    Limit,
};

use crate::{
    intake::{MOST_ANSWER, STREAM},
    rates::MOST_WAIT,
    remote::{HEADER_TIMEOUT, IDLE_TIMEOUT, MOST_LIST},
};

/// A broken stream: it is retried, which counts against `retries_per_turn`.
const STREAM_CUT: &str = "model_stream_cut";

/// Every limit of answers of models.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "model_header_time",
        Amount::time(HEADER_TIMEOUT),
        "model_unavailable",
        "Time until the provider starts to respond. Then the model call is retried.",
    )
    .key("providers.*.options.header_timeout_ms"),
    Limit::new(
        "model_idle_time",
        Amount::time(IDLE_TIMEOUT),
        STREAM_CUT,
        "Time without data in a response that has started. Then the model call is retried.",
    )
    .key("providers.*.options.idle_timeout_ms"),
    Limit::new(
        "model_answer_bytes",
        Bytes(MOST_ANSWER as u64),
        STREAM_CUT,
        "Size of one provider response. A longer one counts as a broken stream.",
    ),
    Limit::new(
        "model_event_bytes",
        Bytes(STREAM.event as u64),
        STREAM_CUT,
        "Size of one event of a response stream. A longer one counts as a broken stream.",
    ),
    Limit::new(
        "model_line_bytes",
        Bytes(STREAM.line as u64),
        STREAM_CUT,
        "Size of one line of an event. A longer one counts as a broken stream.",
    ),
    Limit::new(
        "model_list_bytes",
        Bytes(MOST_LIST as u64),
        "model_unavailable",
        "Size of a provider's list of models. A longer one is rejected.",
    ),
    Limit::new(
        "model_retry_after",
        Amount::time(MOST_WAIT),
        "throttled",
        "Longest retry-after honored from a provider. A longer one is reduced to this.",
    ),
];
