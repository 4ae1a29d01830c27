//! Effects whose intent is journaled: performing them, and taking in what they came to.

use std::sync::Arc;

use drawloom_contract::{
    model::{Turn, TurnError, TurnRequest},
    record::Seq,
    tool::{Step, Tool, ToolContext, ToolError},
};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::{permit::Permit, run_task::RunTask};

/// An effect whose intent is journaled.
pub(crate) enum Task {
    Turn { request: TurnRequest, permit: Permit },
    Call { call: Seq, tool: Arc<dyn Tool>, context: ToolContext, input: Value },
}

/// What an effect came to.
pub(crate) enum Done {
    Turn {
        turn: u32,
        attempt: u32,
        result: Result<Turn, TurnError>,
    },
    /// The turn was not asked for: the provider's credential was closed before.
    Postponed {
        turn: u32,
        attempt: u32,
    },
    Call {
        call: Seq,
        result: Result<Step, ToolError>,
    },
}

impl Task {
    /// Does it. A panic inside becomes a failure of this effect.
    pub(crate) fn perform(self, task: &RunTask) -> BoxFuture<'static, Done> {
        match self {
            Self::Turn { request, permit } => task.ask_model(request, permit),
            Self::Call { call, tool, context, input } => task.call_tool(call, tool, context, input),
        }
    }
}

impl RunTask {
    /// Makes an outcome a record.
    pub(crate) fn take_in(&mut self, done: Done) {
        match done {
            Done::Turn { turn, result: Ok(result), .. } => self.end_turn(turn, result),
            Done::Turn { turn, attempt, result: Err(error) } => self.fail_turn(turn, attempt, &error),
            Done::Postponed { turn, attempt } => self.postpone_turn(turn, attempt),
            Done::Call { call, result } => self.take_in_call(call, result),
        }
    }
}
