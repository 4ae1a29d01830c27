//! Child processes: the only home of spawning.
//!
//! A command never runs as a direct child of drawloom. Between the two stands a launcher: the same program, started again for
//! the first command and forked for each. It confines the command, watches what it uses, and ends everything that it started
//! when the command ends, when it is told to, or when drawloom is gone. So nothing outlives its command, not even a daemon, and
//! not even when drawloom is killed. It also keeps this crate free of `unsafe`, which work between fork and exec would need: the
//! launcher forks while it has one thread, and then may do anything.
//!
//! Linux only: it rests on namespaces, Landlock, seccomp, child subreapers, process file descriptors and `/proc`.

mod capture;
mod command;
mod confinement;
mod descriptors;
mod detached;
mod developer;
mod landlock;
pub mod launcher;
mod listed;
mod lock;
mod place;
mod remove;
mod report;
mod run;
mod seccomp;
mod service;
mod spawner;
mod streams;
mod sweep;
mod usage;

pub use capture::{Capture, Captured, cut};
pub use command::{Access, Command, Confined, Error, Guard, Guarded, LONGEST_ORDER, Launcher, Limits, Network};
pub use confinement::{Confinement, Layer, Status};
pub use detached::{Detached, FirstWord, leave, own_session};
pub use developer::{developer_paths, program_paths};
pub use landlock::Landlock;
pub use listed::ListedPath;
pub use lock::{Remains, until_gone};
pub use place::{guarded_in, path_of};
pub use run::{End, Finished};
pub use service::{Gone, Service, Serving, Watch};
pub use streams::{Follower, Input, LONGEST_LINE, Line, Output};
pub use sweep::{Swept, sweep};
pub use usage::{Exceeded, Resource, usual_memory, usual_processes};
