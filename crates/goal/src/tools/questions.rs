//! `goal_questions`: waits until someone has answered what a goal asks.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
    wait::{Cause, Wait},
};
use serde_json::Value;

use crate::{
    questions::{Asked, Question, Questions},
    tools::QUESTIONS,
};

pub(super) struct AskPeople(pub(super) Arc<Questions>);

#[async_trait]
impl Tool for AskPeople {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Question>(QUESTIONS, "Ask people what a goal must know.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let asked = self.0.ask(context, serde_json::from_value(input)?).await?;
        match asked {
            (Asked { answers: Some(answers), .. }, _) => Ok(Step::done(serde_json::to_string(&answers)?)),
            (Asked { answers: None, .. }, revision) => {
                Ok(Step::Wait(Wait::on(Cause::Value { key: Questions::key(&context.run), revision })))
            }
        }
    }
}
