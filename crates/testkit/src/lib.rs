//! Fixtures and faults for test processes: a tool whose effects survive the process, a model that leaves a mark for each
//! call, points at which the process is killed, the mistakes that our tests must be able to catch, and
//! model servers that are as strict as the real ones.

mod clock;
mod faults;
mod kill;
mod marks;
mod memory;
mod names;
pub mod providers;
mod shifted;

pub use clock::TestClock;
pub use faults::{Fault, with_fault};
pub use kill::{KillJournal, KillTool, Killer};
pub use marks::{Ledger, MarkedModel};
pub use memory::Memory;
pub use names::Names;
pub use shifted::ShiftedClock;
