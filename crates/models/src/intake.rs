//! Takes an answer in as its bytes come: a stream of events, or the whole as JSON from a server that does not stream.

use drawloom_contract::model::{Deltas, Turn};
use drawloom_net::sse::{Event, Limits, Parser};
use serde_json::Value;

use crate::fault::Fault;

/// Most bytes of one answer.
pub(crate) const MOST_ANSWER: usize = 64 * 1024 * 1024;

/// The limits of a stream.
pub(crate) const STREAM: Limits = Limits { line: 8 * 1024 * 1024, event: 16 * 1024 * 1024 };

/// Whether a turn is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    Open,
    /// The provider has said that it is over.
    Over,
}

/// Understands the events of one API, one turn long.
pub(crate) trait Reader: Send {
    /// Takes one event.
    fn event(&mut self, event: &Event, deltas: &dyn Deltas) -> Result<Progress, Fault>;

    /// Takes the whole answer.
    fn whole(&mut self, answer: &Value, deltas: &dyn Deltas) -> Result<(), Fault>;

    /// The turn, when the answer is over and nothing of it is missing.
    fn finish(self: Box<Self>) -> Result<Turn, Fault>;
}

enum Form {
    Unknown,
    Stream(Parser),
    Whole(Vec<u8>),
}

/// Takes in one answer.
pub(crate) struct Intake {
    reader: Box<dyn Reader>,
    form: Form,
    taken: usize,
    progress: Progress,
}

impl Intake {
    pub(crate) fn new(reader: Box<dyn Reader>) -> Self {
        Self { reader, form: Form::Unknown, taken: 0, progress: Progress::Open }
    }

    /// Takes in some bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], deltas: &dyn Deltas) -> Result<Progress, Fault> {
        self.taken += bytes.len();
        if self.taken > MOST_ANSWER {
            return Err(Fault::cut(format!("the response is longer than {MOST_ANSWER} bytes")));
        }
        let mut bytes = bytes;
        if matches!(self.form, Form::Unknown) {
            bytes = bytes.trim_ascii_start();
            // No event stream begins with a brace, and no JSON answer with anything else.
            match bytes.first() {
                None => return Ok(self.progress),
                Some(b'{') => self.form = Form::Whole(Vec::new()),
                Some(_) => self.form = Form::Stream(Parser::new(STREAM)),
            }
        }
        match &mut self.form {
            Form::Unknown => {}
            Form::Whole(whole) => whole.extend_from_slice(bytes),
            Form::Stream(parser) => {
                let mut events = Vec::new();
                parser.feed(bytes, &mut events).map_err(|error| Fault::cut(error.to_string()))?;
                for event in &events {
                    self.take(event, deltas)?;
                }
            }
        }
        Ok(self.progress)
    }

    fn take(&mut self, event: &Event, deltas: &dyn Deltas) -> Result<(), Fault> {
        if self.progress == Progress::Open {
            self.progress = self.reader.event(event, deltas)?;
        }
        Ok(())
    }

    /// The turn, now that no more bytes come.
    pub(crate) fn finish(mut self, deltas: &dyn Deltas) -> Result<Turn, Fault> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => return Err(Fault::cut("the response is empty")),
            Form::Stream(parser) => {
                if let Some(event) = parser.finish().map_err(|error| Fault::cut(error.to_string()))? {
                    self.take(&event, deltas)?;
                }
            }
            Form::Whole(bytes) => {
                let answer: Value =
                    serde_json::from_slice(&bytes).map_err(|error| Fault::cut(format!("invalid JSON: {error}")))?;
                if answer.get("error").is_some_and(|error| !error.is_null()) {
                    return Err(Fault::of_event(&answer));
                }
                self.reader.whole(&answer, deltas)?;
            }
        }
        self.reader.finish()
    }
}

/// The JSON of an event.
pub(crate) fn json(event: &Event) -> Result<Value, Fault> {
    serde_json::from_str(&event.data).map_err(|error| Fault::cut(format!("invalid JSON in a stream event: {error}")))
}

/// The text at `key`; empty when there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The number at `key`, when there is one.
pub(crate) fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}
