//! `delete_run`: removes a run that has ended, with its tree.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    view::RunView,
};
use drawloom_wire::runs::{self, Deleted};

use crate::{
    goals::GOAL_AGENT,
    operation::{Answer, Call, Card, Operation},
};

/// The code for a tree with a run that has not ended.
pub(crate) const NOT_ENDED: &str = "not_ended";

pub(crate) struct DeleteRun;

impl Operation for DeleteRun {
    type Input = runs::DeleteRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Delete a run with its child runs and journals.", Scope::Tenant)
            .toolset("server")
            .destructive()
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Deleted>, Failure> {
        let view = call.app.runs.glance(call.caller, input.run_id).await?;
        let refuse = |code, message: String| Failure::new(FailureKind::Conflict, code, message);
        if view.depth > 0 {
            let message = format!("{} is a child run, and a tree is deleted whole", view.run);
            return Err(refuse("child_run", message).with_hint(format!("delete its top-level run {}", view.root)));
        }
        if let Some(place) = view.batch {
            match call.app.runs.load_batch(call.caller, place.batch).await {
                // The batch was deleted before, without this run of it.
                Err(failure) if failure.kind == FailureKind::NotFound => {}
                Err(failure) => return Err(failure),
                Ok(_) => {
                    let batch = place.batch;
                    let message = format!("{} is part of the batch {batch}, and a batch is deleted whole", view.run);
                    return Err(refuse("run_of_batch", message).with_hint(format!("delete {batch}")));
                }
            }
        }
        delete(call, &[view]).await
    }
}

/// Refuses a goal that still has a folder, and perhaps a branch and refs.
async fn refuse_kept_goals(call: &Call<'_>, roots: &[RunView]) -> Result<(), Failure> {
    if !roots.iter().any(|root| root.agent.as_str() == GOAL_AGENT) {
        return Ok(());
    }
    let kept = call.app.goals.host.kept().await?;
    match roots.iter().find(|root| kept.contains(&root.run)) {
        None => Ok(()),
        Some(goal) => {
            let message = format!("{} is a goal whose branch, refs and folder still exist", goal.run);
            Err(Failure::new(FailureKind::Conflict, "run_of_goal", message)
                .with_hint("remove them first with orchestrate_rm"))
        }
    }
}

/// Deletes the trees of these roots.
pub(crate) async fn delete(call: &Call<'_>, roots: &[RunView]) -> Result<Answer<Deleted>, Failure> {
    refuse_kept_goals(call, roots).await?;
    let keys: Vec<_> = roots.iter().map(RunView::key).collect();
    match call.app.retention.remove_trees(&keys).await.map_err(|error| Failure::of(&error))? {
        Some(removed) => {
            tracing::info!(runs = removed.runs, records = removed.records, "runs were deleted");
            Ok(Answer::Value(removed.into()))
        }
        None => {
            let names: Vec<String> = roots.iter().map(|view| view.run.to_string()).collect();
            let message = format!("a run of the tree of {} has not ended", names.join(", "));
            Err(Failure::new(FailureKind::Conflict, NOT_ENDED, message)
                .with_hint("wait for its end (get_run with wait_ms), or cancel it first with cancel_run"))
        }
    }
}
