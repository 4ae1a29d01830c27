//! `aggregate_evaluations`: statistics of a definition, or of every definition of an agent.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_substrate::evaluations::Of;
use drawloom_wire::evaluations::{self, EvaluationStats};

use super::get_evaluation::{failure, told};
use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct AggregateEvaluations;

impl Operation for AggregateEvaluations {
    type Input = evaluations::AggregateEvaluations;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Summarize the evaluations of a definition or an agent.", Scope::EvaluationsRead)
            .toolset("evaluations")
            .advice("Pass agent to compare its versions, or def_id for one of them.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<EvaluationStats>, Failure> {
        let (visible, stored) = (call.caller.visible(), &call.app.evaluations);
        let refuse = |message: &str| Err(Failure::new(FailureKind::Invalid, "wrong_fields", message));
        let of = match (input.def_id, input.agent) {
            (Some(def_id), None) => {
                Of::Definition(stored.definition(visible.tenant(), &def_id).await.map_err(failure)?)
            }
            (None, Some(_)) if input.include_lineage => return refuse("include_lineage requires def_id"),
            (None, Some(agent)) => Of::Agent(agent),
            (Some(_), Some(_)) => return refuse("def_id and agent cannot be combined"),
            (None, None) => return refuse("pass def_id or agent"),
        };
        told(stored.aggregate(&visible, &of, input.include_lineage).await.map_err(failure)?)
    }
}
