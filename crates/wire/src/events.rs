//! Server-sent events: what happens to a run, as frames, and frames as what happened.

mod list;
mod mapper;
mod parser;
mod rebuild;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use drawloom_contract::record::Seq;
use serde_json::Value;

pub use list::{EVENTS, EventCard, Field};
pub use mapper::{Mapper, placed, tree_done, with_prompt};
pub(crate) use parser::LIMITS;
pub use parser::{MAX_EVENT, Parser};
pub use rebuild::Rebuilder;

/// The name of the last event of a stream of a tree.
pub const TREE_DONE: &str = "tree_done";

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name, such as `text` or `done`.
    pub name: Cow<'static, str>,
    /// The sequence of the record that it shows; deltas and `session` have none.
    pub id: Option<Seq>,
    /// JSON, on one line.
    pub data: String,
}

impl Event {
    /// Writes the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(self.name.as_bytes());
        if let Some(id) = self.id {
            out.extend_from_slice(b"\nid: ");
            out.extend_from_slice(id.to_string().as_bytes());
        }
        for line in self.data.split('\n') {
            out.extend_from_slice(b"\ndata: ");
            out.extend_from_slice(line.as_bytes());
        }
        out.extend_from_slice(b"\n\n");
    }

    /// Whether it is the last one.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.name, "done" | "error")
    }

    /// Its data as JSON; null, when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

/// What keeps a silent connection open.
pub const KEEP_ALIVE: &[u8] = b": keepalive\n\n";
