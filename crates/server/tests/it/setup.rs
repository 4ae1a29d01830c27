//! A server on loopback and small ways to talk to it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Scope,
    definition::{DefinitionKind, Definitions},
    failure::{Failure, FailureKind},
    ids::{AgentName, Digest, RunKey, Tenant},
    journal::StoreError,
    redact::Redactor,
    retention::{Prune, Pruned, Retention},
    time::{Clock, Entropy, NoEntropy, Timestamp},
    values::{Kept, ValueKey},
};
use drawloom_goal::Questions;
use drawloom_net::{Configured, Method, Request, Response};
use drawloom_server::{
    AnyOperation, App, AppError, Goals, Limits, Models, Monitor, Parts,
    auth::{Auth, PrincipalToken},
    config::PrincipalConfig,
    serve,
};
use drawloom_substrate::{
    OperatorConfig,
    channels::{Backlog, ChannelParts, Channels, LogState, LogsAsked},
    definitions::{
        DefinitionsConfig, Layers, Principals, RuntimeDefinitions, RuntimeParts, SourceCheck, SourceProblem,
    },
    evaluations::{EvaluationParts, Evaluations, Lineage},
    memory::{Memory, MemoryConfig, MemoryParts, Search, Term, Terms},
};
use drawloom_wire::{
    client::Client,
    models::{ListedModel, ModelList},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};

use crate::{fake::Fake, no_goals::NoGoals};

/// A clock that runs `speed` times as fast as the machine's.
pub(crate) struct TestClock {
    began: Instant,
    speed: u32,
}

#[async_trait]
impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).after(self.began.elapsed() * self.speed)
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        drawloom_contract::time::Instant::from_origin(self.began.elapsed() * self.speed)
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        tokio::time::sleep(time.since(self.now()) / self.speed).await;
    }
}

struct FakeBacklog(Arc<drawloom_testkit::Memory>);

#[async_trait]
impl Backlog for FakeBacklog {
    async fn list_logs(&self, asked: &LogsAsked) -> Result<Vec<LogState>, StoreError> {
        let logs = self.0.logs().into_iter().filter(|(log, ..)| {
            let place = (log.tenant.clone(), log.name.clone());
            log.space == asked.space
                && asked.after.as_ref().is_none_or(|after| place > *after)
                && asked
                    .within
                    .as_ref()
                    .is_none_or(|(tenant, prefix)| log.tenant == *tenant && log.name.starts_with(prefix))
        });
        Ok(logs.take(asked.limit as usize).map(|(log, head, kept)| LogState { log, head, kept }).collect())
    }
}

/// Zeros, until they run out.
#[derive(Default)]
pub(crate) struct Zeros {
    pub(crate) ran_out: AtomicBool,
}

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        if self.ran_out.load(Ordering::SeqCst) {
            return Err(NoEntropy { reason: "none is left".into() });
        }
        bytes.fill(0);
        Ok(())
    }
}

struct Well {
    store: bool,
    stopping: bool,
}

#[async_trait]
impl Monitor for Well {
    async fn check(&self) -> Result<(), Failure> {
        if self.store { Ok(()) } else { Err(Failure::new(FailureKind::Unavailable, "store_full", "the disk is full")) }
    }

    async fn check_ready(&self) -> Result<(), Failure> {
        match self.stopping {
            true => Err(Failure::new(FailureKind::Unavailable, "stopping", "the server is stopping")),
            false => self.check().await,
        }
    }

    fn metrics(&self) -> String {
        "drawloom_runs_active 1\n".into()
    }
}

/// One model, and a provider that can be asked.
struct OneModel;

#[async_trait]
impl Models for OneModel {
    fn list(&self) -> ModelList {
        ModelList {
            currency: "USD".into(),
            models: Vec::new(),
            providers: Vec::new(),
            tiers: Default::default(),
            user_tiers: Default::default(),
            remote: None,
        }
    }

