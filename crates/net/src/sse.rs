//! Server-sent events out of bytes, wherever those are cut.
//!
//! Lines end with LF, CR or CR LF. Comments are left out, several `data` lines are one text, and a byte order mark may
//! come first.

use drawloom_contract::failure::{Explain, FailureKind};

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its `event` field; empty when there is none.
    pub name: String,
    /// Its `id` field, when it has one.
    pub id: Option<String>,
    /// Its `data` fields, joined with line breaks.
    pub data: String,
}

/// Most bytes of one line, and of the data of one event.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub line: usize,
    pub event: usize,
}

/// A line or an event that is longer than the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct TooLong {
    limit: usize,
}

impl Explain for TooLong {
    fn kind(&self) -> FailureKind {
        FailureKind::TooLarge
    }

    fn code(&self) -> &'static str {
        "event_too_large"
    }
}

/// Puts events together.
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    line: Vec<u8>,
    /// The last byte was a CR that ended a line: a LF that follows belongs to it.
    after_return: bool,
    /// A line has ended already, so that no byte order mark can come.
    begun: bool,
    event: Event,
    has_data: bool,
    retry: Option<u64>,
}

impl Parser {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            after_return: false,
            begun: false,
            event: Event::default(),
            has_data: false,
            retry: None,
        }
    }

    /// Takes in some bytes, and adds the events that they complete to `events`. After an error the stream is of no use.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.extend(rest);
            };
            self.extend(&rest[..end])?;
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line()?);
        }
        Ok(())
    }

    /// The event that lacks only its blank line, for streams whose end completes it.
    pub fn finish(mut self) -> Result<Option<Event>, TooLong> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        Ok(self.end_event())
    }

    /// How long the server wants clients to wait before they connect again, in milliseconds, when it said so.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.limits.line {
            return Err(TooLong { limit: self.limits.line });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, TooLong> {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            return Ok(self.end_event());
        }
        let text = String::from_utf8_lossy(bytes);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.into(),
            "id" => self.event.id = Some(value.into()),
            "data" => {
                if self.event.data.len() + value.len() > self.limits.event {
                    return Err(TooLong { limit: self.limits.event });
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "retry" => self.retry = value.parse().ok().or(self.retry),
            // A comment has no field name; other fields mean nothing.
            _ => {}
        }
        // The memory is kept for the next line.
        self.line = line;
        self.line.clear();
        Ok(None)
    }

    /// The event so far; one without data does not count.
    fn end_event(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: usize = 1024 * 1024;

    fn parser() -> Parser {
        Parser::new(Limits { line: 8 * MEGABYTE, event: 16 * MEGABYTE })
    }

    fn all(bytes: &[u8], cut: impl Fn(usize) -> bool) -> Vec<Event> {
        let mut parser = parser();
        let mut events = Vec::new();
        let mut from = 0;
        for to in 1..=bytes.len() {
            if cut(to) || to == bytes.len() {
                parser.feed(&bytes[from..to], &mut events).expect("short enough");
                from = to;
            }
        }
        events.extend(parser.finish().expect("short enough"));
        events
    }

    fn event(name: &str, id: Option<&str>, data: &str) -> Event {
        Event { name: name.into(), id: id.map(str::to_owned), data: data.into() }
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let stream =
            "\u{feff}event: one\r\nid: 4\r\ndata: a\r\n\r\n: a comment\ndata:b\rdata: c\r\r\nid: 7\nretry: 3\n\n\
                      data\n\ndata: gr\u{fc}n \u{1f9f5}\n\nevent: half\ndata: [DONE]"
                .as_bytes();
        let whole = all(stream, |_| false);
        assert_eq!(
            whole,
            [
                event("one", Some("4"), "a"),
                event("", None, "b\nc"),
                event("", None, ""),
                event("", None, "grün 🧵"),
                event("half", None, "[DONE]")
            ]
        );
        for cut in 0..stream.len() {
            assert_eq!(all(stream, |at| at == cut), whole, "cut at {cut}");
        }
        assert_eq!(all(stream, |_| true), whole);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_very_start() {
        assert_eq!(all("data: x\n\n\u{feff}data: y\n\n".as_bytes(), |_| true), [event("", None, "x")]);
    }

    #[test]
    fn invalid_utf8_does_not_stop_the_stream() {
        assert_eq!(all(b"data: a\xff\xfeb\n\n", |_| true), [event("", None, "a\u{fffd}\u{fffd}b")]);
    }

    #[test]
    fn the_last_valid_retry_counts() {
        let mut parser = parser();
        assert_eq!(parser.retry(), None);
        parser.feed(b"retry: 3\n\nretry: soon\n\n", &mut Vec::new()).expect("short enough");
        assert_eq!(parser.retry(), Some(3));
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let piece = vec![b'x'; MEGABYTE];
        let refused_at = |bytes: &[u8]| {
            let (mut parser, mut events) = (parser(), Vec::new());
            (0..64).find(|_| parser.feed(bytes, &mut events).is_err())
        };
        assert_eq!(refused_at(&piece), Some(8));
        assert_eq!(refused_at(&[b"data: ".as_slice(), &piece, b"\n"].concat()), Some(15));
    }
}
