//! What every operation can reach, and the limits of the surfaces.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    definition::Definitions,
    failure::{Explain, Failure, FailureKind},
    journal::Answers,
    redact::Redactor,
    retention::Retention,
    runs::Runs,
    time::{Clock, Entropy, Instant, NoEntropy},
    values::KeyValue,
};
use drawloom_substrate::{
    artifacts::Artifacts, channels::Channels, definitions::RuntimeDefinitions, evaluations::Evaluations, memory::Memory,
};
use drawloom_wire::{
    body::MAX_BODY,
    models::{ListedModel, ModelList},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    auth::Auth,
    connections::Connections,
    dispatch::{InFlight, Operations, OperationsError},
    goals::Goals,
    mcp::Table,
    operation::AnyOperation,
    presence::Presence,
    rest::LargeEvents,
    room::Room,
};

/// Health and metrics of the process, which the binary knows.
#[async_trait]
pub trait Monitor: Send + Sync {
    /// Whether runs can be taken and the store works.
    async fn check(&self) -> Result<(), Failure>;

    /// Whether new runs should be sent here: [`Self::check`], and the server is not shutting down.
    async fn check_ready(&self) -> Result<(), Failure>;

    /// All metrics, in Prometheus' text format.
    fn metrics(&self) -> String;
}

/// The models that there are, as the binary knows them.
#[async_trait]
pub trait Models: Send + Sync {
    /// All that the config names.
    fn list(&self) -> ModelList;

    /// Asks a provider which models it has, or fails with `unknown_provider`, or as the provider did.
    async fn ask(&self, provider: &str) -> Result<Vec<ListedModel>, Failure>;
}

/// Limits of the surfaces, each with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a request body (16 MiB); an operation's own limit can be lower.
    pub body: usize,
    /// Most bytes of all large bodies (over 64 KiB) that are held at once (256 MiB). Others are answered 503.
    pub bodies: usize,
    /// Most connections at once (4,096). Others take the place of an idle one, or are answered 503 and closed.
    pub connections: usize,
    /// Of these, connections that only callers with a token get (512), where the server has tokens.
    pub reserved: usize,
    /// Most connections of one caller with a token (3,072).
    pub connections_per_caller: usize,
    /// Longest time in which a peer takes neither 16 KiB nor all that waits for it (30 s). Then it is dropped.
    pub write_timeout: Duration,
    /// Most bytes of large answers (over 32 KiB) that wait for their readers at once (256 MiB). Those that are not read
    /// are dropped in favour of new ones.
    pub answers: usize,
    /// The same for one caller with a token, or one address without one (128 MiB).
    pub answers_per_caller: usize,
    /// Longest wait for a request's head, on a new or a kept connection (60 s). Then the connection is closed.
    pub head_timeout: Duration,
    /// Longest wait for a request's body (30 s).
    pub body_timeout: Duration,
    /// How long a waiting answer's head is held back (20 ms): a result that comes by then goes out with it in one piece.
    pub head_grace: Duration,
    /// Longest silence of an event stream (15 s). Then a comment is sent.
    pub keep_alive: Duration,
    /// How long connections may take to finish when the server stops (10 s). Then they are cut.
    pub drain: Duration,
    /// Most MCP sessions in memory (1,024). Idle ones are put away in favour of new ones.
    pub mcp_sessions: usize,
    /// The same for one caller (256).
    pub mcp_sessions_per_caller: usize,
    /// Most subscriptions of one MCP session (256).
    pub mcp_subscriptions: usize,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        body: MAX_BODY,
        bodies: 256 * 1024 * 1024,
        connections: 4_096,
        reserved: 512,
        connections_per_caller: 3_072,
        write_timeout: Duration::from_secs(30),
        answers: 256 * 1024 * 1024,
        answers_per_caller: 128 * 1024 * 1024,
        head_timeout: Duration::from_secs(60),
        body_timeout: Duration::from_secs(30),
        head_grace: Duration::from_millis(20),
        keep_alive: Duration::from_secs(15),
        drain: Duration::from_secs(10),
        mcp_sessions: 1_024,
        mcp_sessions_per_caller: 256,
        mcp_subscriptions: 256,
    };

    /// The defaults for a process that may have so many files open. Connections are fewer than these, so that there is room for the
    /// store, for programs that are started and for calls to models.
    pub fn for_open_files(files: u64) -> Self {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        let kept = (files / 4).max(256).min(files / 4 * 3);
        let connections = Self::DEFAULT.connections.min(files - kept).max(1);
        Self {
            connections,
            reserved: connections / 8,
            connections_per_caller: (connections / 4 * 3).max(1),
            ..Self::DEFAULT
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What an app is made of.
pub struct Parts {
    /// The engine.
    pub runs: Arc<dyn Runs>,
    /// The agents.
    pub definitions: Arc<dyn Definitions>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// For request ids.
    pub entropy: Arc<dyn Entropy>,
    /// Health and metrics.
    pub monitor: Arc<dyn Monitor>,
    /// The models that there are.
    pub models: Arc<dyn Models>,
    /// Who removes what ended long ago.
    pub retention: Arc<dyn Retention>,
    /// Small values that outlive the process.
    pub values: Arc<dyn KeyValue>,
    /// What agents and callers keep between runs.
    pub memory: Arc<Memory>,
    /// What agents and callers think of runs.
    pub evaluations: Arc<Evaluations>,
    /// Messages between agents and callers.
    pub channels: Arc<Channels>,
    /// What is defined at runtime.
    pub runtime: Arc<RuntimeDefinitions>,
    /// What drives goals.
    pub goals: Goals,
    /// The answers of requests with an idempotency key.
    pub answers: Arc<dyn Answers>,
    /// Operations beside the built-in ones.
    pub operations: Vec<Arc<dyn AnyOperation>>,
    /// Tables of tools beside the operations, over MCP.
    pub tables: Vec<Arc<dyn Table>>,
    /// What masks the secrets in errors.
    pub redactor: Arc<Redactor>,
    /// Who may call.
    pub auth: Auth,
    /// The limits.
    pub limits: Limits,
}

/// What every operation can reach.
pub struct App {
    pub(crate) runs: Arc<dyn Runs>,
    pub(crate) definitions: Arc<dyn Definitions>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) monitor: Arc<dyn Monitor>,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) retention: Arc<dyn Retention>,
    pub(crate) values: Arc<dyn KeyValue>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) evaluations: Arc<Evaluations>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) runtime: Arc<RuntimeDefinitions>,
    pub(crate) goals: Goals,
    pub(crate) answers: Arc<dyn Answers>,
    pub(crate) artifacts: Artifacts,
    /// Requests with a key that are being answered.
    pub(crate) keyed: InFlight,
    pub(crate) operations: Operations,
    pub(crate) tables: Vec<Arc<dyn Table>>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) auth: Auth,
    pub(crate) limits: Limits,
    pub(crate) started: Instant,
    /// Room for large bodies, in KiB.
    pub(crate) room_for_bodies: Arc<Semaphore>,
    pub(crate) connections: Arc<Connections>,
    /// Room for what streams hold.
    pub(crate) room: Arc<Room>,
    pub(crate) large_events: LargeEvents,
    /// Who is connected.
    pub(crate) presence: Presence,
    /// Waits and streams end when this is cancelled.
    pub(crate) stopping: CancellationToken,
    /// Tells this server from all others, also from those before it on the same data.
    instance: String,
    boot: u32,
    requests: AtomicU64,
}

