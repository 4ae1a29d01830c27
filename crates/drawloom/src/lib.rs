//! Drawloom, whole: config, wiring, shutdown and the commands. The shipped binary is one call of this; a test process
//! starts an instance of its own with [`start()`] and parts that it wrapped or replaced.

mod anchor;
mod backend;
mod channels;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
mod connect;
pub mod data_dir;
mod definitions;
mod dotenv;
mod embedded;
mod environment;
pub mod errors;
pub mod exit;
mod frontmatter;
mod goals;
mod hints;
mod idle;
pub mod import;
mod interrupts;
mod leftovers;
pub mod limits;
mod live;
mod local;
pub mod logging;
mod memory;
pub mod metrics;
mod models;
mod operations;
pub mod output;
pub mod parts;
mod project;
mod providers;
mod resolve;
mod retention;
mod server_config;
mod signals;
mod skills;
mod start;
mod told;
mod trust;

pub use parts::{Parts, StoreSeams, Surface};
pub use resolve::{Extra, LAUNCHER, LEAVE, Resolved, resolve};
pub use start::{Running, start, stop_signal};
