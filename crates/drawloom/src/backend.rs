//! What commands talk to: a server, or the same operations inside this process. Commands are written once, over this.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, stream::BoxStream};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use drawloom_contract::{failure::Explain as _, ids::RunId, record::Seq};
use drawloom_wire::{
    agents::{AgentList, ListAgents},
    client::{Client, ClientError},
    events::Event,
    house::Replay,
    models::{ListModels, ModelList},
    retention::{PruneReport, PruneRuns},
    runs::{
        Amount, BatchResult, CancelBatch, CancelRun, Cancelled, CancelledBatch, GetBatch, GetRun, ListRuns, Mode,
        ReplayRun, RunPage, RunResult, SpawnRun, SpawnRuns, Spawned, SpawnedBatch,
    },
};

use crate::exit::{CommandError, exit_of};

/// Events of a run, until its terminal one.
pub(crate) type Events = BoxStream<'static, Result<Event, CommandError>>;

/// Operations by name, JSON in and out, and the events of a run.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Calls an operation. What takes long is waited for, unless the input says otherwise.
    async fn call(&self, operation: &str, input: Value) -> Result<Value, CommandError>;

    /// Events of a run above `after`, until the terminal one.
    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError>;

    /// The server's address, when this is a server.
    fn address(&self) -> Option<Arc<str>>;
}

impl dyn Backend {
    async fn typed<T: DeserializeOwned>(&self, operation: &str, input: &impl Serialize) -> Result<T, CommandError> {
        let input = serde_json::to_value(input).expect("requests have only text keys");
        let answer = self.call(operation, input).await?;
        serde_json::from_value(answer).map_err(|error| {
            CommandError::failed("unknown_answer", format!("the answer of {operation} has an unknown form: {error}"))
                .with_hint("use the same version of drawloom on both sides")
        })
    }

    /// Starts a run and returns once it is accepted.
    pub(crate) async fn spawn_run(&self, mut run: SpawnRun) -> Result<Spawned, CommandError> {
        run.mode = Some(Mode::Detach);
        self.typed("spawn_run", &run).await
    }

    /// Starts a batch and returns once it is accepted.
    pub(crate) async fn spawn_runs(&self, mut runs: SpawnRuns) -> Result<SpawnedBatch, CommandError> {
        runs.mode = Some(Mode::Detach);
        self.typed("spawn_runs", &runs).await
    }

    /// Looks at a run, or waits for it.
    pub(crate) async fn get_run(&self, ask: GetRun) -> Result<RunResult, CommandError> {
        self.typed("get_run", &ask).await
    }

    /// Looks at a batch.
    pub(crate) async fn get_batch(&self, ask: GetBatch) -> Result<BatchResult, CommandError> {
        self.typed("get_batch", &ask).await
    }

    /// Lists runs, newest first.
    pub(crate) async fn list_runs(&self, ask: ListRuns) -> Result<RunPage, CommandError> {
        self.typed("list_runs", &ask).await
    }

    /// Stops a run and all below it.
    pub(crate) async fn cancel_run(&self, ask: CancelRun) -> Result<Cancelled, CommandError> {
        self.typed("cancel_run", &ask).await
    }

    /// The agents that can be run.
    pub(crate) async fn list_agents(&self) -> Result<AgentList, CommandError> {
        self.typed("list_agents", &ListAgents::default()).await
    }

    /// Stops every run of a batch.
    pub(crate) async fn cancel_batch(&self, ask: CancelBatch) -> Result<CancelledBatch, CommandError> {
        self.typed("cancel_batch", &ask).await
    }

    /// The models that agents can ask.
    pub(crate) async fn list_models(&self, ask: ListModels) -> Result<ModelList, CommandError> {
        self.typed("list_models", &ask).await
    }

    /// Removes what ended long ago.
    pub(crate) async fn prune_runs(&self, ask: PruneRuns) -> Result<PruneReport, CommandError> {
        self.typed("prune_runs", &ask).await
    }

    /// The currency of costs; none when nobody knows it. It is asked for only when there is a cost to show.
    pub(crate) async fn currency(&self, costs: impl IntoIterator<Item = Option<Amount>>) -> String {
        if costs.into_iter().flatten().next().is_none() {
            return String::new();
        }
        self.list_models(ListModels::default()).await.map(|list| list.currency).unwrap_or_default()
    }

    /// Folds a run's journal again.
    pub(crate) async fn replay_run(&self, run_id: RunId) -> Result<Replay, CommandError> {
        self.typed("replay_run", &ReplayRun { run_id }).await
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
    async fn call(&self, operation: &str, input: Value) -> Result<Value, CommandError> {
        Ok(self.client.call(operation, input).await?)
    }

    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError> {
        Ok(self.client.follow_run(run, after).map(|event| event.map_err(CommandError::from)).boxed())
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
            hint: error.hint(),
        }
    }
}
