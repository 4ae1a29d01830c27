//! The seam to executors: what a run's next step comes from.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    definition::Definition,
    message::{Message, ToolUse},
    record::{Outcome, Record},
    run::Run,
    time::Timestamp,
    tool::Tool,
};

/// The executor of agents that name none: our own agent loop.
pub const MODEL: &str = "model";

/// What a run does next. The engine alone performs it.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the model for a turn.
    Turn(TurnPlan),
    /// Call a tool.
    Call(CallPlan),
    /// Park until a time.
    Wait {
        /// The time.
        until: Timestamp,
    },
    /// Journal something of the executor's own.
    Note {
        /// The format of it.
        version: u32,
        /// What.
        value: Value,
    },
    /// End the run.
    Finish(Box<Outcome>),
}

/// A turn to ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnPlan {
    /// The turn, from 1.
    pub turn: u32,
    /// The try of it, from 1.
    pub attempt: u32,
    /// Whether tools are offered.
    pub tools: bool,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
}

/// A tool to call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// The turn that asked.
    pub turn: u32,
    /// Its place among the turn's calls.
    pub index: u32,
    /// What was asked.
    pub tool_use: ToolUse,
    /// Whether the redactor changed its input.
    pub masked: bool,
    /// Who wants the call.
    pub asked_by: AskedBy,
}

/// Who wants a tool to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// A model, which may call the tools that the run was accepted with.
    Model,
    /// The executor, which may call the tools that it brought itself.
    Executor,
}

/// A kind of run. Agents name their executor; the name is journaled with each run.
pub trait Executor: Send + Sync {
    /// State for one run, before its first record.
    fn open(&self, definition: Arc<Definition>) -> Box<dyn Drive>;

    /// Tools that only this executor may call. No model is offered them, and no agent can list them.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}

/// One run's executor state. Both methods are pure: no clock, no chance, no I/O.
pub trait Drive: Send + Sync {
    /// Takes in a record, after `run` did. Compatible for ever.
    fn apply(&mut self, run: &Run, record: &Record);

    /// What comes next; nothing while something is open. May change between versions: what was decided is in the journal.
    fn decide(&self, run: &Run, now: Timestamp) -> Vec<Effect>;
}
