//! Server-sent events, taken in as the bytes come.
//!
//! Lines end with LF, CR or CRLF, and may be cut anywhere, in the middle of a character too.

/// Most bytes of one line.
pub(crate) const MOST_LINE: usize = 8 * 1024 * 1024;

/// Most bytes of one event's data.
pub(crate) const MOST_EVENT: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its `event` field; empty when there is none.
    pub(crate) name: String,
    /// Its `data` fields, joined with line breaks.
    pub(crate) data: String,
}

/// A line or an event that is longer than we take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Puts events together.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was a CR that ended a line: a LF that follows belongs to it.
    after_return: bool,
    /// A line has ended already, so that no byte order mark can come.
    begun: bool,
    event: Event,
    has_data: bool,
}

impl Parser {
    /// Takes in some bytes; returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.extend(rest)?;
                break;
            };
            self.extend(&rest[..end])?;
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            events.extend(self.end_line()?);
        }
        Ok(events)
    }

    /// The stream is over: the event that only lacks its blank line.
    pub(crate) fn finish(mut self) -> Result<Option<Event>, TooLong> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        Ok(self.dispatch())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > MOST_LINE {
            return Err(TooLong);
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
            return Ok(self.dispatch());
        }
        let text = String::from_utf8_lossy(bytes);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if self.event.data.len() + value.len() > MOST_EVENT {
                    return Err(TooLong);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment has no field name; `id` and `retry` mean nothing here.
            _ => {}
        }
        // The room is kept for the next line.
        self.line = line;
        self.line.clear();
        Ok(None)
    }

    /// The event so far; without data it is none.
    fn dispatch(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], cut: impl Fn(usize) -> bool) -> Vec<(String, String)> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        let mut from = 0;
        for to in 1..=bytes.len() {
            if cut(to) || to == bytes.len() {
                events.extend(parser.feed(&bytes[from..to]).expect("short enough"));
                from = to;
            }
        }
        events.extend(parser.finish().expect("short enough"));
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let stream = "\u{feff}event: one\r\ndata: a\r\n\r\n: a comment\ndata:b\rdata: c\r\r\nid: 7\nretry: 3\n\n\
                      data\n\ndata: gr\u{fc}n \u{1f9f5}\n\nevent: half\ndata: [DONE]"
            .as_bytes();
        let pair = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        let whole = all(stream, |_| false);
        assert_eq!(
            whole,
            [pair("one", "a"), pair("", "b\nc"), pair("", ""), pair("", "grün 🧵"), pair("half", "[DONE]")]
        );
        for cut in 0..stream.len() {
            assert_eq!(all(stream, |at| at == cut), whole, "cut at {cut}");
        }
        assert_eq!(all(stream, |_| true), whole);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_very_start() {
        assert_eq!(all("data: x\n\n\u{feff}data: y\n\n".as_bytes(), |_| true), [(String::new(), "x".to_owned())]);
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_the_stream() {
        assert_eq!(all(b"data: a\xff\xfeb\n\n", |_| true), [(String::new(), "a\u{fffd}\u{fffd}b".to_owned())]);
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1024 * 1024];
        let refused = (0..64).find(|_| parser.feed(&piece).is_err());
        assert_eq!(refused, Some(8));
        let mut parser = Parser::default();
        let line = [b"data: ".as_slice(), &piece, b"\n"].concat();
        let refused = (0..64).find(|_| parser.feed(&line).is_err());
        assert_eq!(refused, Some(15));
    }
}
