//! The operations inside this process: the same list that the server's surfaces are made from.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value, json};

use drawloom_contract::{
    caller::{Caller, Proof},
    failure::Failure,
    ids::RunId,
    record::Seq,
    runs::{Interest, Live},
};
use drawloom_server::{Answer, App, Call, Handle};
use drawloom_wire::{
    body,
    events::{Event, Mapper},
    runs::Mode,
};

use crate::{
    backend::{Backend, Events},
    exit::CommandError,
    operations,
};

/// Operations without a socket. Whoever calls is the user of this process, who may do everything.
pub(crate) struct Embedded {
    app: Arc<App>,
    caller: Caller,
}

impl Embedded {
    /// The operations of an instance in this process.
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self { app, caller: Caller::open(Proof::Open) }
    }

    async fn invoke(&self, name: &str, mut input: Value, interest: Interest) -> Result<Answer<Value>, CommandError> {
        let known = operations::find(name)?;
        known.validator.check(&mut input).map_err(|problems| CommandError::from(body::refuse(&problems)))?;
        let call = Call { app: &self.app, caller: &self.caller, interest, result_bytes: None };
        Ok(known.operation.invoke(call, input).await?)
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn call(&self, operation: &str, input: Value) -> Result<Value, CommandError> {
        let app = self.app.clone();
        match self.invoke(operation, input, Interest::Outcome).await? {
            Answer::Value(value) => Ok(value),
            Answer::Handle(Handle::Run(run)) if run.how.mode == Some(Mode::Detach) => encode(&run.spawned(&app)),
            Answer::Handle(Handle::Run(run)) => encode(&run.result(app).await),
            Answer::Handle(Handle::Batch(batch)) if batch.how.mode == Some(Mode::Detach) => {
                encode(&batch.spawned(&app))
            }
            Answer::Handle(Handle::Batch(batch)) => encode(&batch.result(app).await),
        }
    }

    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError> {
        let input = json!({ "run_id": run, "from_seq": after });
        let Answer::Handle(Handle::Run(handle)) = self.invoke("follow_run", input, Interest::Events).await? else {
            return Err(CommandError::failed("bug", "follow_run answers a run's handle"));
        };
        let mapper = Mapper::new(&handle.view);
        let live = handle.live.unwrap_or_else(|| stream::empty().boxed());
        Ok(stream::unfold((mapper, live, after), next_event).boxed())
    }

    fn address(&self) -> Option<Arc<str>> {
        None
    }
}

/// The next event above `after`. The mapper sees every item, because events repeat a little of what came before.
async fn next_event(
    (mut mapper, mut live, after): (Mapper, Live, Seq),
) -> Option<(Result<Event, CommandError>, (Mapper, Live, Seq))> {
    loop {
        let event = match live.next().await? {
            Ok(item) => mapper.map(&item).map(Ok),
            Err(failure) => Some(Err(CommandError::from(failure))),
        };
        match event {
            Some(Ok(event)) if event.id.is_some_and(|id| id <= after) => {}
            Some(event) => return Some((event, (mapper, live, after))),
            None => {}
        }
    }
}

fn encode(answer: &impl Serialize) -> Result<Value, CommandError> {
    serde_json::to_value(answer).map_err(|error| {
        let failure = Failure::new(drawloom_contract::failure::FailureKind::Bug, "bug", error.to_string());
        CommandError::from(failure)
    })
}