/// Why an app cannot be made of its parts.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// There are no random bytes.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
    /// An operation cannot be offered beside the others.
    #[error(transparent)]
    Operations(#[from] OperationsError),
}

impl Explain for AppError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::NoEntropy(error) => error.kind(),
            Self::Operations(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoEntropy(error) => error.code(),
            Self::Operations(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoEntropy(error) => error.hint(),
            Self::Operations(error) => error.hint(),
        }
    }
}

impl App {
    /// An app of these parts; its uptime counts from here.
    pub fn new(parts: Parts) -> Result<Arc<Self>, AppError> {
        let mut boot = [0; 4];
        parts.entropy.fill(&mut boot)?;
        let mut instance = [0; 16];
        parts.entropy.fill(&mut instance)?;
        Ok(Arc::new(Self {
            started: parts.clock.now(),
            artifacts: Artifacts::new(parts.values.clone(), parts.clock.clone()),
            runs: parts.runs,
            definitions: parts.definitions,
            clock: parts.clock,
            entropy: parts.entropy,
            monitor: parts.monitor,
            models: parts.models,
            retention: parts.retention,
            values: parts.values,
            memory: parts.memory,
            evaluations: parts.evaluations,
            channels: parts.channels,
            runtime: parts.runtime,
            goals: parts.goals,
            answers: parts.answers,
            keyed: InFlight::default(),
            operations: Operations::with(parts.operations)?,
            tables: parts.tables,
            redactor: parts.redactor,
            connections: Connections::new(&parts.limits, parts.auth.is_open()),
            room: Room::new(&parts.limits, parts.auth.is_open()),
            auth: parts.auth,
            room_for_bodies: Arc::new(Semaphore::new(parts.limits.bodies / 1024)),
            limits: parts.limits,
            large_events: LargeEvents::default(),
            presence: Presence::default(),
            stopping: CancellationToken::new(),
            instance: format!("{:032x}", u128::from_be_bytes(instance)),
            boot: u32::from_be_bytes(boot),
            requests: AtomicU64::new(0),
        }))
    }

    /// A name for this process, to tell it from those before it.
    pub(crate) fn boot_name(&self) -> String {
        format!("{:08x}", self.boot)
    }

    /// What tells this server from all others. Requests that name another one are refused.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Everything that a caller can ask for.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Who is connected.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Bytes of large request bodies that are held now.
    pub fn body_bytes(&self) -> usize {
        (self.limits.bodies / 1024).saturating_sub(self.room_for_bodies.available_permits()) * 1024
    }

    /// Why a request ended in a panic. Libraries that cannot get random bytes panic, which is no bug of ours.
    pub(crate) fn panicked(&self, words: impl Into<String>) -> Failure {
        match self.entropy.check() {
            Err(none) => none.into(),
            Ok(()) => Failure::new(FailureKind::Bug, "bug", words),
        }
    }

    /// A name for a request: the process's own part, then a number.
    pub fn request_id(&self) -> String {
        format!("q_{:08x}{:08x}", self.boot, self.requests.fetch_add(1, Ordering::Relaxed))
    }
}
