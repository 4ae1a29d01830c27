//! The goal loop: decompose, work, verify, review, feed back, until a goal is met or a guard stops it.
//!
//! A goal is a run whose executor is `goal`. Its steps are calls of tools that no model is offered; its roles are child runs; its events
//! are notes in its journal. What comes next is decided in `walk`, which is pure. The repository is behind the seam [`Workspace`].

mod bounds;
mod config;
mod event;
mod executor;
mod json;
mod mock;
mod models;
mod plan;
mod progress;
mod questions;
mod removed;
mod request;
mod result;
mod resume;
mod review;
mod roles;
mod said;
mod state;
mod successor;
mod tools;
mod walk;
pub mod workspace;

pub use config::GoalsConfig;
pub use event::{BUDGET_LIMITED, LoopEvent, PLAN_DECLINED, Projection, STAGNATED, is_error, stop_reason};
pub use executor::{GoalExecutor, GoalParts};
pub use mock::MockExecutor;
pub use models::{Access, Models, Wanted};
pub use plan::{MOST_SUBGOALS, Subgoal};
pub use questions::{Answers, Asked, Questions};
pub use request::{
    Backend, Budget, Cleanup, CommandLine, Continues, GoalInput, Interaction, Roles, VerifyCommand, VerifyInput,
    WorkspaceInput,
};
pub use result::{GoalStatus, Story};
pub use resume::{CannotGoOn, More};
pub use review::MOST_QUESTIONS;
pub use roles::{Prompts, Role};
pub use said::Said;
pub use successor::{Successor, SuccessorRequest};
pub use tools::{BackendKind, Backends, worker_of};
pub use workspace::Workspace;

/// The names of the executors.
pub const GOAL: &str = "goal";
pub const MOCK: &str = "mock";
