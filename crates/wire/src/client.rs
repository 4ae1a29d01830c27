//! The typed client: what commands and other programs talk to a server with.

mod address;
mod error;
mod stream;

use std::sync::Arc;

use drawloom_contract::{
    ids::{BatchId, RunId},
    record::Seq,
    time::Clock,
};
use drawloom_net::{Configured, Method, Request, Response};
use futures::stream::BoxStream;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use error::ClientError;

use crate::{
    agents::AgentList,
    events::Event,
    house::{Health, Load, Replay, WhoAmI},
    operations::{ROUTES, Route},
    runs::{
        BatchResult, CancelBatch, CancelRun, Cancelled, CancelledBatch, GetBatch, GetRun, ListRuns, Mode, RunPage,
        RunResult, SpawnRun, SpawnRuns, Spawned, SpawnedBatch,
    },
};

/// The most bytes of an answer that is read whole.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// Events of a run, until its terminal one.
pub type Events = BoxStream<'static, Result<Event, ClientError>>;

/// A stream that began with a run, and the run's id.
pub struct Streamed {
    /// The run.
    pub run_id: RunId,
    /// Its events.
    pub events: Events,
}

/// A client of one server. Cloning shares its connections.
#[derive(Clone)]
pub struct Client {
    http: Configured,
    base: Arc<str>,
    token: Option<Arc<str>>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client of the server at `base` (such as `http://127.0.0.1:8787`). The clock times reconnects.
    pub fn new(base: &str, token: Option<&str>, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let http = Configured::new()?;
        Ok(Self { http, base: base.trim_end_matches('/').into(), token: token.map(Into::into), clock })
    }

    /// Where it goes.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Starts a run and waits for its result (or for `wait_ms`).
    pub async fn spawn_run(&self, mut run: SpawnRun) -> Result<RunResult, ClientError> {
        run.mode = Some(Mode::Join);
        self.typed("spawn_run", &run).await
    }

    /// Starts a run and returns at once.
    pub async fn spawn_run_detached(&self, mut run: SpawnRun) -> Result<Spawned, ClientError> {
        run.mode = Some(Mode::Detach);
        self.typed("spawn_run", &run).await
    }

