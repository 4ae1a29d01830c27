//! `get_batch`: looks at a batch, or waits for it.

use std::sync::Arc;

use drawloom_contract::{caller::Scope, failure::Failure, runs::Started};
use drawloom_wire::{
    batches::{self, BatchResult},
    runs::How,
};

use crate::{
    handle::{Handle, batch_result},
    labels,
    operation::{Answer, Call, Card, Operation, Parameter, Told},
};

pub(crate) struct GetBatch;

const PARAMETERS: &[Parameter] = &[
    Parameter::needs("batch_id", "The batch."),
    Parameter::takes(
        "wait_ms",
        "Maximum wait in milliseconds for all runs to end (45000 suits most hosts). Without it the call returns at once.",
    ),
    Parameter::takes(
        "result_bytes",
        "Maximum bytes of all answer texts together (default 24576); the longest texts come as outlines.",
    ),
];

impl Operation for GetBatch {
    type Input = batches::GetBatch;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Look at a batch, or wait for it.", Scope::RunsRead)
            .toolset("core")
            .told(Told::Batch)
            .parameters(PARAMETERS)
            .advice("Use it when spawn_runs came back unfinished or detached. Give wait_ms to wait; do not poll.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<BatchResult>, Failure> {
        let views = call.app.runs.load_batch(call.caller, input.batch_id).await?;
        let result_bytes = input.result_bytes.or(call.result_bytes);
        if matches!(input.wait_ms, None | Some(0)) {
            let mut batch = batch_result(call.app, input.batch_id, views.iter(), result_bytes);
            labels::add_retries(call.app, &views, &mut batch.results).await?;
            return Ok(Answer::Value(batch));
        }
        let runs = views.into_iter().map(|view| Started { view: Arc::new(view), live: None }).collect();
        let how = How { wait_ms: input.wait_ms, result_bytes, ..How::default() };
        Ok(Answer::Handle(Handle::batch(call.caller.clone(), input.batch_id, runs, how)))
    }
}
