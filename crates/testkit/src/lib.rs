//! Fixtures and faults for test processes: a tool whose effects survive the process, a model that leaves a mark for each
//! call, points at which the process is killed, the mistakes that our tests must be able to catch,
//! model servers that are as strict as the real ones, and suites of what each seam promises.

pub mod claude;
mod clock;
mod definitions;
pub mod dialects;
mod faults;
pub mod files;
mod kill;
mod marks;
mod memory;
mod names;
pub mod providers;
mod shifted;
mod steps;
pub mod suites;

pub use clock::TestClock;
pub use definitions::definition;
pub use faults::{EndingStreams, Fault, LostWakeUps, with_fault, with_log_fault, with_value_fault};
pub use kill::{KillJournal, KillLog, KillTool, KillValues, Killer};
pub use marks::{Ledger, MarkedModel};
pub use memory::Memory;
pub use names::Names;
pub use shifted::ShiftedClock;
pub use steps::{LateStore, SPACE, Steps, StoreHandles, step_tools};
