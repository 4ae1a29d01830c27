//! `submit_evaluation`: says what a run is worth.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::evaluations::{By, Submission};
use drawloom_wire::evaluations::{self, SubmittedEvaluation};

use super::get_evaluation::{failure, told};
use crate::{
    dispatch,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct SubmitEvaluation;

impl Operation for SubmitEvaluation {
    type Input = evaluations::SubmitEvaluation;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Submit an evaluation of a run.", Scope::EvaluationsWrite)
            .toolset("evaluations")
            .advice(
                "Scores are from 0 to 1. With a tag, submitting again replaces your evaluation instead of adding one.",
            )
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<SubmittedEvaluation>, Failure> {
        let run = call.app.runs.glance(call.caller, input.run_id).await?;
        let key = input.idempotency_key.as_ref().and_then(|_| dispatch::request_key(call.caller, &input));
        let submission = Submission {
            score: input.score,
            dimensions: input.dimensions,
            judgement: input.judgement,
            rationale: input.rationale,
            tag: input.tag,
        };
        let by = By::Request { caller: call.caller, key };
        told(call.app.evaluations.submit(&by, &run, submission).await.map_err(failure)?)
    }
}