    async fn ask(&self, provider: &str) -> Result<Vec<ListedModel>, Failure> {
        match provider {
            "script" => Ok(vec![ListedModel { id: "test".into(), ..ListedModel::default() }]),
            _ => Err(Failure::new(FailureKind::NotFound, "unknown_provider", format!("there is no {provider}"))),
        }
    }
}

/// What bob may do: everything with what is his own.
const BOB: [Scope; 5] =
    [Scope::RunsCreate, Scope::GoalsCreate, Scope::RunsRead, Scope::EvaluationsRead, Scope::EvaluationsWrite];

/// Who uses and defines channels, and sees only what is its own.
const TALKER: [Scope; 3] = [Scope::ChannelRead, Scope::ChannelPublish, Scope::DefinitionsWrite];

/// A search of memory that finds nothing: the store's own is tested with the store.
struct NoIndex;

#[async_trait]
impl Search for NoIndex {
    async fn search_memory(&self, _: &Terms<'_>, _: Timestamp) -> Result<Vec<(ValueKey, Kept, i64)>, StoreError> {
        Ok(Vec::new())
    }

    fn limit(&self, _: &mut Vec<Term>) -> Option<usize> {
        None
    }
}

/// Remembers what it was asked to remove.
#[derive(Default)]
pub(crate) struct Broom(pub(crate) Mutex<Vec<Prune>>);

#[async_trait]
impl Retention for Broom {
    async fn find_prunable(&self, _: &Prune) -> Result<(Pruned, Vec<RunKey>), StoreError> {
        Ok((Pruned { trees: 1, runs: 2, records: 3, blobs: 0 }, Vec::new()))
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        self.0.lock().expect("no panic").push(prune.clone());
        Ok(Pruned { trees: 1, runs: 2, records: 3, blobs: 4 })
    }

    async fn remove_trees(&self, roots: &[RunKey]) -> Result<Option<Pruned>, StoreError> {
        let trees = roots.len() as u64;
        Ok(Some(Pruned { trees, runs: trees, records: 3, blobs: 0 }))
    }

    async fn remove_expired(&self, _: Timestamp) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// A secret that the server knows.
pub(crate) const SECRET: &str = "hunter2-hunter2";

/// How a test's server is made.
pub(crate) struct Setup {
    pub(crate) shared: Option<&'static str>,
    pub(crate) principals: bool,
    pub(crate) limits: Limits,
    pub(crate) well: bool,
    pub(crate) stopping: bool,
    /// How fast its clock runs.
    pub(crate) speed: u32,
    /// Operations beside the built-in ones.
    pub(crate) operations: Vec<Arc<dyn AnyOperation>>,
    /// Where values and answers are kept.
    pub(crate) store: Arc<drawloom_testkit::Memory>,
    pub(crate) entropy: Arc<Zeros>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            shared: None,
            principals: false,
            limits: Limits::default(),
            well: true,
            stopping: false,
            speed: 1,
            operations: Vec::new(),
            store: Arc::default(),
            entropy: Arc::default(),
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Fake,
    pub(crate) broom: Arc<Broom>,
    pub(crate) app: Arc<App>,
    pub(crate) store: Arc<drawloom_testkit::Memory>,
    http: Configured,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

pub(crate) fn clock() -> Arc<TestClock> {
    clock_of(1)
}

fn clock_of(speed: u32) -> Arc<TestClock> {
    Arc::new(TestClock { began: Instant::now(), speed })
}

fn principal(name: &str, tenant: &str, scopes: &[Scope]) -> PrincipalToken {
    let config = PrincipalConfig {
        tenant: tenant.parse().expect("a tenant"),
        subject: name.parse().expect("a user"),
        scopes: scopes.to_vec(),
        token_env: "X".into(),
    };
    PrincipalToken { name: name.into(), config, token: format!("{name}-token-of-the-tests") }
}

impl Setup {
    /// Starts it. Principals of the default tenant are `ann` (everything in it), `bob` (his own runs), `auditor` (sees
    /// everybody's runs) and `idle` (no scope); `eve` is of another tenant.
    pub(crate) async fn start(self) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
        let address = listener.local_addr().expect("it has an address");
        let fake = Fake::new();
        let broom = Arc::<Broom>::default();
        let store = self.store.clone();
        let (app, stop, task) = self.serve(listener, fake.clone(), broom.clone());
        let http = Configured::new().expect("a client");
        Server { address, fake, broom, app, store, http, stop: Some(stop), task: Some(task) }
    }

