//! `delete_batch`: removes a batch that is done, with the trees of its runs.

use drawloom_contract::{caller::Scope, failure::Failure, journal::RunFilter};
use drawloom_wire::{batches, runs::Deleted};

use crate::{
    operation::{Answer, Call, Card, Operation},
    operations::runs::delete_run::delete,
};

/// Runs of a batch with all their retries in it.
const MAX_ATTEMPTS: u32 = 10_000;

pub(crate) struct DeleteBatch;

impl Operation for DeleteBatch {
    type Input = batches::DeleteBatch;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Delete a batch: all its runs with their child runs and journals.", Scope::Tenant)
            .toolset("server")
            .destructive()
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Deleted>, Failure> {
        // Refuses a batch that the caller does not see.
        call.app.runs.load_batch(call.caller, input.batch_id).await?;
        let filter = RunFilter { batch: Some(input.batch_id), limit: MAX_ATTEMPTS, ..RunFilter::default() };
        let roots = call.app.runs.list(call.caller, filter).await?;
        delete(call, &roots).await
    }
}
