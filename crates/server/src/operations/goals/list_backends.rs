//! `list_backends`: what can execute the roles of goals.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::goals::{self, BackendList};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct ListBackends;

impl Operation for ListBackends {
    type Input = goals::ListBackends;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List what can execute the roles of goals.", Scope::RunsRead)
            .toolset("goal")
            .client_field("caller_agent")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<BackendList>, Failure> {
        Ok(Answer::Value(call.app.goals.host.backends(&input).await))
    }
}
