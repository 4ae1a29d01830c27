//! Changes that happen once: each has a key, and a repeat under the same key gets the answer of the first.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::{BatchId, Digest, RunId, RunKey, Tenant, UserId},
    log::LogChanged,
    record::Seq,
    redact::Redacted,
    time::Timestamp,
    values::ChangeError,
};

/// Maximum bytes of an answer that is stored for repeats of its request.
pub const MAX_STORED_ANSWER: usize = 256 * 1024;

/// The key of a change, and what to answer when it is repeated.
#[derive(Debug, Clone, PartialEq)]
pub enum Once {
    /// A caller's request. The key is kept until what it made is pruned.
    Request { key: RequestKey, made: Made },
    /// An effect of a tool's call. The key is kept until the run ends; from then on the effect is refused.
    Call(CallEffect),
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallEffect {
    pub run: RunKey,
    pub call: Seq,
    /// Which effect of the call; a tool numbers them itself, the same way each time.
    pub part: u32,
    pub answer: Redacted<Value>,
}

/// A caller's key: the same key and body is the same request, another body a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    pub tenant: Tenant,
    pub subject: UserId,
    pub operation: &'static str,
    /// Digest of the key, so that no secret in it is stored.
    pub key: Digest,
    /// Digest of the body after aliases, without how to wait.
    pub body: Digest,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    Handle(HandleId),
    Answer { answer: Redacted<Value>, at: Timestamp },
}

/// A durable thing that a caller can wait for, follow or cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandleId {
    Run(RunId),
    Batch(BatchId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    Handle(HandleId),
    Effect(Box<Effected>),
}

/// The stored answer of a change, with what the store alone knew when it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effected {
    pub answer: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogChanged>,
    /// Bytes of an answer that is not stored, because it or all of its caller have too many. The change was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
}

impl Effected {
    /// What is stored under the key of a request, as JSON: a large answer is left out.
    pub fn of_request(&self) -> String {
        let json = |effected: &Self| serde_json::to_string(effected).expect("answers have only text keys");
        let whole = json(self);
        if whole.len() <= MAX_STORED_ANSWER {
            return whole;
        }
        match self.answer.to_string().len() {
            bytes if bytes > MAX_STORED_ANSWER => json(&Self { left_out: Some(bytes), ..Self::default() }),
            _ => whole,
        }
    }

    /// What a repeat is answered: the answer of the first request, or that it cannot be had again.
    pub fn again(self) -> Result<Self, ChangeError> {
        match self.left_out {
            Some(bytes) => Err(ChangeError::AnswerLeftOut { bytes }),
            None => Ok(self),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied<T> {
    pub result: T,
    /// The answer that was given with the key; of a repeat, the one that was given first.
    pub answer: Value,
    pub repeated: bool,
}