    /// Why it cannot be made.
    pub(crate) async fn refused(self) -> Failure {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let error = self.app(address, Fake::new(), Arc::default()).err().expect("it is refused");
        Failure::of(&error)
    }

    fn serve(
        self,
        listener: TcpListener,
        fake: Fake,
        broom: Arc<Broom>,
    ) -> (Arc<App>, oneshot::Sender<()>, JoinHandle<()>) {
        let address = listener.local_addr().expect("it has an address");
        let app = self.app(address, fake, broom).expect("random bytes and no clash");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, app.clone(), async {
            // A test that ends without a word stops the server too.
            let _ = stopped.await;
        }));
        (app, stop, task)
    }

    fn app(self, address: SocketAddr, fake: Fake, broom: Arc<Broom>) -> Result<Arc<App>, AppError> {
        let all = [Scope::RunsCreate, Scope::RunsRead, Scope::Tenant];
        let principals = if self.principals {
            vec![
                principal("ann", "default", &all),
                principal("idle", "default", &[]),
                principal("bob", "default", &BOB),
                principal("auditor", "default", &[Scope::RunsReadAll, Scope::EvaluationsRead]),
                principal("eve", "other", &all),
                principal("kim", "default", &TALKER),
                principal("una", "default", &TALKER),
            ]
        } else {
            Vec::new()
        };
        let known = principals.iter().map(|PrincipalToken { config, .. }| {
            (config.tenant.clone(), config.subject.clone(), config.scopes.clone())
        });
        let known = Principals::new(known.collect::<Vec<_>>());
        let shared: Vec<_> = self.shared.iter().map(|token| ("the shared token", *token)).collect();
        let memory = self.store;
        let redactor = Arc::new(Redactor::new([SECRET]));
        let clock = clock_of(self.speed);
        let channels = [("jobs", ""), ("inbox", "user"), ("desk", "agent")].map(|(name, scope)| {
            let scope = if scope.is_empty() { "tenant" } else { scope };
            let config = serde_json::json!({ "scope": scope, "max_messages": 100 });
            (name.to_owned(), serde_json::from_value(config).expect("a channel"))
        });
        let operator = OperatorConfig { channels: channels.into(), ..OperatorConfig::default() };
        let layers = Layers::new(operator, Arc::default(), DefinitionsConfig::default(), known).0;
        let channels = Channels::new(ChannelParts {
            layers: layers.clone(),
            logs: memory.clone(),
            values: memory.clone(),
            backlog: Arc::new(FakeBacklog(memory.clone())),
            clock: clock.clone(),
            entropy: self.entropy.clone(),
            redactor: redactor.clone(),
        });
        let runtime = RuntimeDefinitions::new(RuntimeParts {
            layers,
            values: memory.clone(),
            check: Arc::new(NoCheck),
            channels: Some(channels.clone()),
            clock: clock.clone(),
            redactor: redactor.clone(),
        });
        App::new(Parts {
            goals: Goals {
                host: Arc::new(NoGoals::default()),
                questions: Arc::new(Questions {
                    values: memory.clone(),
                    clock: clock.clone(),
                    entropy: self.entropy.clone(),
                    redactor: redactor.clone(),
                }),
            },
            memory: Memory::new(MemoryParts {
                config: MemoryConfig::default(),
                values: memory.clone(),
                search: Arc::new(NoIndex),
                clock: clock.clone(),
                redactor: redactor.clone(),
            }),
            evaluations: Evaluations::new(EvaluationParts {
                values: memory.clone(),
                runs: Arc::new(fake.clone()),
                lineage: Arc::new(OfConfig(fake.clone())),
                clock: clock.clone(),
                entropy: self.entropy.clone(),
                redactor: redactor.clone(),
            }),
            channels,
            runtime: runtime.clone(),
            runs: Arc::new(fake.clone()),
            definitions: Arc::new(fake),
            clock,
            entropy: self.entropy.clone(),
            monitor: Arc::new(Well { store: self.well, stopping: self.stopping }),
            models: Arc::new(OneModel),
            retention: broom,
            values: memory.clone(),
            answers: memory,
            operations: self.operations,
            tables: Vec::new(),
            redactor,
            auth: Auth::new(address, &shared, principals).expect("it is on loopback"),
            limits: self.limits,
        })
    }
}

