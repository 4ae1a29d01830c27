//! Fixtures and faults for test processes: a tool whose effects survive the process, a model that leaves a mark for each
//! call, points at which the process is killed, and the mistakes that our tests must be able to catch.

mod faults;
mod kill;
mod marks;
mod names;

pub use faults::{Fault, with_fault};
pub use kill::{KillJournal, KillTool, Killer};
pub use marks::{Ledger, MarkedModel};
pub use names::Names;
