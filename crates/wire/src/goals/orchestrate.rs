//! `orchestrate`: drives a goal to done.

use std::path::PathBuf;

use drawloom_contract::{failure::RunError, ids::RunId, money::Amount, usage::Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Drives a goal to done: plans it, has workers do it, verifies and reviews their work, and repeats until the goal is met or a limit
/// stops it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Orchestrate {
    /// What is to be achieved.
    #[schemars(length(min = 1, max = 262_144))]
    pub goal: String,
    /// How the reviewer knows that it is met. Proposed by a model if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65_536), extend("x-aliases" = ["criteria"]))]
    pub success_criteria: String,
    /// What executes all roles: `claude_code`, `codex`, `opencode`, `aider`, a CLI of the config, `model` or `model:NAME` (a model of the
    /// config with Drawloom's own tools), `agent:NAME`, `mock`, or `auto` (default): the coding CLI that calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Who calls, for `auto`: the name of a coding CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_agent: Option<String>,
    /// The model of all roles; defaults to the backend's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Backends of single roles: `planner`, `worker`, `reviewer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<RoleBackends>,
    /// A directory of a git repository that workers change, each in a checkout of its own. The directory itself is never changed.
    /// Without it, roles only answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Whether workers get checkouts of their own (default). Without, one worker at a time changes the checkout of `cwd` itself, which must
    /// be clean; excludes `skip_permissions`, `base` and `include_uncommitted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolate: Option<bool>,
    /// The branch, tag or commit that work begins at. Defaults to `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Begin with changes of `cwd` that are not committed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_uncommitted: bool,
    /// Ignored files of `cwd` that every checkout gets, as globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// A command for `/bin/sh` that prepares each checkout of workers and of verify commands, such as `npm ci`. Replaces `goals.setup` of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// What becomes of checkouts at the end: `auto` (default) removes them when all their work is on the goal's branch, `always`, or
    /// `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<GoalCleanup>,
    /// Workers use their tools without asking. Needs isolated checkouts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_permissions: bool,
    /// Commands that must succeed on a clean checkout of the work, for `/bin/sh`. Needs `cwd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-aliases" = ["verify"]))]
    pub verify_commands: Vec<String>,
    /// Timeout of each verify command, in seconds. Defaults to 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub verify_timeout: Option<u64>,
    /// Files that workers must not change, as globs: verification takes them from the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// The verify commands must fail on the base and succeed on the work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub witness: bool,
    /// Ask workers for browser tests, and verify with `npx playwright test`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub playwright: bool,
    /// Maximum iterations. Defaults to 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000))]
    pub max_iterations: Option<u32>,
    /// Maximum seconds in all; what is running then is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_seconds: Option<u64>,
    /// Maximum calls of all roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_agent_calls: Option<u32>,
    /// Maximum tokens of all roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// Maximum cost of all roles, in the currency of `pricing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Amount>,
    /// Further tries of a plan, subgoal or review that failed. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 20))]
    pub max_task_retries: Option<u32>,
    /// Stop after this many iterations in a row that change neither files nor verify results; 0 for no limit. Defaults to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_stagnant_iterations: Option<u32>,
    /// Maximum workers at the same time. Defaults to 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub max_parallel: Option<u32>,
    /// Timeout of one call of a coding CLI or model, in seconds; 0 for no limit. Defaults to 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 86_400))]
    pub timeout: Option<u64>,
    /// Ask what must be known before planning, and wait for the answers: `orchestrate_resume` gives them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ask: bool,
    /// Show proposed criteria before they are used, also when nothing else is asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
    /// Wait for the approval of the first plan, before any worker starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm_plan: bool,
    /// Return at once (default); otherwise the answer is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// In which iteration the mock reviewer accepts. For tests with the backend `mock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock_accepts_at: Option<u32>,
    /// What the mock clarifier asks. For tests with the backend `mock`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock_questions: Vec<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// Backends of single roles, as `NAME` or `NAME:MODEL`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoleBackends {
    /// Plans, proposes criteria and asks questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    /// Does the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Judges the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
}

