//! A model behind HTTP: what all APIs have in common.

use std::{
    borrow::Cow,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use drawloom_contract::{
    choice::{Effort, Sampling},
    ids::{RunId, RunKey, Tenant},
    message::Message,
    model::{Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    time::{Awake, Clock, Timestamp},
};
use drawloom_net::{Configured, Method, Request, Response};
use futures::future::{Either, select};
use serde_json::{Value, value::RawValue};

use crate::{
    Capabilities, Driver, Options, Secret,
    fault::{FailKind, Fault},
    host,
    intake::{Intake, Progress, Reader},
    known::Known,
    lookup::Answers,
    rates, trace,
};

/// Most bytes of an error's body that are read.
const MOST_ERROR: usize = 64 * 1024;

/// Most bytes of a list of models.
pub(crate) const MOST_LIST: usize = 4 * 1024 * 1024;

/// Most bytes of what a server says of one model. Ollama adds licence, template and the names of all tensors.
pub(crate) const MOST_DETAILS: usize = 1024 * 1024;

/// How long all requests for a list of models may take together. What did not come by then is unknown.
pub(crate) const LISTING_TIME: Duration = Duration::from_secs(30);

/// How long the end of a stream is waited for after the turn is over, so that the connection can be used again.
const GRACE: Duration = Duration::from_millis(500);

pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

const USER_AGENT: &str = concat!("drawloom/", env!("CARGO_PKG_VERSION"));

/// Where reading an answer ends.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) bytes: usize,
    pub(crate) due: Awake,
}

/// A turn in the format of an API.
pub(crate) struct EncodedRequest {
    pub(crate) body: Value,
    /// Headers that only this turn needs.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Parses the answer.
    pub(crate) reader: Box<dyn Reader>,
}

/// How the key is sent.
pub(crate) enum Credential {
    /// In `Authorization: Bearer`.
    Bearer,
    /// In a header of its own.
    Header(&'static str),
}

/// One model API. `DRIVERS` lists them all.
pub(crate) trait Api: Send + Sync {
    /// Which driver it is.
    fn driver(&self) -> Driver;
    /// The driver's name in the config.
    fn name(&self) -> &'static str;
    /// The base URL of providers that name none.
    fn default_url(&self) -> &'static str;
    /// Where the paths of the API begin, from an address without a slash at its end.
    fn root(&self, address: &str) -> String;
    /// How the key is sent.
    fn credential(&self) -> Credential {
        Credential::Bearer
    }
    /// Headers of every call.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// Where a turn is asked for, under the root.
    fn turn_path(&self) -> &'static str {
        "/chat/completions"
    }
    /// What is known of a model that is asked with this API.
    fn known(&self, model: &str, options: &Options) -> Known {
        Known::of(self.driver(), model, &options.capabilities)
    }
    /// Encodes a turn.
    fn encode(&self, request: &TurnRequest, known: &Known, options: &Options) -> EncodedRequest;
    /// Where the models are listed, under the root.
    fn list_path(&self) -> &'static str {
        "/models"
    }
}

/// A provider that is reached over HTTP.
pub(crate) struct Remote {
    provider: String,
    api: &'static dyn Api,
    root: String,
    /// The query of its address, which every call has.
    query: Option<String>,
    key: Option<Secret>,
    client: Configured,
    clock: Arc<dyn Clock>,
    options: Options,
    /// What the server said of its models.
    pub(crate) answers: Answers,
}

impl Remote {
    pub(crate) fn new(
        provider: &str,
        api: &'static dyn Api,
        address: &str,
        key: Option<Secret>,
        client: Configured,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (address, query) =
            address.split_once('?').map_or((address, None), |(address, query)| (address, Some(query)));
        let root = api.root(address.trim_end_matches('/'));
        let query = query.map(str::to_owned);
        let (provider, options, answers) = (provider.into(), options.clone(), Answers::default());
        Self { provider, api, root, query, key, client, clock, options, answers }
    }

    fn known(&self, model: &str) -> Known {
        let known = self.api.known(model, &self.options);
        match self.answers.find(model) {
            Some(found) => known.looked_up(&found, &self.options.capabilities),
            None => known,
        }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Whether it is a server that others made, which speaks an API of OpenAI.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let host = host(&self.root).unwrap_or_default();
        self.api.driver() == Driver::Openai
            && !host.eq_ignore_ascii_case("api.openai.com")
            && !host.ends_with(".api.openai.com")
    }

    /// Whether the server may know more of its models than the config says.
    pub(crate) fn may_say_more(&self) -> bool {
        let Capabilities { max_context_tokens, supports_tools, .. } = self.options.capabilities;
        self.is_elsewhere() && (max_context_tokens.is_none() || supports_tools.is_none())
    }

