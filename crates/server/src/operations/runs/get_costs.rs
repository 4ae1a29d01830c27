//! `get_costs`: what runs cost, by agent, model, user or day.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::runs::{self, CostReport};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct GetCosts;

impl Operation for GetCosts {
    type Input = runs::GetCosts;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Sum up the cost of runs by agent, model, user or day.", Scope::RunsRead)
            .toolset("runs")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<CostReport>, Failure> {
        let query = input.query(call.app.clock.wall());
        let groups = call.app.runs.costs(call.caller, &query).await?;
        Ok(Answer::Value(CostReport::of(&query, groups, call.app.models.list().currency)))
    }
}
