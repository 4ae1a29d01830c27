//! `get_evaluation`: one evaluation with its texts.

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::{Explain, Failure, FailureKind},
};
use drawloom_substrate::evaluations::EvalId;
use drawloom_wire::evaluations::{self, Evaluation};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct GetEvaluation;

impl Operation for GetEvaluation {
    type Input = evaluations::GetEvaluation;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read an evaluation with its judgement and rationale.", Scope::EvaluationsRead)
            .toolset("evaluations")
            .advice("list_evaluations lists the ids.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Evaluation>, Failure> {
        let id: EvalId = input
            .eval_id
            .parse()
            .map_err(|error| Failure::new(FailureKind::Invalid, "bad_form", format!("eval_id: {error}")))?;
        let found = call.app.evaluations.get(&call.caller.visible(), id).await.map_err(failure)?;
        told(found.show())
    }
}

pub(super) fn failure(error: impl Explain) -> Failure {
    Failure::of(&error)
}

/// What the substrate answers as JSON, because a repeat gets it as it was stored.
pub(super) fn told<T: DeserializeOwned>(value: Value) -> Result<Answer<T>, Failure> {
    let answer = serde_json::from_value(value);
    answer.map(Answer::Value).map_err(|error| Failure::new(FailureKind::Bug, "bug", error.to_string()))
}

/// What a caller who sees only its own runs should know of a list over many.
pub(super) fn narrowed(caller: &Caller) -> Vec<String> {
    let visible = caller.visible();
    visible.owner().map(|owner| format!("only evaluations of runs of user {owner} are included")).into_iter().collect()
}
