//! The executor `goal`: a run whose next step comes from the loop.

use std::sync::Arc;

use drawloom_contract::{
    definition::Definition,
    executor::{Drive, Effect, Executor},
    failure::RunError,
    record::{Outcome, Record, Status},
    run::Run,
    time::Timestamp,
    tool::Tool,
};

use crate::{
    models::Models,
    questions::Questions,
    result,
    roles::Prompts,
    state::State,
    tools::{self, Backends},
    walk::{Halt, Walk},
    workspace::Workspace,
};

/// What the loop is made of.
#[derive(Clone)]
pub struct GoalParts {
    pub prompts: Prompts,
    pub backends: Backends,
    pub questions: Arc<Questions>,
    pub workspace: Arc<dyn Workspace>,
    pub models: Arc<dyn Models>,
}

/// The executor of goals.
pub struct GoalExecutor(GoalParts);

impl GoalExecutor {
    pub fn new(parts: GoalParts) -> Self {
        Self(parts)
    }
}

impl Executor for GoalExecutor {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(Goal { state: State::default(), prompts: self.0.prompts.clone() })
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        tools::all(&self.0)
    }
}

/// One goal.
pub(crate) struct Goal {
    pub(crate) state: State,
    pub(crate) prompts: Prompts,
}

impl Drive for Goal {
    fn apply(&mut self, _: &Run, record: &Record) {
        self.state.apply(record);
    }

    fn decide(&self, run: &Run, now: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() {
            return Vec::new();
        }
        let input = match &self.state.input {
            Some(Ok(input)) => input,
            Some(Err(error)) => {
                return vec![finish(
                    run,
                    Err(RunError::new("invalid_goal", format!("the goal cannot be read: {error}"))),
                    None,
                )];
            }
            None => return Vec::new(),
        };
        let mut walk = Walk::new(&self.state, input, &self.prompts, now);
        let ended = walk.goal();
        let mut effects = walk.effects;
        match ended {
            Err(Halt::Pending) => {}
            // What the walk still tells comes before the end.
            _ if !effects.is_empty() => {}
            Ok(finished) => effects.push(finish(run, Ok(()), Some(finished.output))),
            Err(Halt::Stop(error)) => effects.push(finish(run, Err(error), result::last_output(&self.state))),
        }
        effects
    }
}

fn finish(run: &Run, ended: Result<(), RunError>, final_text: Option<String>) -> Effect {
    Effect::Finish(Box::new(Outcome {
        status: if ended.is_ok() { Status::Completed } else { Status::Failed },
        stop_reason: None,
        error: ended.err(),
        final_text,
        usage: run.view.usage,
        cost: run.view.cost,
        warnings: run.warnings(),
    }))
}
