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

/// The format that this version writes.
pub const FORMAT: u32 = 1;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the run's journal.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// What.
    pub body: Body,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// A caller handed the run over.
    Accepted(Box<Accepted>),
    /// It got its slot: the first time, or again after parking or a restart.
    Admitted {
        /// When its time is up, once that is known.
        deadline: Option<Timestamp>,
        /// When that was set, if it was set here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_set: Option<Mark>,
    },
    /// Intent: a model turn is asked for.
    TurnStarted(TurnStarted),
    /// Outcome: the whole turn.
    TurnDone(TurnDone),
    /// What the provider counted for a turn.
    Usage {
        /// The turn.
        turn: u32,
        /// Its tokens.
        usage: Usage,
        /// What they cost; absent when the model has no price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
        /// Whether the provider did not say: then it is what was set aside from the budget, which is rather too much.
        #[serde(default, skip_serializing_if = "is_false")]
        assumed: bool,
    },
    /// From here on another model is asked, because the one before failed.
    Switched(Box<Switched>),
    /// Something about the conversation changed on the way, for the reader to know.
    Notice {
        /// What.
        notice: Notice,
        /// In words.
        text: String,
    },
    /// Outcome: the turn came to nothing.
    TurnFailed(TurnFailed),
    /// Intent: a tool is called. Its sequence is the name of the call.
    CallStarted(CallStarted),
    /// The call waits for something; its result comes later.
    CallWaiting {
        call: Seq,
        #[serde(flatten)]
        wait: Wait,
    },
    /// Outcome: the call's result.
    CallDone(CallDone),
    /// Nothing is left to do but wait: the slot is free and no task holds the run.
    Parked {
        /// What the run itself waits for, apart from its open calls. A wait for a rate limit or a budget has a time too, at
        /// which the run looks again at the latest.
        #[serde(flatten)]
        wait: Wait,
    },
    /// A new process took it up.
    Resumed(Resumed),
    /// A budget is used up.
    LimitReached {
        /// Which.
        limit: Limit,
        /// Whether even one last turn can be paid.
        last_turn: bool,
    },
    /// It is to end now.
    StopRequested(Stop),
    /// State of an executor's own.
    Note {
        /// The executor's format of it.
        version: u32,
        /// What it notes.
        value: Value,
    },
    /// The end, of which there is one.
    Finished(Box<Outcome>),
}

/// How a run began, and the limits it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The version of drawloom that accepted it.
    pub version: String,
    /// The wall it stands behind.
    pub tenant: Tenant,
    /// The run.
    pub run: RunId,
    /// Its conversation.
    pub session: SessionId,
    /// The caller's handle of it.
    pub agent_id: AgentId,
    /// The agent.
    pub agent: AgentName,
    /// The agent's pinned definition.
    pub definition: Digest,
    /// What its next step comes from.
    #[serde(default = "model_executor", skip_serializing_if = "is_model_executor")]
    pub executor: String,
    /// For whom.
    pub user: UserId,
    /// The provider that its calls go to; the executor's name when it asks no model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The run that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The root of its tree: itself, when nobody spawned it.
    pub root: RunId,
    /// How many runs stand above it.
    #[serde(default)]
    pub depth: u32,
    /// The batch that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchPlace>,
    /// What it is asked.
    pub segments: Vec<Segment>,
    /// What its executor is told beside that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The tools it may use, by name: operator, definition and request, each narrowing.
    pub tools: Vec<String>,
    /// The tools that the root's request left to its whole tree, when it narrowed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_tools: Option<Vec<String>>,
    /// Most model turns, retries not counted.
    pub max_iterations: u32,
    /// Most tokens of the whole tree that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// Most money of the whole tree that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_cost: Option<Cost>,
    /// Narrower budgets that runs above it, and its own request, set for their part of the tree; the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part_budgets: Vec<PartBudget>,
    /// Which other models it may ask, and how.
    #[serde(default, skip_serializing_if = "ModelPlan::is_empty")]
    pub models: ModelPlan,
    /// The hosts that the root's request left to its whole tree, when it narrowed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_hosts: Option<Vec<String>>,
    /// The volumes that requests left to it and its children, when one narrowed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_volumes: Option<Vec<String>>,
    /// When it must have ended, counted from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When that was set.
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
    /// The run at the top.
    pub run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// The call that spawned a run: one child per `(run, call, index)`, however often the call is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run that spawned it.
    pub run: RunId,
    /// That run's handle.
    pub agent_id: AgentId,
    /// The sequence of the call's intent.
    pub call: Seq,
    /// Its place among the children of that call.
    pub index: u32,
}

/// A place in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    /// The batch.
    pub batch: BatchId,
    /// Where in it.
    pub index: u32,
}

/// Intent: a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The turn that asked for it.
    pub turn: u32,
    /// Its place among the turn's calls.
    pub index: u32,
    /// What was asked.
    pub tool_use: ToolUse,
    /// What a resume may do when the outcome is unknown.
    pub repeat: RepeatClass,
    /// What will say later whether it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Value>,
    /// The conditions under which it is made, such as how a command is confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// Whether the redactor changed the input; then it is never executed again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub masked: bool,
    /// Whether the executor asked for it, with a tool of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_executor: bool,
    /// Money that is reserved for it in the tree's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cost: Option<Cost>,
}

/// Outcome: a tool call's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDone {
    /// The call.
    pub call: Seq,
    /// What the model is told.
    pub text: String,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Whether nobody knows if its effect happened.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_doubt: bool,
    /// Money that the call itself cost; what it reserved, when it is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What resume may do with an effect whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatClass {
    /// Do it again.
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
    /// One child: its text.
    One,
    /// Many: a list by index.
    Many,
}

/// A new process took the run up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The process.
    pub epoch: Epoch,
    /// Its version.
    pub version: String,
    /// Unclean ends in a row at which the same step was in flight.
    #[serde(default)]
    pub strikes: u32,
    /// How it is tried, when it is a suspect.
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

/// What was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The tree's budget.
    Budget,
}

/// Why a run is to end before it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Stop {
    /// Somebody cancelled it.
    Cancelled {
        /// Why, in their words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The run that spawned it ended.
    ParentEnded {
        /// That run.
        parent: RunId,
    },
    /// Its time is up.
    Deadline {
        /// When it was.
        at: Timestamp,
        /// How far the wall clock was set forward since it was set, when that made this too early.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock_set_forward_ms: Option<u64>,
    },
    /// It was not admitted in time.
    QueueTimeout {
        /// How long it could wait.
        limit_ms: u64,
    },
    /// Our own code failed while it drove the run.
    Bug,
    /// Its journal cannot be read or folded.
    Unreadable,
    /// This process does not have its executor.
    NoExecutor {
        /// The executor.
        executor: String,
    },
    /// The process died over and over at the same step of it.
    Quarantined {
        /// How often.
        strikes: u32,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// A terminal status.
    pub status: Status,
    /// Why the model stopped, when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// What went wrong, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The result in words, when that is not the text of the last turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_text: Option<String>,
    /// All tokens of the run.
    pub usage: Usage,
    /// What they cost, as far as their models have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What the caller should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

fn is_false(flag: &bool) -> bool {
    !flag
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
