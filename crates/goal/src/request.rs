//! What a goal is asked: the input of its run. Surfaces complete it before the run is accepted, so it has no `auto` any more.

use std::path::PathBuf;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A goal, as its run was accepted with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalInput {
    pub goal: String,
    /// How the reviewer knows that it is met. Proposed in the intake when empty.
    #[serde(default)]
    pub success_criteria: String,
    #[serde(default)]
    pub interaction: Interaction,
    /// Whether the first plan must be approved before any worker starts.
    #[serde(default)]
    pub confirm_plan: bool,
    /// Who does what.
    pub roles: Roles,
    #[serde(default)]
    pub workspace: Option<WorkspaceInput>,
    #[serde(default)]
    pub verify: VerifyInput,
    #[serde(default)]
    pub budget: Budget,
    /// Workers may use their tools without asking. Only in an isolated checkout.
    #[serde(default)]
    pub skip_permissions: bool,
    /// Limit of one call of a coding CLI or model, in seconds; 0 for none.
    #[serde(default)]
    pub call_seconds: Option<u64>,
    /// Workers are told to write browser tests, and `npx playwright test` is among the verify commands.
    #[serde(default)]
    pub playwright: bool,
    /// Backends that a plan may choose for a subgoal; any when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan_backends: Vec<String>,
    /// In which review the mock reviewer accepts.
    #[serde(default = "second")]
    pub mock_accepts_at: u32,
    /// Questions that the mock clarifier asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock_questions: Vec<String>,
    /// The goal that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continues>,
}

/// A goal that has ended, and what its successor must know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continues {
    pub run: RunId,
    /// What its planner and workers would have been told next, and what the user says.
    #[serde(default)]
    pub feedback: String,
    /// What was asked and answered in its intake.
    #[serde(default)]
    pub clarifications: String,
}

fn second() -> u32 {
    2
}

/// Whom the goal asks before it plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interaction {
    /// No one: it goes on with its best judgement.
    #[default]
    Auto,
    /// It asks what it needs to know, and waits for the answers.
    Suspend,
    /// As `suspend`, and proposed criteria are shown before they are used.
    Confirm,
}

/// A backend of roles: a coding CLI, `model`, `mock`, or an agent as `agent:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Its name. Empty in a subgoal that changes only the model.
    pub name: String,
    /// The model that it uses; its usual one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Backend {
    /// What `NAME`, `NAME:MODEL` or `agent:NAME` means.
    pub fn named(text: &str) -> Self {
        match text.split_once(':').filter(|(name, _)| *name != "agent") {
            Some((name, model)) => Self { name: name.to_owned(), model: Some(model.to_owned()) },
            None => Self { name: text.to_owned(), model: None },
        }
    }
}

/// The backend of each role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roles {
    pub planner: Backend,
    pub worker: Backend,
    pub reviewer: Backend,
}

impl Roles {
    /// The same backend for all.
    pub fn all(backend: Backend) -> Self {
        Self { planner: backend.clone(), worker: backend.clone(), reviewer: backend }
    }
}

/// The repository that a goal changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceInput {
    /// A directory in it; workers start in the same one of their checkout.
    pub directory: PathBuf,
    /// Where work begins: a branch, tag or commit; `HEAD` when absent.
    #[serde(default)]
    pub base: Option<String>,
    /// Whether changes that are not committed are part of the base.
    #[serde(default)]
    pub uncommitted: bool,
    /// Ignored files that every checkout gets, as globs.
    #[serde(default)]
    pub include: Vec<String>,
    #[serde(default)]
    pub cleanup: Cleanup,
    /// A shell command that prepares each checkout of workers and of verify commands. Replaces `goals.setup` of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Whether workers get checkouts of their own. Without, one worker at a time changes the user's checkout itself.
    #[serde(default = "yes")]
    pub isolate: bool,
    /// The name of an earlier goal whose base and branch this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
}

fn yes() -> bool {
    true
}

/// What becomes of the checkouts of a goal that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// Removed when nothing in them is missing on the goal's branch.
    #[default]
    Auto,
    /// Removed; what was not merged stays as a ref.
    Always,
    /// Kept.
    Never,
}

/// How the work is verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyInput {
    pub commands: Vec<VerifyCommand>,
    /// Files that workers may not change, as globs: they are taken from the base when the work is verified.
    pub protect: Vec<String>,
    /// Whether the commands must fail on the base.
    pub witness: bool,
}

/// A command that must succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyCommand {
    pub name: String,
    pub run: CommandLine,
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// How a command is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CommandLine {
    /// For `/bin/sh`.
    Shell(String),
    /// A program and its arguments.
    Program(Vec<String>),
}

/// What a goal may use. A budget that is used up stops it; that is not the same as done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    pub max_iterations: u32,
    /// Further tries of a subgoal, plan or review that failed.
    pub max_task_retries: u32,
    pub max_seconds: Option<u64>,
    /// Calls of all roles, intake included.
    pub max_agent_calls: Option<u32>,
    pub max_tokens: Option<u64>,
    /// In billionths of the currency.
    pub max_cost: Option<u64>,
    /// Iterations in a row that change neither the work nor what verification says; 0 for no limit.
    pub max_stagnant_iterations: u32,
    /// Workers at the same time.
    pub max_parallel: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_iterations: 4,
            max_task_retries: 1,
            max_seconds: None,
            max_agent_calls: None,
            max_tokens: None,
            max_cost: None,
            max_stagnant_iterations: 2,
            max_parallel: 8,
        }
    }
}

impl GoalInput {
    /// A goal for one backend, with everything else as usual.
    pub fn new(goal: impl Into<String>, backend: &str) -> Self {
        Self {
            goal: goal.into(),
            success_criteria: String::new(),
            interaction: Interaction::default(),
            confirm_plan: false,
            roles: Roles::all(Backend { name: backend.into(), model: None }),
            workspace: None,
            verify: VerifyInput::default(),
            budget: Budget::default(),
            skip_permissions: false,
            call_seconds: None,
            playwright: false,
            plan_backends: Vec::new(),
            mock_accepts_at: second(),
            mock_questions: Vec::new(),
            continues: None,
        }
    }

    /// Whether workers share one directory, the user's own.
    pub(crate) fn is_in_place(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| !workspace.isolate)
    }
}
