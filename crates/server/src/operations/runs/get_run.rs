//! `get_run`: looks at a run, or waits for it.

use std::sync::Arc;

use drawloom_contract::{caller::Scope, failure::Failure, runs::Started};
use drawloom_wire::runs::{self, How, RunResult};

use crate::{
    handle::{Handle, run_result},
    labels::{self, WHOLE_PROMPT},
    operation::{Answer, Call, Card, Operation, Parameter, Told},
    operations::named_run,
};

pub(crate) struct GetRun;

const PARAMETERS: &[Parameter] = &[
    Parameter::needs("run_id", "The run."),
    Parameter::takes(
        "wait_ms",
        "Maximum wait in milliseconds for the end (45000 suits most hosts). Without it the call returns at once.",
    ),
    Parameter::takes(
        "result_bytes",
        "Maximum bytes of the answer text (default 24576); a longer text comes as an outline.",
    ),
    Parameter::takes("include", "prompt adds what the run was asked; only without wait_ms."),
];

impl Operation for GetRun {
    type Input = runs::GetRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Look at a run, or wait for it.", Scope::RunsRead)
            .toolset("core")
            .told(Told::Run)
            .parameters(PARAMETERS)
            .advice("Returns the answer once the run ended. Give wait_ms to wait; do not poll.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunResult>, Failure> {
        let view = named_run(call, input.run_id, input.agent_id).await?;
        if input.wait_ms.is_none() {
            let mut result = run_result(call.app, &view, input.result_bytes.or(call.result_bytes));
            result.tree = Some(call.app.runs.total(call.caller, view.run).await?.into());
            let (views, results) = (std::slice::from_ref(&view), std::slice::from_mut(&mut result));
            labels::add_retries(call.app, views, results).await?;
            labels::add_notes(call.app, call.caller, &mut results[0]).await?;
            labels::add(call.app, views, results, &input.include, WHOLE_PROMPT).await?;
            return Ok(Answer::Value(result));
        }
        let how =
            How { wait_ms: input.wait_ms, result_bytes: input.result_bytes.or(call.result_bytes), ..How::default() };
        let run = Started { view: Arc::new(view), live: None };
        Ok(Answer::Handle(Handle::run(call.caller.clone(), run, how)))
    }
}
