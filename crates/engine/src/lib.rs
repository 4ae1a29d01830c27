//! Every decision about runs: accept, admission, the model executor, waits, resume, budgets, batches.
//!
//! A run is driven by one task while it has a slot (`run_task`): it folds records, asks the executor what comes next,
//! journals the intent, performs it, journals the outcome. Nothing is visible before its commit. A run that can only wait
//! is parked: its task ends and its memory with it, and whoever satisfies the wait brings it back to `admission`.

mod accept;
mod accounts;
mod activities;
mod admission;
mod budget;
mod call;
mod children;
mod choose;
mod config;
mod control;
mod conversation;
mod deltas;
mod engine;
mod estimate;
mod evidence;
mod executors;
mod fallback;
mod feed;
mod follow;
mod follow_tree;
mod hosts;
mod jumps;
mod limiter;
mod limits;
mod meters;
mod model_executor;
mod permit;
mod pins;
mod plan;
mod price;
mod refused;
mod replay;
mod resume;
mod retry;
mod run_task;
mod runs;
mod slots;
mod stop;
mod story;
mod timers;
mod toolbox;
mod trees;
mod trial;
mod turn;
mod waits;

pub use config::Config;
pub use engine::{Engine, Parts, Provider, StopReport};
pub use limits::LIMITS;
pub use meters::{BUCKETS_MS, Counts, Durations, ModelCalls};
pub use resume::ResumeReport;
