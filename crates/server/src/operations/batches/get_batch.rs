//! `get_batch`: looks at a batch, or waits for it.

use std::sync::Arc;

use drawloom_contract::{caller::Scope, failure::Failure, runs::Started};
use drawloom_wire::{
    batches::{self, BatchResult},
    runs::How,
};

use crate::{
    handle::{Handle, batch_result},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct GetBatch;

impl Operation for GetBatch {
    type Input = batches::GetBatch;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Look at a batch, or wait for it.", Scope::RunsRead)
            .toolset("core")
            .advice("Use it after spawn_runs came back unfinished or detached. Give wait_ms to wait for the end of all its runs.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<BatchResult>, Failure> {
        let views = call.app.runs.load_batch(call.caller, input.batch_id).await?;
        let result_bytes = input.result_bytes.or(call.result_bytes);
        if matches!(input.wait_ms, None | Some(0)) {
            return Ok(Answer::Value(batch_result(call.app, input.batch_id, views.iter(), result_bytes)));
        }
        let runs = views.into_iter().map(|view| Started { view: Arc::new(view), live: None }).collect();
        let how = How { wait_ms: input.wait_ms, result_bytes, ..How::default() };
        Ok(Answer::Handle(Handle::batch(call.caller.clone(), input.batch_id, runs, how)))
    }
}
