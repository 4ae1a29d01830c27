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
        "Time until a provider begins to answer. After it the turn is retried.",
    )
    .key("providers.*.options.header_timeout_ms"),
    Limit::new(
        "model_idle_time",
        Amount::time(IDLE_TIMEOUT),
        STREAM_CUT,
        "Time without a byte of an answer that has begun. After it the turn is retried.",
    )
    .key("providers.*.options.idle_timeout_ms"),
    Limit::new(
        "model_answer_bytes",
        Bytes(MOST_ANSWER as u64),
        STREAM_CUT,
        "Bytes of one answer as the provider sends it. A longer one counts as a broken stream.",
    ),
    Limit::new(
        "model_event_bytes",
        Bytes(STREAM.event as u64),
        STREAM_CUT,
        "Bytes of the data of one event of an answer. A longer one counts as a broken stream.",
    ),
    Limit::new(
        "model_line_bytes",
        Bytes(STREAM.line as u64),
        STREAM_CUT,
        "Bytes of one line of an event. A longer one counts as a broken stream.",
    ),
    Limit::new(
        "model_list_bytes",
        Bytes(MOST_LIST as u64),
        "model_unavailable",
        "Bytes of a provider's list of models. A longer one is refused.",
    ),
    Limit::new(
        "model_retry_after",
        Amount::time(MOST_WAIT),
        "throttled",
        "Time that a provider may ask to wait. A longer one counts as this.",
    ),
];
