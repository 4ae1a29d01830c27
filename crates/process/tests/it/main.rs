//! Commands as they really run: real processes, on this machine.

mod canaries;
mod descriptors;
mod escapes;
mod gone;
mod guards;
mod jobs;
mod listed;
mod mounts;
mod ordinary;
mod runs;
mod services;
mod support;
mod walls;
