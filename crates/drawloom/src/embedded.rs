//! The operations inside this process: the same list that the server's surfaces are made from.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use serde_json::Value;

use drawloom_contract::{
    caller::{Caller, Proof},
    ids::RunId,
    record::Seq,
    runs::{Interest, Live},
};
use drawloom_server::{Answer, App, Dispatch, Refused, Served};
use drawloom_wire::{
    channels::FollowChannel,
    events::{Event, Mapper},
    memory::WatchMemory,
    request::{Description, Request as _},
    runs::FollowRun,
};

use crate::{
    backend::{Backend, Events},
    exit::CommandError,
    operations,
};

/// Operations without a socket. The caller is the user of this process, who may do everything.
pub(crate) struct Embedded {
    app: Arc<App>,
    caller: Caller,
}

impl Embedded {
    /// The operations of an instance in this process.
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self { app, caller: Caller::open(Proof::Open) }
    }

    fn find(&self, name: &str) -> Result<&Arc<Served>, CommandError> {
        let operations = self.app.operations();
        operations.find(name).ok_or_else(|| operations::unknown(name, operations))
    }

    fn request<'a>(&'a self, request_id: &'a str, input: Value, interest: Interest) -> Dispatch<'a> {
        Dispatch { app: &self.app, caller: &self.caller, request_id, input, interest, result_bytes: None }
    }
}

impl Embedded {
    /// The events of one run.
    async fn events(&self, ask: FollowRun) -> Result<Events, CommandError> {
        let id = self.app.request_id();
        let after = ask.from_seq.unwrap_or(0);
        let input = serde_json::to_value(ask).expect("requests have only text keys");
        let request = self.request(&id, input, Interest::Events);
        let answer = self.find(FollowRun::NAME)?.dispatch(request).await?;
        let Answer::Handle(handle) = answer else {
            return Err(CommandError::failed("bug", "follow_run answers a handle"));
        };
        let run = handle.into_run().ok_or_else(|| CommandError::failed("bug", "follow_run answers a run's handle"))?;
        let mapper = Mapper::new(&run.view);
        let live = run.live.unwrap_or_else(|| stream::empty().boxed());
        Ok(stream::unfold((mapper, live, after), next_event).boxed())
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn call_json(&self, operation: &Description, input: Value) -> Result<Value, CommandError> {
        let id = self.app.request_id();
        let request = self.request(&id, input, Interest::Outcome);
        Ok(self.find(operation.name)?.complete(request).await?)
    }

    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError> {
        self.events(FollowRun { run_id: run, from_seq: Some(after), tree: false, past: false }).await
    }

    async fn follow_past(&self, run: RunId) -> Result<Events, CommandError> {
        self.events(FollowRun { run_id: run, from_seq: None, tree: false, past: true }).await
    }

    async fn follow_tree(&self, run: RunId, after: u64) -> Result<Events, CommandError> {
        let id = self.app.request_id();
        let ask = FollowRun { run_id: run, from_seq: Some(after), tree: true, past: false };
        let input = serde_json::to_value(ask).expect("requests have only text keys");
        match self.find(FollowRun::NAME)?.dispatch(self.request(&id, input, Interest::Events)).await? {
            Answer::Events(events) => Ok(events.map(Ok).boxed()),
            Answer::Value(_) | Answer::Handle(_) => Err(CommandError::failed("bug", "follow_run answers events")),
        }
    }

    async fn watch(&self, request: &WatchMemory) -> Result<Events, CommandError> {
        let id = self.app.request_id();
        let input = serde_json::to_value(request).expect("requests have only text keys");
        let request = self.request(&id, input, Interest::Events);
        match self.find(WatchMemory::NAME)?.dispatch(request).await? {
            Answer::Events(events) => Ok(events.map(Ok).boxed()),
            Answer::Value(_) | Answer::Handle(_) => Err(CommandError::failed("bug", "watch_memory answers events")),
        }
    }

    async fn follow_channel(&self, request: &FollowChannel) -> Result<Events, CommandError> {
        let id = self.app.request_id();
        let input = serde_json::to_value(request).expect("requests have only text keys");
        let request = self.request(&id, input, Interest::Events);
        match self.find(FollowChannel::NAME)?.dispatch(request).await? {
            Answer::Events(events) => Ok(events.map(Ok).boxed()),
            Answer::Value(_) | Answer::Handle(_) => Err(CommandError::failed("bug", "follow_channel answers events")),
        }
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

impl From<Refused> for CommandError {
    fn from(refused: Refused) -> Self {
        Self::from(*refused.failure)
    }
}
