//! Child processes: the only home of spawning.
//!
//! A command never runs as a direct child of drawloom. Between the two stands a launcher: the same program, started
//! again, which becomes the reaper of everything that the command starts, confines it and ends all of it when the command
//! ends, when it is told to, or when drawloom is gone. So nothing outlives its command, not even a daemon, and not even
//! when drawloom is killed. It also keeps this crate free of `unsafe`, which work between fork and exec would need.
//!
//! Linux only: it rests on child subreapers, process file descriptors, `/proc` and Landlock.

mod capture;
mod command;
mod detached;
mod landlock;
pub mod launcher;
mod report;
mod run;
mod service;
mod sweep;

pub use capture::{Capture, Captured, cut};
pub use command::{Access, Command, Error, Launcher, Limits};
pub use detached::{Detached, FirstWord, leave, own_session};
pub use landlock::{Landlock, landlock_status};
pub use run::{End, Finished};
pub use service::{Gone, Service, Serving, Watch};
pub use sweep::{Swept, sweep};