    /// Where the server's own addresses begin: before the `/v1` of OpenAI's.
    pub(crate) fn server_url(&self) -> &str {
        self.root.strip_suffix("/v1").unwrap_or(&self.root)
    }

    /// Where the models are listed. Azure lists them beside its deployments.
    pub(crate) fn list_url(&self) -> String {
        match self.root.split_once("/deployments/") {
            Some((beside, _)) => self.with_query(format!("{beside}{}", self.api.list_path())),
            None => self.url(self.api.list_path()),
        }
    }

    fn url(&self, path: &str) -> String {
        self.with_query(format!("{}{path}", self.root))
    }

    fn with_query(&self, url: String) -> String {
        match &self.query {
            Some(query) => format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' }),
            None => url,
        }
    }

    /// Sends a request and waits for the head of its answer.
    async fn send(
        &self,
        method: Method,
        url: String,
        headers: Vec<(&'static str, String)>,
        body: Option<&Value>,
    ) -> Result<Response, Fault> {
        let fixed = self.api.headers().iter().map(|(name, value)| (*name, (*value).to_owned()));
        let all = fixed.chain([("user-agent", USER_AGENT.to_owned())]).chain(headers);
        let mut headers: Vec<(Cow<'static, str>, String)> = all.map(|(name, value)| (name.into(), value)).collect();
        let mut bearer = None;
        if let Some(key) = &self.key {
            let header = match (&self.options.key_header, self.api.credential()) {
                (Some(name), _) => Some(Cow::Owned(name.clone())),
                (None, Credential::Header(name)) => Some(name.into()),
                (None, Credential::Bearer) => None,
            };
            match header {
                Some(name) => headers.push((name, key.reveal().to_owned())),
                None => bearer = Some(key.reveal().to_owned()),
            }
        }
        let request = Request { method, url, bearer, headers, json: body.map(|b| b.to_string().into_bytes()) };
        let timeout = self.options.header_timeout_ms.map_or(HEADER_TIMEOUT, Duration::from_millis);
        match self.within(timeout, self.client.send(request)).await {
            Some(Ok(response)) => Ok(response),
            Some(Err(error @ drawloom_net::Error::BadAddress { .. })) => {
                Err(Fault::new(FailKind::BadRequest, explain(&error)))
            }
            Some(Err(error)) => Err(Fault::new(FailKind::Unavailable, explain(&error))),
            None => Err(Fault::new(FailKind::Unavailable, format!("no response within {} ms", timeout.as_millis()))),
        }
    }

    async fn ask(&self, request: &TurnRequest, deltas: &dyn Deltas) -> Result<Turn, Fault> {
        let EncodedRequest { body, headers, reader } =
            self.api.encode(request, &self.known(&request.model), &self.options);
        let mut response = self.send(Method::Post, self.url(self.api.turn_path()), headers, Some(&body)).await?;
        drop(body);
        tracing::debug!(status = response.status(), "model answered");
        self.check(&mut response).await?;
        let closed_until = self.closed_until(&response);
        let mut idle = IdleTimeout::new(&*self.clock, self.idle());
        let mut intake = Intake::new(reader);
        loop {
            let Some(chunk) = idle.chunk(&mut response).await? else { break };
            if intake.feed(&chunk, deltas)? == Progress::Over {
                // What still comes is the end of the body; without it the connection could not be used again.
                let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                self.within(GRACE, rest).await;
                break;
            }
        }
        Ok(Turn { closed_until, ..intake.finish(deltas)? })
    }

    /// The JSON that the server answers.
    pub(crate) async fn fetch_json(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        bound: Bound,
    ) -> Result<Box<RawValue>, Fault> {
        let fetch = async {
            let mut response = self.send(method, url.to_owned(), Vec::new(), body).await?;
            self.check(&mut response).await?;
            match self.within(self.idle(), response.bytes(bound.bytes)).await {
                Some(Ok(body)) => Ok(body),
                Some(Err(error)) => Err(Fault::new(FailKind::Unavailable, explain(&error))),
                None => Err(Fault::new(FailKind::Unavailable, "timed out reading the list of models")),
            }
        };
        let Some(body) = self.until(bound.due, fetch).await else {
            let message = format!("the list of models did not come within {} ms", LISTING_TIME.as_millis());
            return Err(Fault::new(FailKind::Unavailable, message));
        };
        serde_json::from_slice(&body?)
            .map_err(|error| Fault::new(FailKind::Unavailable, format!("invalid JSON in the list of models: {error}")))
    }

    /// Fails unless the status is a success.
    async fn check(&self, response: &mut Response) -> Result<(), Fault> {
        let status = response.status();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let retry_after = rates::retry_after(&|name| response.header(name).map(str::to_owned), self.clock.wall());
        let mut idle = IdleTimeout::new(&*self.clock, self.idle());
        let mut body = Vec::new();
        while body.len() < MOST_ERROR {
            // The status decides; a body that breaks off is used as far as it came.
            let Ok(Some(chunk)) = idle.chunk(response).await else { break };
            body.extend_from_slice(&chunk[..chunk.len().min(MOST_ERROR - body.len())]);
        }
        Err(Fault::of_answer(status, &body, retry_after))
    }

    fn closed_until(&self, response: &Response) -> Option<Timestamp> {
        rates::closed_until(&|name| response.header(name).map(str::to_owned), self.clock.wall())
    }

    fn idle(&self) -> Duration {
        self.options.idle_timeout_ms.map_or(IDLE_TIMEOUT, Duration::from_millis)
    }

    /// What comes of `work` within `limit`.
    pub(crate) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.until(self.clock.awake().after(limit), work).await
    }

    /// What comes of `work` until `due`.
    async fn until<T>(&self, due: Awake, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(work), self.clock.sleep_awake_until(due)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}

#[async_trait]
impl Model for Remote {
    fn card(&self, model: &str) -> ModelCard {
        self.known(model).card(self.api.driver(), model)
    }

    async fn look_up(&self, model: &str) {
        self.look_up_model(model).await;
    }

    /// Encodes a request and looks what is missing in it, so that no rule is written twice.
    fn ignored(&self, model: &str, sampling: &Sampling, effort: Option<Effort>) -> Vec<&'static str> {
        let request = TurnRequest {
            run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([0; 16]) },
            root: RunId::from_bytes([0; 16]),
            agent: "probe".parse().expect("a plain name"),
            model: model.into(),
            turn: 1,
            attempt: 1,
            system: "".into(),
            messages: vec![Arc::new(Message::user("?"))],
            tools: Arc::new([]),
            max_tokens: u32::MAX,
            effort,
            sampling: Arc::new(sampling.clone()),
        };
        let body = self.api.encode(&request, &self.known(model), &self.options).body;
        let wishes: [(&'static str, bool, &[&str]); 7] = [
            ("temperature", sampling.temperature.is_some(), &["temperature"]),
            ("top_p", sampling.top_p.is_some(), &["top_p"]),
            ("top_k", sampling.top_k.is_some(), &["top_k"]),
            ("frequency_penalty", sampling.frequency_penalty.is_some(), &["frequency_penalty"]),
            ("presence_penalty", sampling.presence_penalty.is_some(), &["presence_penalty"]),
            ("seed", sampling.seed.is_some(), &["seed"]),
            ("stop", sampling.stop.is_some(), &["stop", "stop_sequences"]),
        ];
        let is_missing = |keys: &[&str]| keys.iter().all(|key| body.get(key).is_none());
        wishes.into_iter().filter(|(_, asked, keys)| *asked && is_missing(keys)).map(|(name, ..)| name).collect()
    }

    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError> {
        if !request.tools.is_empty() && self.known(&request.model).tools == Some(false) {
            let message = format!("{}/{} at {} takes no tools", self.provider, request.model, self.root);
            return Err(TurnError::NoTools { message });
        }
        trace::in_span(&self.provider, &request, async {
            self.ask(&request, deltas)
                .await
                .map_err(|fault| fault.into_error(&format!("{}/{}", self.provider, request.model), self.key.as_ref()))
        })
        .await
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        let listed = self.survey(None).await.map(|(_, models)| models);
        listed.map_err(|fault| fault.into_error(&self.provider, self.key.as_ref()))
    }
}

/// Reads pieces of a body and fails when none comes in time. One timer serves many pieces.
struct IdleTimeout<'a> {
    clock: &'a dyn Clock,
    idle: Duration,
    sleep: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl<'a> IdleTimeout<'a> {
    fn new(clock: &'a dyn Clock, idle: Duration) -> Self {
        Self { clock, idle, sleep: clock.sleep_awake_until(clock.awake().after(idle)) }
    }

    async fn chunk(&mut self, response: &mut Response) -> Result<Option<Bytes>, Fault> {
        let due = self.clock.awake().after(self.idle);
        let mut chunk = pin!(response.chunk());
        loop {
            match select(chunk.as_mut(), self.sleep.as_mut()).await {
                Either::Left((chunk, _)) => return chunk.map_err(|error| Fault::cut(explain(&error))),
                Either::Right(_) if self.clock.awake() >= due => {
                    return Err(Fault::cut(format!("no data for {} ms", self.idle.as_millis())));
                }
                // It was set for an earlier piece.
                Either::Right(_) => self.sleep = self.clock.sleep_awake_until(due),
            }
        }
    }
}

/// An error and its deepest cause.
fn explain(error: &dyn std::error::Error) -> String {
    let mut deepest = error.source();
    while let Some(next) = deepest.and_then(std::error::Error::source) {
        deepest = Some(next);
    }
    match deepest {
        None => error.to_string(),
        Some(cause) => format!("{error}: {cause}"),
    }
}
