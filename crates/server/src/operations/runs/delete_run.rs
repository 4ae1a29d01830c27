//! `delete_run`: removes a run that has ended, with its tree.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    view::RunView,
};
use drawloom_wire::runs::{self, Deleted};

use crate::operation::{Answer, Call, Card, Operation};

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
            let message = format!("{} is part of the batch {}, and a batch is deleted whole", view.run, place.batch);
            return Err(refuse("run_of_batch", message).with_hint(format!("delete {}", place.batch)));
        }
        delete(call, &[view]).await
    }
}

/// Deletes the trees of these roots.
pub(crate) async fn delete(call: &Call<'_>, roots: &[RunView]) -> Result<Answer<Deleted>, Failure> {
    let keys: Vec<_> = roots.iter().map(RunView::key).collect();
    match call.app.retention.remove_trees(&keys).await.map_err(|error| Failure::of(&error))? {
        Some(removed) => {
            tracing::info!(runs = removed.runs, records = removed.records, "runs were deleted");
            Ok(Answer::Value(removed.into()))
        }
        None => {
            let names: Vec<String> = roots.iter().map(|view| view.run.to_string()).collect();
            let message = format!("a run of the tree of {} has not ended", names.join(", "));
            Err(Failure::new(FailureKind::Conflict, "not_ended", message)
                .with_hint("wait for its end (get_run with wait_ms), or cancel it first with cancel_run"))
        }
    }
}
