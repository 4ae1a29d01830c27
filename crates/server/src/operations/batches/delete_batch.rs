//! `delete_batch`: removes a batch that is done, with the trees of its runs.

use drawloom_contract::{caller::Scope, failure::Failure, journal::RunFilter};
use drawloom_wire::{batches, runs::Deleted};

use crate::{
    operation::{Answer, Call, Card, Operation},
    operations::runs::delete_run::{NOT_ENDED, delete},
};

/// How often a batch is listed and deleted when retries join it meanwhile.
const TRIES: u32 = 4;

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
        let mut tries = TRIES;
        loop {
            let roots = call.app.runs.list(call.caller, filter.clone()).await?;
            tries -= 1;
            match delete(call, &roots).await {
                // A retry that has ended joined the batch after the list.
                Err(failure)
                    if failure.code == NOT_ENDED && tries > 0 && roots.iter().all(|root| root.status.is_terminal()) => {
                }
                deleted => return deleted,
            }
        }
    }
}
