//! `get_load`: how full the server is.

use drawloom_contract::{caller::Scope, failure::Failure, runs::Load};
use drawloom_wire::server;

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct GetLoad;

impl Operation for GetLoad {
    type Input = server::GetLoad;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Show how many runs are active and queued, in total and by provider.", Scope::RunsRead)
            .toolset("server")
    }

    async fn call(&self, call: &Call<'_>, _: Self::Input) -> Result<Answer<Load>, Failure> {
        Ok(Answer::Value(call.app.runs.load_now()))
    }
}
