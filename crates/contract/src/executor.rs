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
    Turn(TurnPlan),
    Call(CallPlan),
    Wait {
        until: Timestamp,
    },
    /// Journal something of the executor's own.
    Note {
        version: u32,
        value: Value,
    },
    Finish(Box<Outcome>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct TurnPlan {
    pub turn: u32,
    pub attempt: u32,
    pub tools: bool,
    pub system: Arc<str>,
    pub messages: Vec<Arc<Message>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    pub turn: u32,
    pub index: u32,
    pub tool_use: ToolUse,
    pub masked: bool,
    pub asked_by: AskedBy,
}

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
