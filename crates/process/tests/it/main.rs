//! Commands as they really run: real processes, on this machine.

mod runs;
mod services;
mod support;
mod walls;