    /// Starts a run and follows it. A connection that breaks is taken up again where it was.
    pub async fn spawn_run_stream(&self, mut run: SpawnRun) -> Result<Streamed, ClientError> {
        run.mode = None;
        let json = serde_json::to_vec(&run).expect("requests have only text keys");
        let url = format!("{}/v1/runs", self.base);
        let response = self.send(Method::Post, url, "text/event-stream", Vec::new(), Some(json)).await?;
        let run_id = response
            .header("drawloom-run-id")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| ClientError::not_ours("the answer has no Drawloom-Run-Id"))?;
        Ok(Streamed { run_id, events: stream::events(self.clone(), run_id, 0, Some(response)) })
    }

    /// Starts a batch and waits for all results (or for `wait_ms`).
    pub async fn spawn_runs(&self, mut runs: SpawnRuns) -> Result<BatchResult, ClientError> {
        runs.mode = Some(Mode::Join);
        self.typed("spawn_runs", &runs).await
    }

    /// Starts a batch and returns at once.
    pub async fn spawn_runs_detached(&self, mut runs: SpawnRuns) -> Result<SpawnedBatch, ClientError> {
        runs.mode = Some(Mode::Detach);
        self.typed("spawn_runs", &runs).await
    }

    /// Looks at a run, or waits for it.
    pub async fn get_run(&self, ask: GetRun) -> Result<RunResult, ClientError> {
        self.typed("get_run", &ask).await
    }

    /// Lists runs, newest first.
    pub async fn list_runs(&self, ask: ListRuns) -> Result<RunPage, ClientError> {
        self.typed("list_runs", &ask).await
    }

    /// Events of a run above `after`, until the terminal one. A connection that breaks is taken up again.
    pub fn follow_run(&self, run_id: RunId, after: Seq) -> Events {
        stream::events(self.clone(), run_id, after, None)
    }

    /// Stops a run and all below it.
    pub async fn cancel_run(&self, ask: CancelRun) -> Result<Cancelled, ClientError> {
        self.typed("cancel_run", &ask).await
    }

    /// Looks at a batch, or waits for it.
    pub async fn get_batch(&self, batch_id: BatchId, wait_ms: Option<u64>) -> Result<BatchResult, ClientError> {
        self.typed("get_batch", &GetBatch { batch_id, wait_ms }).await
    }

    /// Stops every run of a batch.
    pub async fn cancel_batch(&self, ask: CancelBatch) -> Result<CancelledBatch, ClientError> {
        self.typed("cancel_batch", &ask).await
    }

    /// The agents that can be run.
    pub async fn list_agents(&self) -> Result<AgentList, ClientError> {
        self.typed("list_agents", &Value::Object(serde_json::Map::new())).await
    }

    /// Folds a run's journal again.
    pub async fn replay_run(&self, run_id: RunId) -> Result<Replay, ClientError> {
        self.typed("replay_run", &crate::runs::ReplayRun { run_id }).await
    }

    /// Who the server takes the caller for.
    pub async fn whoami(&self) -> Result<WhoAmI, ClientError> {
        self.typed("whoami", &crate::house::AskWhoAmI {}).await
    }

    /// How full the server is.
    pub async fn load(&self) -> Result<Load, ClientError> {
        self.typed("get_load", &crate::house::GetLoad {}).await
    }

    /// How the server feels. One that cannot take runs answers an error.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let url = format!("{}/healthz", self.base);
        let response = self.send(Method::Get, url, "application/json", Vec::new(), None).await?;
        read(response).await
    }

    /// Any operation by name, JSON in and out. What streams is waited for.
    pub async fn call(&self, operation: &str, input: Value) -> Result<Value, ClientError> {
        let known = ROUTES.iter().filter(|route| route.name == operation);
        if known.clone().next().is_none() {
            return Err(ClientError::UnknownOperation { name: operation.into() });
        }
        let Value::Object(input) = input else {
            return Err(ClientError::not_an_object(operation));
        };
        let route = choose(known, &input);
        let (path, rest) = address::fill(route.path, input)
            .map_err(|name| ClientError::MissingParameter { operation: operation.into(), name })?;
        let (url, json) = match route.method {
            Method::Get | Method::Delete => (format!("{}{path}{}", self.base, address::query(&rest)), None),
            Method::Post => (format!("{}{path}", self.base), Some(Value::Object(rest).to_string().into_bytes())),
        };
        let response = self.send(route.method, url, "application/json", Vec::new(), json).await?;
        read(response).await
    }

    async fn typed<T: DeserializeOwned>(&self, operation: &str, input: &impl Serialize) -> Result<T, ClientError> {
        let input = serde_json::to_value(input).expect("requests have only text keys");
        let answer = self.call(operation, input).await?;
        serde_json::from_value(answer).map_err(ClientError::Answer)
    }

    async fn send(
        &self,
        method: Method,
        url: String,
        accept: &str,
        mut headers: Vec<(&'static str, String)>,
        json: Option<Vec<u8>>,
    ) -> Result<Response, ClientError> {
        headers.push(("accept", accept.into()));
        let bearer = self.token.as_deref().map(str::to_owned);
        let response = self.http.send(Request { method, url, bearer, headers, json }).await?;
        match response.status() {
            200..=299 => Ok(response),
            _ => Err(error::refused(response).await),
        }
    }
}

/// The route whose parameters are all there; else the first, whose missing parameter is then named.
fn choose<'a>(known: impl Iterator<Item = &'a Route> + Clone, input: &serde_json::Map<String, Value>) -> &'a Route {
    let fits = |route: &&Route| crate::operations::parameters(route.path).all(|name| input.contains_key(name));
    // A route with parameters that fit says more than one without.
    let best = known.clone().filter(fits).max_by_key(|route| crate::operations::parameters(route.path).count());
    best.or_else(|| known.clone().next()).expect("the caller found a route of this name")
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let bytes = response.bytes(MAX_ANSWER).await?;
    serde_json::from_slice(&bytes).map_err(ClientError::Answer)
}
