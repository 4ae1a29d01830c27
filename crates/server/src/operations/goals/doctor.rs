//! `doctor`: whether goals can run here.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::goals::{self, Diagnosis};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct Doctor;

impl Operation for Doctor {
    type Input = goals::Doctor;

    fn card(&self) -> Card {
        Card::of::<Self::Input>(
            "Check whether goals can run: programs, logins, git, the directory.",
            Scope::GoalsCreate,
        )
        .toolset("goal")
        .advice("Call it before you guess why a worker does not start.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Diagnosis>, Failure> {
        call.app.goals.host.diagnose(call.caller, &input).await.map(Answer::Value)
    }
}
