//! `get_load`: how full the server is.

use drawloom_contract::{caller::Scope, failure::Failure, runs::Load};
use drawloom_wire::house;

use crate::operation::{Answer, Call, Card, Operation, Verb};

pub(super) struct GetLoad;

impl Operation for GetLoad {
    type Input = house::GetLoad;
    type Output = Load;

    fn card(&self) -> Card {
        Card::new("get_load", "Say how many runs are active and queued, in all and by provider.", Scope::RunsRead)
            .rest(Verb::Get, "/v1/_concurrency/stats")
            .toolset("server")
            .read_only()
    }

    async fn call(&self, call: &Call<'_>, _: Self::Input) -> Result<Answer<Load>, Failure> {
        Ok(Answer::Value(call.app.runs.load_now()))
    }
}
