//! `cancel_batch`: stops every run of a batch.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::{
    batches::{self, CancelledBatch},
    runs::Cancelled,
};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct CancelBatch;

impl Operation for CancelBatch {
    type Input = batches::CancelBatch;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Cancel all runs of a batch and their child runs.", Scope::RunsCreate)
            .toolset("runs")
            .destructive()
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<CancelledBatch>, Failure> {
        let reason = input.reason.map(|reason| call.app.redactor.clean(reason).into_inner());
        let members = call.app.runs.load_batch(call.caller, input.batch_id).await?;
        // All at once: a caller that leaves meanwhile does not leave some of them running.
        let cancels = members.iter().map(|view| call.app.runs.cancel(call.caller, view.run, reason.clone()));
        let mut runs = Vec::new();
        for done in futures::future::join_all(cancels).await {
            runs.push(Cancelled::of(done?, reason.clone()));
        }
        let cancelled = runs.iter().map(|run| u32::from(run.cancelled)).sum();
        Ok(Answer::Value(CancelledBatch { batch_id: input.batch_id, cancelled, runs }))
    }
}
