//! The journal's records: all that ever happened to a run.
//!
//! A record is compatible for ever: fields are added with a default, never renamed or removed, and a change of meaning
//! is a new kind. What decides reads the fold of them; what was decided is never decided again.

mod status;
mod turn;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    choice::ModelPlan,
    definition::{is_model_executor, model_executor},
    failure::RunError,
    ids::{AgentId, AgentName, BatchId, Digest, RunId, SessionId, Tenant, UserId},
    message::{Segment, ToolUse},
    money::Cost,
    redact::Texts,
    time::{Mark, Timestamp},
    usage::Usage,
    wait::Wait,
};

pub use status::{Status, StopReason};
pub use turn::{Notice, Switched, TurnDone, TurnFailed, TurnStarted};

/// A place in a run's journal; the first record has 1 and there are no gaps.
pub type Seq = u64;

/// The number of a start of the process that owned the data: ownership carries it, and every write is checked.
pub type Epoch = u64;

pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub seq: Seq,
    pub at: Timestamp,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    Accepted(Box<Accepted>),
    /// It got its slot: the first time, or again after parking or a restart.
    Admitted {
        deadline: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_set: Option<Mark>,
    },
    /// Intent: a model turn is asked for.
    TurnStarted(TurnStarted),
    TurnDone(TurnDone),
    Usage {
        turn: u32,
        usage: Usage,
        /// What they cost; absent when the model has no price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
        /// Whether the provider did not say: then it is what was reserved from the budget, which is rather too much.
        #[serde(default, skip_serializing_if = "is_default")]
        assumed: bool,
    },
    Switched(Box<Switched>),
    Notice {
        notice: Notice,
        text: String,
    },
    TurnFailed(TurnFailed),
    /// Intent: a tool is called. Its sequence is the name of the call.
    CallStarted(CallStarted),
    CallWaiting {
        call: Seq,
        #[serde(flatten)]
        wait: Wait,
    },
    CallDone(CallDone),
    /// Nothing is left to do but wait: the slot is free and no task holds the run.
    Parked {
        /// What the run itself waits for, apart from its open calls. A wait for a rate limit or a budget has a time too, at
        /// which the run looks again at the latest.
        #[serde(flatten)]
        wait: Wait,
    },
    Resumed(Resumed),
    LimitReached {
        limit: Limit,
        /// Whether even one last turn can be paid.
        last_turn: bool,
    },
    StopRequested(Stop),
    /// State of an executor's own.
    Note {
        version: u32,
        value: Value,
    },
    /// The end, of which there is one.
    Finished(Box<Outcome>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub version: String,
    pub tenant: Tenant,
    pub run: RunId,
    pub session: SessionId,
    pub agent_id: AgentId,
    pub agent: AgentName,
    pub definition: Digest,
    #[serde(default = "model_executor", skip_serializing_if = "is_model_executor")]
    pub executor: String,
    pub user: UserId,
    /// The provider that its calls go to; the executor's name when it asks no model.
    pub provider: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The root of its tree: itself, when no run spawned it.
    pub root: RunId,
    /// How many runs are above it in its tree.
    #[serde(default)]
    pub depth: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchPlace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    pub segments: Vec<Segment>,
    /// What its executor is told beside that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The tools it may use, by name: operator, definition and request, each narrowing.
    pub tools: Vec<String>,
    /// The tools that the root's request left to its whole tree, when it narrowed them; so with hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_tools: Option<Vec<String>>,
    /// Most model turns, retries not counted.
    pub max_iterations: u32,
    /// What the whole tree that it is part of may spend, in tokens and in money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_cost: Option<Cost>,
    /// Narrower budgets that runs above it, and its own request, set for their part of the tree; the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part_budgets: Vec<PartBudget>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub models: ModelPlan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_hosts: Option<Vec<String>>,
    /// The volumes that requests left to it and its children, when one narrowed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_volumes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_set: Option<Mark>,
    /// How long it may take from first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// How long it may wait for its first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
    /// The caller's own lineage, handed down and echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_context: Option<Value>,
    /// The caller's facts about the run, shown to the model as a system block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// What was narrowed, overridden or defaulted, for the caller to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What a run and all below it may spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBudget {
    pub run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// The call that spawned a run: one child per `(run, call, index)` and attempt, however often the call is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub run: RunId,
    pub agent_id: AgentId,
    pub call: Seq,
    pub index: u32,
}

