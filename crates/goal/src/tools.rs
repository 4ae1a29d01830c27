//! The loop's own tools, offered to no model: asking a role, asking people, and the repository.

mod ask;
mod questions;
mod repository;

use std::sync::Arc;

use drawloom_contract::{time::Timestamp, tool::Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{executor::GoalParts, request::Backend, roles::Role, workspace::CheckedOut};

pub use ask::{BackendKind, Backends};

pub(crate) const ASK: &str = "goal_ask";
pub(crate) const QUESTIONS: &str = "goal_questions";
pub(crate) const PREPARE: &str = "goal_prepare";
pub(crate) const CHECKOUT: &str = "goal_checkout";
pub(crate) const CHECKPOINT: &str = "goal_checkpoint";
pub(crate) const MERGE: &str = "goal_merge";
pub(crate) const VERIFY: &str = "goal_verify";
pub(crate) const DIFF: &str = "goal_diff";
pub(crate) const CLEAN: &str = "goal_clean";

/// What a role may do in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RoleMode {
    ReadOnly,
    Edit,
    SkipPermissions,
}

/// A question to a role: the input of [`ASK`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AskInput {
    pub(crate) key: String,
    pub(crate) role: Role,
    pub(crate) backend: Backend,
    pub(crate) system: String,
    pub(crate) prompt: String,
    pub(crate) mode: RoleMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<CheckedOut>,
    /// The name of the files that its output goes to.
    pub(crate) label: String,
    pub(crate) iteration: u32,
    /// What is left of the goal's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<Timestamp>,
    /// The run whose session is continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) continues: Option<String>,
    #[serde(default)]
    pub(crate) mock_accepts_at: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) mock_questions: Vec<String>,
}

impl AskInput {
    /// The subgoal of a worker; another role's own name.
    fn worker(&self) -> &str {
        let subgoal = self.key.split('/').nth(2).filter(|_| self.role == Role::Subagent);
        subgoal.unwrap_or(self.role.as_str())
    }
}

/// The worker of a run that a goal started, from the run's `parent_context`.
pub fn worker_of(context: &Value) -> Option<&str> {
    context["worker"].as_str()
}

pub(crate) fn all(parts: &GoalParts) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> =
        vec![Arc::new(ask::Ask::new(parts)), Arc::new(questions::AskPeople(parts.questions.clone()))];
    tools.extend(repository::tools(&parts.workspace));
    tools
}
