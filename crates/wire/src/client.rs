//! The typed client: what commands and other programs talk to a server with.

mod address;
mod error;
mod stream;

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    ids::{BatchId, RunId},
    record::Seq,
    time::{Clock, Instant},
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
    upstream::{Address, Fixed, INSTANCE, Upstream},
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

/// How long a server that was found may be away before a call of it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause before the second try to reach it; the first one is at once, and each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A client of one server. Cloning shares its connections.
#[derive(Clone)]
pub struct Client {
    http: Configured,
    upstream: Arc<dyn Upstream>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client of the server at `base` (such as `http://127.0.0.1:8787`). The clock times reconnects.
    pub fn new(base: &str, token: Option<&str>, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let upstream = Arc::new(Fixed::new(base.trim_end_matches('/'), token));
        Ok(Self { http: Configured::new()?, upstream, clock })
    }

    /// A client of the server on this machine that `upstream` finds. A call that another server, or none, got is made again
    /// where the server is then, if that is safe: it only reads, it has an idempotency key, or it never arrived.
    pub fn of(upstream: Arc<dyn Upstream>, clock: Arc<dyn Clock>) -> Self {
        Self { http: Configured::plain(), upstream, clock }
    }

    /// Where it goes, once it has found its server.
    pub fn base(&self) -> Option<Arc<str>> {
        self.upstream.known().map(|at| at.url)
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
        let at = self.find(None).await?;
        let call = Call { method: Method::Post, path: "/v1/runs", accept: "text/event-stream", json: Some(json) };
        let response = self.send(&at, &call, Vec::new()).await?;
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
        self.typed("get_batch", &GetBatch { batch_id, wait_ms, result_bytes: None }).await
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
        let at = self.find(None).await?;
        let call = Call { method: Method::Get, path: "/healthz", accept: "application/json", json: None };
        read(self.send(&at, &call, Vec::new()).await?).await
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
        let repeatable = route.repeatable || rest.get("idempotency_key").is_some_and(Value::is_string);
        let (path, json) = match route.method {
            Method::Get | Method::Head | Method::Delete => (format!("{path}{}", address::query(&rest)), None),
            Method::Post | Method::Put | Method::Patch => (path, Some(Value::Object(rest).to_string().into_bytes())),
        };
        let call = Call { method: route.method, path: &path, accept: "application/json", json };
        self.answered(&call, repeatable).await
    }

    /// Finds the server, which is waited for while it is away.
    pub async fn reach(&self) -> Result<(), ClientError> {
        self.reach_other(None).await.map(drop)
    }

    /// Where the server is, when `failed` did not work.
    async fn reach_other(&self, failed: Option<&Address>) -> Result<Address, ClientError> {
        let mut away = Away::since(self.clock.now());
        loop {
            match self.find(failed).await {
                Err(error) if error.is_away() => away.pause(&*self.clock, error).await?,
                found => return found,
            }
        }
    }

    async fn find(&self, failed: Option<&Address>) -> Result<Address, ClientError> {
        self.upstream.find(failed).await.map_err(ClientError::NoServer)
    }

    /// The answer to a call, asked for again while a server that was found is away.
    async fn answered(&self, call: &Call<'_>, repeatable: bool) -> Result<Value, ClientError> {
        // Counted from the first failure: a call may have waited for long before.
        let mut away: Option<Away> = None;
        let mut failed: Option<Address> = None;
        loop {
            let at = self.reach_other(failed.as_ref()).await?;
            let answer = async { read(self.send(&at, call, Vec::new()).await?).await };
            match answer.await {
                Err(error) if at.instance.is_some() && error.is_away() && (repeatable || !error.was_sent()) => {
                    let away = away.get_or_insert_with(|| Away::since(self.clock.now()));
                    away.pause(&*self.clock, error).await?;
                    failed = Some(at);
                }
                answer => return answer,
            }
        }
    }

    async fn typed<T: DeserializeOwned>(&self, operation: &str, input: &impl Serialize) -> Result<T, ClientError> {
        let input = serde_json::to_value(input).expect("requests have only text keys");
        let answer = self.call(operation, input).await?;
        serde_json::from_value(answer).map_err(ClientError::Answer)
    }

    async fn send(
        &self,
        at: &Address,
        call: &Call<'_>,
        mut headers: Vec<(&'static str, String)>,
    ) -> Result<Response, ClientError> {
        headers.push(("accept", call.accept.into()));
        headers.extend(at.instance.iter().map(|instance| (INSTANCE, (**instance).to_owned())));
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let bearer = at.token.as_deref().map(str::to_owned);
        let (method, url, json) = (call.method, format!("{}{}", at.url, call.path), call.json.clone());
        let response = self.http.send(Request { method, url, bearer, headers, json }).await?;
        match response.status() {
            200..=299 => Ok(response),
            _ => Err(error::refused(response).await),
        }
    }
}

/// A server that is away, and when to look for it again.
struct Away {
    until: Instant,
    pause: Duration,
}

impl Away {
    fn since(now: Instant) -> Self {
        Self { until: now.after(PATIENCE), pause: Duration::ZERO }
    }

    /// Waits for the time to look again; fails with `error` when the server was away for too long.
    async fn pause(&mut self, clock: &dyn Clock, error: ClientError) -> Result<(), ClientError> {
        tracing::debug!(%error, "the server is away");
        let now = clock.now();
        if now >= self.until {
            return Err(error);
        }
        clock.sleep_until(now.after(self.pause)).await;
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Ok(())
    }
}

/// One request, wherever the server is.
struct Call<'a> {
    method: Method,
    path: &'a str,
    accept: &'static str,
    json: Option<Vec<u8>>,
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
