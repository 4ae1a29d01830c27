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
        Card::of::<Self::Input>("List goals, the newest first, without those that were removed.", Scope::RunsRead)
            .toolset("goal")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalList>, Failure> {
        let limit = input.limit.unwrap_or(20);
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let (goals, mut before) = (&call.app.goals, input.before);
        let mut runs = Vec::new();
        loop {
            let agent = Some(GOAL_AGENT.parse().expect("a constant name"));
            let filter = RunFilter { agent, before, limit, ..RunFilter::default() };
            let listed = call.app.runs.list(call.caller, filter).await?;
            let is_last = listed.len() < most;
            before = listed.last().map(|view| view.run);
            for view in listed.into_iter().filter(is_goal) {
                let read = goals.read(call.app, call.caller, view.run).await?;
                if !read.removed {
                    runs.push(goals.status(call.app, &read));
                }
                if runs.len() == most {
                    return Ok(Answer::Value(GoalList { runs }));
                }
            }
            if is_last {
                return Ok(Answer::Value(GoalList { runs }));
            }
        }
    }
}
