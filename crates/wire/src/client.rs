//! The typed client: what commands and other programs talk to a server with.

mod address;
mod error;
mod stream;

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    ids::RunId,
    record::Seq,
    time::{Clock, Instant},
};
use drawloom_net::{self as net, Configured, Method, Response};
use futures::stream::BoxStream;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use error::ClientError;

use crate::{
    channels::{After, FollowChannel},
    events::Event,
    health::Health,
    memory::WatchMemory,
    request::{Changes, Description, Detach, Request, Route},
    upstream::{Address, Fixed, INSTANCE, Upstream},
};

/// The most bytes of an answer that is read whole.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// Events of a run, until its terminal one.
pub type Events = BoxStream<'static, Result<Event, ClientError>>;

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

    /// The answer to a request. What takes long is waited for.
    pub async fn call<R: Request>(&self, request: &R) -> Result<R::Output, ClientError> {
        self.typed::<R, _>(request).await
    }

    /// The answer to a request that waits for nothing: it comes as soon as what is started is accepted.
    pub async fn start<R: Detach>(&self, mut request: R) -> Result<R::Accepted, ClientError> {
        request.detach();
        self.typed::<R, _>(&request).await
    }

    /// Events of a run above `after`, until the terminal one. A connection that breaks is taken up again.
    pub fn follow_run(&self, run_id: RunId, after: Seq) -> Events {
        stream::events(self.clone(), stream::Source::Run(run_id), after)
    }

    /// Events of a run so far.
    pub fn follow_past(&self, run_id: RunId) -> Events {
        stream::events(self.clone(), stream::Source::Past(run_id), 0)
    }

    /// Events of a run and all runs below it above `after`, until all have ended. A connection that breaks is taken up again.
    pub fn follow_tree(&self, run_id: RunId, after: u64) -> Events {
        stream::events(self.clone(), stream::Source::Tree(run_id), after)
    }

    /// Changes of memory as events: what is there, then every change, without an end. A connection that breaks is taken up
    /// again, and the server tells the gap.
    pub fn watch_memory(&self, request: &WatchMemory) -> Result<Events, ClientError> {
        self.stream(request, request.after)
    }

    /// Messages of a channel as events, without an end. A connection that breaks is taken up again after the last message.
    pub fn follow_channel(&self, request: &FollowChannel) -> Result<Events, ClientError> {
        self.stream(request, request.after.map(|After(after)| after))
    }

    /// Events of a request that streams without an end, above `after`.
    fn stream<R: Request>(&self, request: &R, after: Option<u64>) -> Result<Events, ClientError> {
        let Value::Object(mut input) = serde_json::to_value(request).expect("requests have only text keys") else {
            return Err(ClientError::not_an_object(R::NAME));
        };
        // Later connections begin elsewhere, so the header says where.
        input.remove("after");
        let (path, rest) = address::fill(&R::ROUTES[0], input)
            .map_err(|name| ClientError::MissingParameter { operation: R::NAME.into(), name })?;
        let path = format!("{path}{}", address::query(&rest));
        Ok(stream::events(self.clone(), stream::Source::Path(path), after.unwrap_or(0)))
    }

    /// The health of the server. One that cannot take runs answers an error.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let at = self.find(None).await?;
        let call = Call { method: Method::Get, path: "/healthz", accept: "application/json", json: None };
        read(self.send(&at, &call, Vec::new()).await?).await
    }

    /// An operation that is chosen at run time, JSON in and out. What streams is waited for.
    pub async fn call_json(&self, operation: &Description, input: Value) -> Result<Value, ClientError> {
        let Value::Object(input) = input else {
            return Err(ClientError::not_an_object(operation.name));
        };
        let route = choose(operation.routes, &input);
        let (path, rest) = address::fill(&route, input)
            .map_err(|name| ClientError::MissingParameter { operation: operation.name.into(), name })?;
        let has_key = rest.get("idempotency_key").is_some_and(Value::is_string);
        let repeatable = operation.changes != Changes::EveryTime || has_key;
        let (path, json) = match route.has_body() {
            false => (format!("{path}{}", address::query(&rest)), None),
            true => (path, Some(Value::Object(rest).to_string().into_bytes())),
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

    async fn typed<R: Request, T: DeserializeOwned>(&self, request: &R) -> Result<T, ClientError> {
        let input = serde_json::to_value(request).expect("requests have only text keys");
        let answer = self.call_json(&Description::of::<R>(), input).await?;
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
        let response = self.http.send(net::Request { method, url, bearer, headers, json }).await?;
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
fn choose(routes: &[Route], input: &serde_json::Map<String, Value>) -> Route {
    let fits = |route: &&Route| route.parameters().all(|name| input.contains_key(name));
    // A route with parameters that fit says more than one without.
    let best = routes.iter().filter(fits).max_by_key(|route| route.parameters().count());
    *best.or_else(|| routes.first()).expect("a test checks that every operation has a route")
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let bytes = response.bytes(MAX_ANSWER).await?;
    serde_json::from_slice(&bytes).map_err(ClientError::Answer)
}
