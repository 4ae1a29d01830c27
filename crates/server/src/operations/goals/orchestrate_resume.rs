//! `orchestrate_resume`: answers what a goal asks.

use std::sync::Arc;

use drawloom_contract::{caller::Scope, failure::Failure, ids::RunKey, runs::Started};
use drawloom_goal::Answers;
use drawloom_wire::goals::{self, GoalResult};

use crate::{
    operation::{Answer, Call, Card, Operation, Told},
    operations::goals::orchestrate::answer,
};

pub(crate) struct OrchestrateResume;

impl Operation for OrchestrateResume {
    type Input = goals::OrchestrateResume;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Answer what a goal asks.", Scope::GoalsCreate)
            .toolset("goal")
            .told(Told::Goal)
            .advice("Ask the user the questions first. The goal goes on under the same run_id.")
            .body_limit(512 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalResult>, Failure> {
        let goals = &call.app.goals;
        let run = goals.questions.goal_of(&call.caller.tenant, &input.token).await?;
        // A token of another user's goal is as unknown as one that does not exist.
        let view = goals.find(call.app, call.caller, run).await?;
        let key = RunKey { tenant: view.tenant.clone(), run };
        let answers =
            Answers { answers: input.answers, success_criteria: input.success_criteria, approved: input.approved };
        goals.questions.answer(&key, &input.token, answers).await?;
        let started = Started { view: Arc::new(view), live: None };
        answer(call, started, input.detach.unwrap_or(true)).await
    }
}
