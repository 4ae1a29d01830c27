//! Isolated git checkouts of a goal: prepare, add, checkpoint, merge, verify, land, clean up.
//!
//! A goal has a directory of ours with a private git directory and one private clone per worker. All git commands of ours use
//! that git directory with `--work-tree` and index files of our own: nothing that a worker can write, such as the config, hooks
//! or refs of its clone, is ever read. In the user's repository only new objects, `refs/drawloom/*` and the branch
//! `drawloom/<goal>` appear, until [`Checkouts::land`] fast-forwards a branch. The user's checkout, index, config, hooks and HEAD
//! are never touched, except by the workers of a goal that was prepared `in_place`.
//!
//! Every function can be repeated after it, drawloom or git was killed: the same input gives the same answer. Callers pass the
//! times and keys, so commit ids are the same too. One process at a time may use a root.
//!
//! The program `git` does the work, version 2.38 or newer. It runs through the launcher of `process`, so no git outlives us.

mod add;
mod attributes;
mod checkouts;
mod checkpoint;
mod clean;
mod clone;
mod config;
mod contents;
mod diff;
mod durable;
mod embedded;
mod error;
mod forget;
mod git;
mod in_place;
mod include;
mod land;
mod last;
mod merge;
mod names;
mod oid;
mod open;
mod opened;
mod places;
mod ports;
mod prepare;
mod private;
mod raw;
mod refs;
mod reset;
mod scan;
mod seen;
mod setup;
mod stage;
mod state;
mod triggers;
mod verify;

pub use add::{Added, Kind};
pub use checkouts::{Checkouts, Parts, Sandbox, check_globs};
pub use checkpoint::{Checkpoint, Step};
pub use clean::{Cleaned, Cleanup, Info, KeptCheckout, Retained, Retention, Usage};
pub use config::{Config, Ports};
pub use contents::Contents;
pub use diff::{Change, Diff, Status};
pub use error::Error;
pub use forget::{Forgotten, ResultBranch};
pub use land::{Land, Verdict};
pub use merge::Merge;
pub use oid::Oid;
pub use open::{Opened, open};
pub use prepare::{Prepare, Prepared};
pub use stage::{LeftOut, Reason};
pub use triggers::Trigger;
pub use verify::{CommandResult, Program, Tampered, Verified, Verify, VerifyCommand};
