//! What a server can answer.

use std::time::Duration;

use serde_json::Value;

/// What a server answers to one request.
#[derive(Debug, Clone)]
pub enum ServerReply {
    /// A turn, in the server's dialect.
    Reply(Reply),
    /// An error with a status.
    Refusal(Refusal),
    /// Bytes as they are.
    Raw(Raw),
}

/// A turn of the model.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// What it thinks, sent only when the request has it think.
    pub thinking: Option<String>,
    /// A thought that the provider keeps to itself, sent after `thinking`.
    pub sealed: Option<String>,
    /// What it says.
    pub text: String,
    /// The tools that it calls: name and arguments, as text.
    pub calls: Vec<(String, String)>,
    /// Why it stops, in the server's words; `end_turn` or `tool_use`, `stop` or `tool_calls`, when absent.
    pub stop: Option<String>,
    /// Tokens: read anew, written, written to the cache, read from the cache. Reckoned when absent.
    pub usage: Option<[u64; 4]>,
    /// In how many pieces texts are sent.
    pub pieces: usize,
    /// How long between two events.
    pub between: Duration,
    /// How it ends.
    pub ending: Ending,
    /// Headers that it adds.
    pub headers: Vec<(String, String)>,
}

/// How an answer ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    #[default]
    Whole,
    /// After so many events the connection breaks.
    Broken(usize),
    /// After so many events the stream ends, as if all were well.
    Short(usize),
    /// After so many events nothing more comes.
    Silent(usize),
    /// After so many events comes something that no event is.
    Garbage(usize),
    /// After so many events comes an error event of this type.
    Error(usize, String),
}

impl Reply {
    /// A turn that says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), pieces: 1, ..Self::default() }
    }

    /// The same, after thinking.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        self.thinking = Some(text.into());
        self
    }

    /// The same, with a thought that the provider keeps to itself.
    #[must_use]
    pub fn sealed(mut self, seed: impl Into<String>) -> Self {
        self.sealed = Some(seed.into());
        self
    }

    /// The same, calling a tool.
    #[must_use]
    pub fn call(self, name: &str, input: &Value) -> Self {
        self.raw_call(name, &input.to_string())
    }

    /// The same, calling a tool with arguments that may be no JSON.
    #[must_use]
    pub fn raw_call(mut self, name: &str, arguments: &str) -> Self {
        self.calls.push((name.to_owned(), arguments.to_owned()));
        self
    }

    /// The same, stopping for that reason.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// The same, with these tokens: read anew, written, written to the cache, read from it.
    #[must_use]
    pub fn usage(mut self, tokens: [u64; 4]) -> Self {
        self.usage = Some(tokens);
        self
    }

    /// The same, in `count` pieces with `between` from one event to the next.
    #[must_use]
    pub fn pieces(mut self, count: usize, between: Duration) -> Self {
        self.pieces = count.max(1);
        self.between = between;
        self
    }

    /// The same, ending otherwise.
    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// The same, with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How many of `output` tokens were thought.
    pub(super) fn reasoning_tokens(&self, output: u64) -> u64 {
        self.thinking.as_ref().map_or(0, |text| (text.len() as u64).div_ceil(4)).min(output)
    }

    /// `text` in about as many pieces as the reply has, cut between characters.
    pub(super) fn cut<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let size = text.len().div_ceil(self.pieces.max(1)).max(1);
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = (size.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end));
            let (piece, tail) = rest.split_at(end.unwrap_or(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        pieces
    }
}

impl From<Reply> for ServerReply {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// An error with a status.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// Its type or code in the server's words; what fits the status, when absent.
    pub kind: Option<String>,
    /// What is said.
    pub message: String,
    /// How long the caller should stay away.
    pub retry_after: RetryAfter,
    /// Headers that it adds.
    pub headers: Vec<(String, String)>,
}

/// How a server says how long to stay away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// Not at all.
    Absent,
    /// In seconds.
    Seconds(u64),
    /// As a date, so many seconds from now.
    Date(u64),
}

impl Refusal {
    /// A refusal that says `message`.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, kind: None, message: message.into(), retry_after: RetryAfter::Absent, headers: Vec::new() }
    }

    /// The same, of that type or code.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    /// The same, saying how long to stay away.
    #[must_use]
    pub fn retry_after(mut self, retry_after: RetryAfter) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// The same, with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl From<Refusal> for ServerReply {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

/// Bytes as they are.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body, each piece written by itself.
    pub pieces: Vec<Vec<u8>>,
}

impl From<Raw> for ServerReply {
    fn from(raw: Raw) -> Self {
        Self::Raw(raw)
    }
}