/// The run that this one repeats. A run is repeated at most once, so that all attempts form a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub of: RunId,
    /// 1 for the first repetition.
    pub attempt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    pub batch: BatchId,
    pub index: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStarted {
    pub turn: u32,
    pub index: u32,
    pub tool_use: ToolUse,
    pub repeat: RepeatClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Value>,
    /// The conditions under which it is made, such as how a command is confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// Whether the redactor changed the input; then it is never executed again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
    /// Whether the executor asked for it, with a tool of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_executor: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cost: Option<Cost>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDone {
    pub call: Seq,
    pub text: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_error: bool,
    /// Whether it is unknown if its effect happened.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_doubt: bool,
    /// Money that the call itself cost; what it reserved, when it is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Tokens that the call itself used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
}

/// What resume may do with an effect whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatClass {
    Safe,
    /// Do it again under the key `(run, call)`.
    Keyed,
    /// Ask the evidence whether it happened.
    Check,
    /// Tell the model that it is in doubt.
    Never,
}

/// How children's results become one tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collect {
    One,
    Many,
    /// The whole end of each child, for executors: a JSON array of objects with its id, status, output, error, usage and cost.
    Reports,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    pub epoch: Epoch,
    pub version: String,
    /// Unclean ends in a row at which the same step was in flight.
    #[serde(default)]
    pub strikes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// How a run is tried at whose step the process died several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// How many runs are on trial together.
    pub group: u32,
    /// Trials in a row, this one included, in which it was the only one.
    #[serde(default)]
    pub alone: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Budget,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Stop {
    Cancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ParentEnded {
        parent: RunId,
    },
    Deadline {
        at: Timestamp,
        /// How far the wall clock was set forward since it was set, when that made this too early.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock_set_forward_ms: Option<u64>,
    },
    QueueTimeout {
        limit_ms: u64,
    },
    /// Our own code failed while it drove the run.
    Bug,
    /// Its journal cannot be read or folded.
    Unreadable,
    NoExecutor {
        executor: String,
    },
    /// The process died over and over at the same step of it.
    Quarantined {
        strikes: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The result in words, when that is not the text of the last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_text: Option<String>,
    pub usage: Usage,
    /// What they cost, as far as their models have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// For fields that are not written while they have their default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Texts for Record {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match &mut self.body {
            Body::Accepted(accepted) => {
                accepted.narrowed_tools.iter_mut().flatten().for_each(&mut *visit);
                accepted.narrowed_hosts.iter_mut().flatten().for_each(&mut *visit);
                accepted.narrowed_volumes.iter_mut().flatten().for_each(&mut *visit);
                accepted.models.sampling.stop.iter_mut().flatten().for_each(&mut *visit);
                accepted.segments.iter_mut().for_each(|segment| segment.each_text(visit));
                accepted.warnings.iter_mut().for_each(&mut *visit);
                let Accepted { input, parent_context, metadata, .. } = &mut **accepted;
                for value in [input, parent_context, metadata].into_iter().flatten() {
                    value.each_text(visit);
                }
            }
            Body::TurnDone(done) => {
                visit(&mut done.text);
                visit(&mut done.thinking);
                done.thoughts.iter_mut().for_each(|thought| thought.each_text(visit));
                done.calls.iter_mut().for_each(|call| call.each_text(visit));
            }
            Body::TurnFailed(failed) => failed.error.each_text(visit),
            Body::CallStarted(call) => {
                call.tool_use.each_text(visit);
                if let Some(evidence) = &mut call.evidence {
                    evidence.each_text(visit);
                }
                call.conditions.iter_mut().for_each(visit);
            }
            Body::CallDone(done) => visit(&mut done.text),
            Body::StopRequested(Stop::Cancelled { reason: Some(reason) }) => visit(reason),
            Body::Switched(switched) => switched.error.each_text(visit),
            Body::Notice { text, .. } => visit(text),
            Body::Note { value, .. } => value.each_text(visit),
            Body::Finished(outcome) => {
                outcome.warnings.iter_mut().for_each(&mut *visit);
                outcome.error.iter_mut().for_each(|error| error.each_text(visit));
                outcome.final_text.iter_mut().for_each(visit);
            }
            Body::Admitted { .. }
            | Body::TurnStarted(_)
            | Body::Usage { .. }
            | Body::CallWaiting { .. }
            | Body::Parked { .. }
            | Body::Resumed(_)
            | Body::LimitReached { .. }
            | Body::StopRequested(_) => {}
        }
    }
}
