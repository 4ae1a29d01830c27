//! `orchestrate_say`: says something to a goal at work.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_wire::goals::{self, GoalSaid};

use crate::{
    goals::key,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct OrchestrateSay;

impl Operation for OrchestrateSay {
    type Input = goals::OrchestrateSay;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Say something to a goal at work.", Scope::GoalsCreate)
            .toolset("goal")
            .advice("Planner, workers and reviewer that are asked from then on are told. Those at work are not interrupted.")
            .body_limit(64 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalSaid>, Failure> {
        let goals = &call.app.goals;
        let view = goals.find(call.app, call.caller, input.run_id).await?;
        if view.status.is_terminal() {
            let message = format!("goal {} has ended", view.run);
            return Err(Failure::new(FailureKind::Conflict, "goal_ended", message)
                .with_hint("go on from it with orchestrate_resume and say"));
        }
        let text = input.text.trim();
        if text.is_empty() {
            return Err(Failure::new(FailureKind::Invalid, "nothing_said", "text is empty"));
        }
        let said = goals.questions.say(&key(&view), text).await?;
        Ok(Answer::Value(GoalSaid { run_id: view.run, said: said.texts }))
    }
}
