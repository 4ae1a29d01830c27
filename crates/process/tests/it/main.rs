//! Commands as they really run: real processes, on this machine.

mod runs;
mod support;
mod walls;
