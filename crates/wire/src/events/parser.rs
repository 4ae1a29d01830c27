//! Events of runs out of bytes.

use drawloom_net::sse::{self, Limits, TooLong};

use crate::events::Event;

/// The most bytes of one event.
pub const MAX_EVENT: usize = 64 * 1024 * 1024;

/// What the streams of our own server are held to.
pub(crate) const LIMITS: Limits = Limits { line: MAX_EVENT, event: MAX_EVENT };

/// Reads a byte stream into events of runs.
#[derive(Debug)]
pub struct Parser(sse::Parser);

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self(sse::Parser::new(LIMITS))
    }

    /// Takes in `bytes` and adds the events that they complete to `events`.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut parsed = Vec::new();
        let fed = self.0.feed(bytes, &mut parsed);
        events.extend(parsed.into_iter().map(|sse::Event { name, id, data }| Event {
            name: if name.is_empty() { "message".into() } else { name.into() },
            id: id.and_then(|id| id.parse().ok()),
            data,
        }));
        fed
    }
}
