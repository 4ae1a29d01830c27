//! Frames out of bytes, however they were cut.

use drawloom_contract::failure::{Explain, FailureKind};

use crate::events::Event;

/// The most bytes of one frame.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

/// A frame that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {MAX_FRAME} bytes")]
pub struct TooLong;

impl Explain for TooLong {
    fn kind(&self) -> FailureKind {
        FailureKind::TooLarge
    }

    fn code(&self) -> &'static str {
        "event_too_large"
    }
}

/// One frame of a stream of server-sent events, whatever it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

/// Reads a byte stream into events. Lines may end with LF, CR LF or CR; comments are left out; several `data` lines are
/// one text.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    after_return: bool,
    name: Option<String>,
    id: Option<String>,
    data: Option<String>,
    retry: Option<u64>,
    size: usize,
}

impl Parser {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in `bytes` and adds the events that they complete to `events`.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut frames = Vec::new();
        let fed = self.feed_frames(bytes, &mut frames);
        events.extend(frames.into_iter().map(|Frame { name, id, data }| Event {
            name: name.unwrap_or_else(|| "message".into()).into(),
            id: id.and_then(|id| id.parse().ok()),
            data,
        }));
        fed
    }

    /// The same, for streams whose events are not ours.
    pub(crate) fn feed_frames(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        for byte in bytes {
            match (byte, std::mem::replace(&mut self.after_return, *byte == b'\r')) {
                (b'\n', true) => {}
                (b'\n' | b'\r', _) => {
                    self.end_line(frames);
                }
                (byte, _) => {
                    self.line.push(*byte);
                    self.size += 1;
                    if self.size > MAX_FRAME {
                        return Err(TooLong);
                    }
                }
            }
        }
        Ok(())
    }

    /// How long the other side wants to be left alone when the stream has ended, in milliseconds, when it said so.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.retry
    }

    fn end_line(&mut self, frames: &mut Vec<Frame>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.end_frame(frames);
        } else {
            let text = String::from_utf8_lossy(&line);
            let (field, value) = text.split_once(':').unwrap_or((&text, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => self.name = Some(value.into()),
                "id" => self.id = Some(value.into()),
                "data" => match &mut self.data {
                    None => self.data = Some(value.into()),
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                },
                "retry" => self.retry = value.parse().ok().or(self.retry),
                // A comment, or a field that we do not send.
                _ => {}
            }
        }
        // The buffer's room is used again.
        self.line = line;
        self.line.clear();
    }

    fn end_frame(&mut self, frames: &mut Vec<Frame>) {
        self.size = 0;
        let (name, id, data) = (self.name.take(), self.id.take(), self.data.take());
        if let Some(data) = data {
            frames.push(Frame { name, id, data });
        }
    }
}
