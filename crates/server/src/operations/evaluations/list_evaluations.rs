//! `list_evaluations`: the evaluations of a run, or of all runs of a definition.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_substrate::evaluations::ListAsked;
use drawloom_wire::evaluations::{self, EvaluationPage};
use serde_json::{Value, json};

use super::get_evaluation::{failure, narrowed, told};
use crate::operation::{Answer, Call, Card, Operation};

/// Maximum bytes of a page, where the surface has no bound of its own.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;

pub(crate) struct ListEvaluations;

impl Operation for ListEvaluations {
    type Input = evaluations::ListEvaluations;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List the evaluations of a run or a definition, newest first.", Scope::EvaluationsRead)
            .toolset("evaluations")
            .advice("Pass run_id or def_id. After a signal that others are done, list again.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<EvaluationPage>, Failure> {
        let (visible, stored) = (call.caller.visible(), &call.app.evaluations);
        let asked = ListAsked {
            tag: input.tag.clone(),
            latest_per_tag: input.latest_per_tag,
            after: input.after.clone(),
            limit: input.page_size(),
            bytes: Some(call.result_bytes.unwrap_or(PAGE_BYTES)),
        };
        let refuse = |message: &str| Err(Failure::new(FailureKind::Invalid, "wrong_fields", message));
        let (listed, mut answer) = match (input.run_id, &input.def_id) {
            (Some(run), None) => {
                call.app.runs.glance(call.caller, run).await?;
                (stored.list_for_run(&visible, run, &asked).await.map_err(failure)?, json!({ "run_id": run }))
            }
            (None, Some(_)) if input.latest_per_tag => return refuse("latest_per_tag requires run_id"),
            (None, Some(def_id)) => {
                let definition = stored.definition(visible.tenant(), def_id).await.map_err(failure)?;
                let listed = stored.list_for_definition(&visible, &definition, &asked).await.map_err(failure)?;
                (listed, json!({ "def_id": definition, "warnings": narrowed(call.caller) }))
            }
            (Some(_), Some(_)) => return refuse("run_id and def_id cannot be combined"),
            (None, None) => return refuse("pass run_id or def_id"),
        };
        answer["evaluations"] =
            listed.evaluations.iter().map(|evaluation| evaluation.show()).collect::<Vec<Value>>().into();
        answer["truncated"] = listed.next.is_some().into();
        answer["next"] = json!(listed.next);
        told(answer)
    }
}