/// Definitions of the fake have no versions.
struct OfConfig(Fake);

#[async_trait]
impl Lineage for OfConfig {
    fn current(&self, tenant: &Tenant, name: &AgentName) -> Option<(Digest, Option<String>)> {
        Some((Definitions::find(&self.0, tenant, name)?.digest(), None))
    }

    async fn version(&self, _: &Tenant, _: &Digest) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    fn is_version(&self, _: &Tenant, _: &str) -> bool {
        false
    }

    fn parent(&self, _: &Tenant, _: &str) -> Option<String> {
        None
    }

    fn names(&self, tenant: &Tenant) -> Vec<String> {
        Definitions::list(&self.0, tenant).iter().map(|definition| definition.name.to_string()).collect()
    }

    async fn parents(&self, _: &Tenant, _: &str) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

/// Lets every source through: its form is the binary's concern.
struct NoCheck;

impl SourceCheck for NoCheck {
    fn check(&self, _: DefinitionKind, _: &mut Value) -> Vec<SourceProblem> {
        Vec::new()
    }
}

/// An answer, read whole.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Answered {
    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

impl Server {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn client(&self, token: Option<&str>) -> Client {
        Client::new(&self.url(""), token, clock()).expect("a client")
    }

    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<&[u8]>,
    ) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())).collect();
        let request = Request { method, url: self.url(path), bearer: None, headers, json: body.map(<[u8]>::to_vec) };
        self.http.send(request).await.expect("the server answers")
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<&[u8]>,
    ) -> Answered {
        let response = self.open(method, path, headers, body).await;
        let status = response.status();
        let names = [
            "content-type",
            "x-request-id",
            "www-authenticate",
            "allow",
            "retry-after",
            "drawloom-run-id",
            "drawloom-agent-id",
            "drawloom-session-id",
            "drawloom-batch-id",
        ];
        let headers =
            names.iter().filter_map(|name| Some((*name, response.header(name)?.to_owned()))).collect::<Vec<_>>();
        let bytes = response.bytes(1 << 24).await.expect("a body");
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answered { status, body, headers }
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.send(Method::Get, path, &[], None).await
    }

    /// Posts and waits for JSON.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Answered {
        let body = body.to_string().into_bytes();
        self.send(Method::Post, path, &[("accept", "application/json")], Some(&body)).await
    }

    /// Says these bytes on a new connection.
    pub(crate) async fn say(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(bytes).await.expect("it takes bytes");
        stream
    }

    /// Stops the server; returns when it stopped.
    pub(crate) async fn stop(&mut self) {
        drop(self.stop.take());
        let task = self.task.take().expect("it is stopped once");
        within(task).await.expect("it does not panic");
    }

    /// Starts the server again at its old address, open, with the runs that it had.
    pub(crate) async fn restart(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is free again");
        let (app, stop, task) = Setup::default().serve(listener, self.fake.clone(), self.broom.clone());
        (self.app, self.stop, self.task) = (app, Some(stop), Some(task));
    }
}

/// Reads until `marker` was read.
pub(crate) async fn read_until(stream: &mut TcpStream, marker: &str) -> String {
    within(async {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = stream.read(&mut piece).await.expect("it can be read");
            text.extend_from_slice(&piece[..count]);
            let found = String::from_utf8_lossy(&text).into_owned();
            assert!(count > 0 || found.contains(marker), "{marker:?} did not come; {found:?} did");
            if found.contains(marker) {
                return found;
            }
        }
    })
    .await
}

/// A test that hangs should say so.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it ends in time")
}
