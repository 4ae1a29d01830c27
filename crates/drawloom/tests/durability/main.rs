//! Real server processes, killed for real: what was handed over is neither lost nor doubled nor left unreported.
//!
//! A binary of its own, because it runs for longer than the other tests and drives the example `fixture`, which holds
//! the faults and fixtures that the shipped binary must not.

mod artifacts;
mod channels;
mod clock;
mod consumed;
mod definitions;
mod dialects;
mod doubt;
mod evaluations;
mod fallback;
mod fanout;
mod goal;
mod golden;
mod http;
mod joining;
mod kill;
mod memory;
mod poison;
mod process;
mod prove;
mod proxy;
mod staged;
mod storm;
mod streaming;
mod sync_probe;
mod team;
