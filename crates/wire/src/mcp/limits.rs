//! The limits of `drawloom mcp`, the proxy between a host's pipes and a server, with their defaults.

use drawloom_contract::limits::{
    Amount::{self, Bytes, Count},
    Limit,
};

use super::{FIRST_CONTACT_PATIENCE, LONGEST_ANSWER, LONGEST_LINE, MOST_IN_FLIGHT, MOST_OTHERS, MOST_SENDS, PATIENCE};

/// The server cannot be reached, or does not answer.
const AWAY: &str = "upstream_away";

/// Every limit of the proxy.
pub const LIMITS: &[Limit] = &[
    Limit::new("proxy_line_bytes", Bytes(LONGEST_LINE as u64), "line_too_long", "Bytes of one message of a host."),
    Limit::new(
        "proxy_answer_bytes",
        Bytes(LONGEST_ANSWER as u64),
        "answer_too_large",
        "Bytes of one answer of the server.",
    ),
    Limit::new("proxy_calls", Count(MOST_IN_FLIGHT as u64), "too_many_calls", "Calls of tools in flight at once."),
    Limit::new("proxy_requests", Count(MOST_OTHERS as u64), "too_many_calls", "Other messages in flight at once."),
    Limit::new(
        "proxy_first_time",
        Amount::time(FIRST_CONTACT_PATIENCE),
        AWAY,
        "Time until a host's first request is answered, the start of a server included.",
    ),
    Limit::new(
        "proxy_outage_time",
        Amount::time(PATIENCE),
        AWAY,
        "Time that later requests wait for a server that cannot be reached.",
    ),
    Limit::new(
        "proxy_sends",
        Count(MOST_SENDS as u64),
        AWAY,
        "Times that one request is sent when the server takes it and closes the connection soon after.",
    ),
];
