//! The redactor: what is journaled, streamed, logged or shown has passed it, and `Redacted` is the proof.

mod forms;
mod redactor;
mod texts;

pub use forms::forms;
pub use redactor::{MASK, Redacted, Redactor};
pub use texts::Texts;
