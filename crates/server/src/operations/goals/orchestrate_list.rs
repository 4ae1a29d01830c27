//! `orchestrate_list`: goals, the newest first.

use drawloom_contract::{caller::Scope, failure::Failure, journal::RunFilter};
use drawloom_wire::goals::{self, GoalList};

use crate::{
    goals::{GOAL_AGENT, is_goal},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct OrchestrateList;

impl Operation for OrchestrateList {
    type Input = goals::OrchestrateList;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List goals, the newest first.", Scope::RunsRead).toolset("goal")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalList>, Failure> {
        let filter = RunFilter {
            agent: Some(GOAL_AGENT.parse().expect("a constant name")),
            before: input.before,
            limit: input.limit.unwrap_or(20),
            ..RunFilter::default()
        };
        let goals = &call.app.goals;
        let mut runs = Vec::new();
        let listed = call.app.runs.list(call.caller, filter).await?;
        for view in listed.into_iter().filter(is_goal) {
            let read = goals.read(call.app, call.caller, view.run).await?;
            runs.push(goals.status(call.app, &read));
        }
        Ok(Answer::Value(GoalList { runs }))
    }
}
