//! What commands talk to: a server, or the same operations inside this process. Commands are written once, over this.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, stream::BoxStream};
use serde::de::DeserializeOwned;
use serde_json::Value;

use drawloom_contract::{failure::Explain as _, ids::RunId, record::Seq};
use drawloom_wire::{
    channels::FollowChannel,
    client::{Client, ClientError},
    events::Event,
    memory::WatchMemory,
    models::ListModels,
    request::{Description, Detach, Request},
    runs::Amount,
};

use crate::{
    exit::{CommandError, exit_of},
    operations,
};

/// Events of a run, until its terminal one.
pub(crate) type Events = BoxStream<'static, Result<Event, CommandError>>;

/// Operations by name, JSON in and out, and the events of a run.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Calls an operation. What takes long is waited for, unless the input says otherwise.
    async fn call_json(&self, operation: &Description, input: Value) -> Result<Value, CommandError>;

    /// Events of a run above `after`, until the terminal one.
    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError>;

    /// Events of a run so far.
    async fn follow_past(&self, run: RunId) -> Result<Events, CommandError>;

    /// Events of a run and all runs below it at positions above `after`. Each has `run_id` and `agent`. The last one is `tree_done`,
    /// unless no process executes the runs.
    async fn follow_tree(&self, run: RunId, after: u64) -> Result<Events, CommandError>;

    /// Changes of memory as events, without an end.
    async fn watch(&self, request: &WatchMemory) -> Result<Events, CommandError>;

    /// Messages of a channel as events, without an end.
    async fn follow_channel(&self, request: &FollowChannel) -> Result<Events, CommandError>;

    /// The server's address, when this is a server.
    fn address(&self) -> Option<Arc<str>>;
}

impl dyn Backend {
    /// The answer to a request. What takes long is waited for.
    pub(crate) async fn call<R: Request>(&self, request: &R) -> Result<R::Output, CommandError> {
        self.typed::<R, _>(request).await
    }

    /// The answer to a request that starts something, once that is accepted.
    pub(crate) async fn start<R: Detach>(&self, mut request: R) -> Result<R::Accepted, CommandError> {
        request.detach();
        self.typed::<R, _>(&request).await
    }

    async fn typed<R: Request, T: DeserializeOwned>(&self, request: &R) -> Result<T, CommandError> {
        let input = serde_json::to_value(request).expect("requests have only text keys");
        let answer = self.call_json(&Description::of::<R>(), input).await?;
        serde_json::from_value(answer).map_err(|error| {
            CommandError::failed(
                "unknown_answer",
                format!("the response of {} has an unknown format: {error}", R::NAME),
            )
            .with_hint("use the same version of drawloom on both sides")
        })
    }

    /// The currency of costs; none when it is unknown. It is asked for only when there is a cost to show.
    pub(crate) async fn currency(&self, costs: impl IntoIterator<Item = Option<Amount>>) -> String {
        if costs.into_iter().flatten().next().is_none() {
            return String::new();
        }
        self.call(&ListModels::default()).await.map(|list| list.currency).unwrap_or_default()
    }
}

/// A server elsewhere, or on this data directory.
pub(crate) struct Remote {
    client: Client,
}

impl Remote {
    /// The server that a client reaches.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Backend for Remote {
    async fn call_json(&self, operation: &Description, input: Value) -> Result<Value, CommandError> {
        Ok(self.client.call_json(operation, input).await?)
    }

    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError> {
        Ok(self.client.follow_run(run, after).map(|event| event.map_err(CommandError::from)).boxed())
    }

    async fn follow_past(&self, run: RunId) -> Result<Events, CommandError> {
        Ok(self.client.follow_past(run).map(|event| event.map_err(CommandError::from)).boxed())
    }

    async fn follow_tree(&self, run: RunId, after: u64) -> Result<Events, CommandError> {
        Ok(self.client.follow_tree(run, after).map(|event| event.map_err(CommandError::from)).boxed())
    }

    async fn watch(&self, request: &WatchMemory) -> Result<Events, CommandError> {
        Ok(self.client.watch_memory(request)?.map(|event| event.map_err(CommandError::from)).boxed())
    }

    async fn follow_channel(&self, request: &FollowChannel) -> Result<Events, CommandError> {
        Ok(self.client.follow_channel(request)?.map(|event| event.map_err(CommandError::from)).boxed())
    }

    fn address(&self) -> Option<Arc<str>> {
        self.client.base()
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        Self {
            exit: exit_of(error.kind()),
            code: error.wire_code().into(),
            message: error.to_string(),
            details: Vec::new(),
            hint: error.hint().map(|hint| operations::in_terminal(&hint)),
        }
    }
}
