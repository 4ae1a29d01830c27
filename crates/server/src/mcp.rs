//! MCP: tools from the list of operations, over streamable HTTP, for both eras of the protocol.
//!
//! `rmcp` speaks the protocol; here is what is ours: who calls, which tools they see, how a handle is awaited in the best
//! form that the caller can take, and sessions that outlive a restart. A [`Table`] says what there is; the shipped binary
//! has one, made from the list of operations, and a test process can add another.

mod calls;
mod cancel;
mod clients;
mod configured;
mod endpoint;
mod handler;
mod limits;
mod listeners;
mod manager;
mod messages;
mod notes;
mod offered;
mod open;
mod pending;
mod prompts;
mod resources;
mod schema;
mod sessions;
mod standing;
mod table;
mod wait;

pub use configured::Configured;
pub use limits::LIMITS;
pub use rmcp;
pub use table::{Ask, Change, Outcome, Pending, Progress, Table, Terms, View};

pub(crate) use endpoint::Endpoint;
pub(crate) use offered::Offered;

/// The key under which a caller (our own proxy) names a call: it becomes the `idempotency_key` of an operation that takes
/// one, and an explicit cancel can name the call by it in either era.
pub(crate) const CALL_KEY: &str = "io.drawloom/idempotencyKey";

/// The key under which a caller says how long it waits for an answer, in milliseconds.
pub(crate) const PATIENCE: &str = "io.drawloom/patienceMs";

/// The key under which a caller (our own proxy) says after how many milliseconds it wants a handle when there is no answer yet.
pub(crate) const ANSWER_WITHIN: &str = "io.drawloom/answerWithinMs";
