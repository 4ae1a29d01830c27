//! `get_batch`: looks at a batch, or waits for it.

use std::sync::Arc;

use drawloom_contract::{caller::Scope, failure::Failure, runs::Started};
use drawloom_wire::runs::{self, BatchResult, How};

use crate::{
    handle::{BatchHandle, Handle},
    operation::{Answer, Call, Card, Operation, Verb},
};

pub(super) struct GetBatch;

impl Operation for GetBatch {
    type Input = runs::GetBatch;
    type Output = BatchResult;

    fn card(&self) -> Card {
        Card::new("get_batch", "Look at a batch, or wait for it.", Scope::RunsRead)
            .rest(Verb::Get, "/v1/batches/{batch_id}")
            .toolset("core")
            .advice("Use it after spawn_runs came back unfinished or detached. Give wait_ms to wait for the end of all its runs.")
            .read_only()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<BatchResult>, Failure> {
        let views = call.app.runs.load_batch(call.caller, input.batch_id).await?;
        let runs = views.into_iter().map(|view| Started { view: Arc::new(view), live: None }).collect();
        let how =
            How { wait_ms: input.wait_ms, result_bytes: input.result_bytes.or(call.result_bytes), ..How::default() };
        let handle = BatchHandle { caller: call.caller.clone(), batch: input.batch_id, runs, how };
        match input.wait_ms {
            None | Some(0) => Ok(Answer::Value(handle.as_it_stands(call.app))),
            Some(_) => Ok(Answer::Handle(Handle::Batch(handle))),
        }
    }
}
