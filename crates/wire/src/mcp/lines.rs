//! Lines out of the host's bytes. A line that is too long is not kept: only its id is looked for while it passes.

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{LONGEST_LINE, frame::Id};

/// The longest id that is looked for in a line that is too long, in bytes.
const LONGEST_ID: usize = 1024;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole one.
    Whole(Bytes),
    /// One that is too long, and the id that it has.
    TooLong(Option<Id>),
}

/// Reads lines.
pub(crate) struct Lines<R> {
    input: R,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line; nothing at the end of the input.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                if self.searched + end > LONGEST_LINE {
                    return self.skip().await.map(Some);
                }
                let line = self.buffer.split_to(self.searched + end).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                return Ok(Some(Line::Whole(line)));
            }
            self.searched = self.buffer.len();
            if self.searched > LONGEST_LINE {
                return self.skip().await.map(Some);
            }
            if self.fill().await? == 0 {
                self.searched = 0;
                let rest = self.buffer.split().freeze();
                return Ok((!rest.is_empty()).then_some(Line::Whole(rest)));
            }
        }
    }

    async fn fill(&mut self) -> std::io::Result<usize> {
        self.buffer.reserve(CHUNK);
        self.input.read_buf(&mut self.buffer).await
    }

    /// Passes by the rest of a line that is too long.
    async fn skip(&mut self) -> std::io::Result<Line> {
        let mut seeker = Seeker::default();
        loop {
            let end = self.buffer.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(self.buffer.len());
            seeker.feed(&self.buffer[..length]);
            self.buffer.advance(end.map_or(length, |end| end + 1));
            if end.is_some() || self.fill().await? == 0 {
                self.searched = 0;
                return Ok(Line::TooLong(seeker.found()));
            }
        }
    }
}

/// Looks for the value of `"id"` in the outermost object of JSON that passes by.
#[derive(Default)]
struct Seeker {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// The text or bare word at depth one that is being read, with its quotes.
    word: Vec<u8>,
    after_colon: bool,
    key_is_id: bool,
    found: Option<Vec<u8>>,
}

impl Seeker {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_text {
                self.keep(*byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_text = false;
                        self.end_word();
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_text = true;
                    self.word.clear();
                    self.keep(*byte);
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 2 {
                        self.after_colon = false;
                    }
                }
                b'}' | b']' => {
                    self.end_word();
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => self.after_colon = true,
                b',' if self.depth == 1 => {
                    self.end_word();
                    self.after_colon = false;
                    self.key_is_id = false;
                }
                byte if byte.is_ascii_whitespace() => self.end_word(),
                byte => self.keep(*byte),
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() <= LONGEST_ID {
            self.word.push(byte);
        }
    }

    fn end_word(&mut self) {
        if self.depth == 1 && !self.word.is_empty() {
            match self.after_colon {
                true if self.key_is_id => self.found = Some(self.word.clone()),
                true => {}
                false => self.key_is_id = self.word == br#""id""#,
            }
        }
        self.word.clear();
    }

    fn found(self) -> Option<Id> {
        Id::read(std::str::from_utf8(&self.found?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: Vec<u8>) -> Vec<Line> {
        let mut lines = Lines::new(std::io::Cursor::new(input));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.expect("memory can be read") {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_come_whole_also_the_last_one_without_its_end() {
        let whole = |text: &'static str| Line::Whole(Bytes::from_static(text.as_bytes()));
        assert_eq!(lines(b"a\n\nbc\nd".to_vec()).await, [whole("a"), whole(""), whole("bc"), whole("d")]);
        assert_eq!(lines(Vec::new()).await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_by_and_its_id_is_known() {
        let filler = "x".repeat(LONGEST_LINE);
        let id = |text: &str| Line::TooLong(Id::read(text));
        for (line, found) in [
            (format!(r#"{{"id": 7, "params":{{"id":1,"a":"{filler}"}}}}"#), id("7")),
            (format!(r#"{{"params":{{"id":1,"a":["{filler}\" \"id\":3,"]}},"id" : "se\"ven"}}"#), id(r#""se\"ven""#)),
            (format!(r#"{{"method":"id","x":"id","params":"{filler}","id":-12}}"#), id("-12")),
            (format!(r#"{{"params":{{"id":1}},"a":"{filler}"}}"#), Line::TooLong(None)),
            (format!("{filler}{filler}"), Line::TooLong(None)),
            (format!(r#"{{"id":"{filler}"}}"#), Line::TooLong(None)),
        ] {
            let all = lines(format!("{line}\nnext\n").into_bytes()).await;
            assert_eq!(all, [found, Line::Whole(Bytes::from_static(b"next"))]);
        }
    }
}
