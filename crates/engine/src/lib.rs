//! Every decision about runs: accept, admission, the model executor, waits, resume, budgets, batches.

mod config;

pub use config::Config;
