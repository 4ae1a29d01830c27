//! The limits of connections and requests, with their defaults: what [`crate::Limits`] has, for people.

use drawloom_contract::limits::{Amount, Limit};

use crate::serve::CONNECTION_BUFFER;

/// The code of a limit beyond which a connection is closed without an answer.
const CLOSED: &str = "closed";

const fn limit(name: &'static str, default: Amount, code: &'static str, what: &'static str) -> Limit {
    Limit { name, key: None, default, code, what }
}

/// Every limit of the surfaces.
pub const LIMITS: &[Limit] = &[
    limit(
        "connections",
        Amount::Count(4_096),
        "too_many_connections",
        "Connections at once. A further one takes the place of one that is idle or not read from, or gets 503.",
    ),
    limit(
        "reserved_connections",
        Amount::Count(512),
        CLOSED,
        "Connections that only callers with a token get. Beyond the others, the oldest idle one without a token is closed.",
    ),
    limit(
        "connections_per_caller",
        Amount::Count(3_072),
        "too_many_connections",
        "Connections of one caller with a token. A further one takes the place of an idle one of the same caller, or gets 503.",
    ),
    limit(
        "write_time",
        Amount::Millis(30_000),
        CLOSED,
        "Time in which a peer takes neither 16 KiB nor all that waits for it. Then it is dropped.",
    ),
    limit("head_time", Amount::Millis(60_000), CLOSED, "Time until a request's head has come, also between requests."),
    limit("head_bytes", Amount::Bytes(CONNECTION_BUFFER as u64), "431", "Bytes of a request's head."),
    limit("body_time", Amount::Millis(30_000), "body_too_slow", "Time until a request's body has come."),
    limit("body_bytes", Amount::Bytes(16 << 20), "too_large", "Bytes of a request's body; some operations take less."),
    limit(
        "bodies_bytes",
        Amount::Bytes(256 << 20),
        "too_many_bodies",
        "Bytes of all bodies over 64 KiB at once. The oldest one that has not come whole makes room, or the new one gets 503.",
    ),
    limit(
        "answers_bytes",
        Amount::Bytes(256 << 20),
        CLOSED,
        "Bytes of all answers over 32 KiB that wait for their readers. Those that are not read are dropped, else the new one.",
    ),
    limit(
        "answers_bytes_per_caller",
        Amount::Bytes(128 << 20),
        CLOSED,
        "The same for one caller with a token, or one address without one.",
    ),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Limits;

    #[test]
    fn the_list_has_the_defaults() {
        let limits = Limits::default();
        let count = |number: usize| Amount::Count(number as u64);
        let bytes = |number: usize| Amount::Bytes(number as u64);
        let millis = |time: Duration| Amount::Millis(time.as_millis() as u64);
        let defaults = [
            count(limits.connections),
            count(limits.reserved),
            count(limits.connections_per_caller),
            millis(limits.write_timeout),
            millis(limits.head_timeout),
            bytes(CONNECTION_BUFFER),
            millis(limits.body_timeout),
            bytes(limits.body),
            bytes(limits.bodies),
            bytes(limits.answers),
            bytes(limits.answers_per_caller),
        ];
        assert_eq!(LIMITS.iter().map(|limit| limit.default).collect::<Vec<_>>(), defaults);
    }
}