/// What becomes of the checkouts of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GoalCleanup {
    /// Removed when all their work is on the goal's branch.
    Auto,
    /// Removed; work that was not merged stays as a ref.
    Always,
    /// Kept.
    Never,
}

/// A goal: where it stands, what it asks, or what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalResult {
    /// `running`, `needs_input`, `completed`, `stopped` (by a limit), `failed` or `cancelled`.
    pub status: String,
    /// The goal, which is a run.
    pub run_id: RunId,
    /// The folder with `events.jsonl`, `status.json`, `result.json` and `workers/`.
    pub run_dir: PathBuf,
    /// The file that every event is appended to.
    pub events_path: PathBuf,
    /// A command that shows events as they come.
    pub tail_command: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What the goal asks, with `needs_input`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
    /// The plan that is to be approved, with `needs_input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// For `orchestrate_resume`, with `needs_input`. Valid for one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether the goal is met; only at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Iterations so far.
    #[serde(default)]
    pub iterations: u32,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What the workers of the last iteration report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_output: Option<String>,
    /// One line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The goal as it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The criteria that the reviewer judged by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_criteria: Option<String>,
    /// Every iteration: subgoals, results, review, verification, feedback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Value>,
    /// The goal's branch and what it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<GoalWorktree>,
    /// Calls of all roles.
    #[serde(default)]
    pub agent_calls: u32,
    /// Those of them that were made again because the server ended during them; they may be charged twice.
    #[serde(default)]
    pub repeated_calls: u32,
    /// Seconds that it took, or has taken so far.
    #[serde(default)]
    pub seconds: u64,
    /// The ended goal that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// The newest goal that goes on from this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_by: Option<RunId>,
    /// Tokens of all roles, as far as they are known.
    #[serde(default)]
    pub usage: Usage,
    /// What they cost, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
    /// The error that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The branch of a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalWorktree {
    /// Where checkouts were kept, if they were; the user's own checkout when workers changed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The repository.
    pub repository: PathBuf,
    /// Whether workers changed the checkout at `path` itself (`isolate: false`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
    /// The goal's branch.
    pub branch: String,
    /// The commit that work began at.
    pub base: String,
    /// The newest commit of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Files that differ from the base. Where there are too many to list, `changed_folders` has the others.
    #[serde(default)]
    pub changed_files: Vec<String>,
    /// How many files differ from the base.
    #[serde(default)]
    pub changed_count: u64,
    /// Folders with files that differ and that `changed_files` does not list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_folders: Vec<GoalFolder>,
    /// Changed files that make tools of the user run something. `land` lands them only when they are accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_acceptance: Vec<GoalTrigger>,
    /// How many more there are than `needs_acceptance` lists.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub needs_acceptance_more: u64,
    /// Commits since the base, the newest first.
    #[serde(default)]
    pub checkpoints: Vec<String>,
    /// What workers left of a goal that was cancelled, which is not on the branch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<GoalLeft>,
}

impl Request for Orchestrate {
    const NAME: &'static str = "orchestrate";
    const ROUTES: &'static [Route] = &[Route::post("/v1/goals")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = GoalResult;
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Changed files that are counted and not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalFolder {
    /// Their folder; empty for the top of the repository.
    pub path: String,
    /// How many there are.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// How many of them were deleted.
    #[serde(default)]
    pub deleted: u64,
    /// Whether files in folders below it are not among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_flat: bool,
}

/// A changed file that makes a tool of the user run something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalTrigger {
    /// The path in the repository.
    pub path: String,
    /// Which tool runs what.
    pub why: String,
}

/// What a worker of a cancelled goal left, kept as a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoalLeft {
    /// The checkout that it was in.
    pub checkout: String,
    /// The ref in the user's repository that keeps the commit.
    pub reference: String,
    /// The commit.
    pub commit: String,
    /// The files that it changes.
    pub files: Vec<String>,
}
