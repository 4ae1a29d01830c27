//! Lines out of the host's bytes. A line that is too long is not kept: only its id is looked for while it passes.

use bytes::{Buf as _, Bytes, BytesMut};
use drawloom_net::rpc::Seeker;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{LONGEST_LINE, frame::Id};

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
                return Ok(Line::TooLong(seeker.id().and_then(Id::read)));
            }
        }
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
