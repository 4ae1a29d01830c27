//! Fake model servers that speak as the real ones do, and are as strict where those are: Anthropic-, OpenAI- and
//! DeepSeek-shaped, on loopback, scripted by a closure.

mod anthropic;
mod asked;
mod chat;
mod deepseek;
mod log;
mod makes;
mod openai;
mod proof;
mod reply;
mod responses;
mod server;
mod wall;

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, task::JoinHandle};

pub use asked::Asked;
pub use log::{Call, Outcome};
pub use makes::{Make, ServedModel};
pub use reply::{Ending, Raw, Refusal, Reply, RetryAfter, ServerReply};
pub use wall::WallClock;

use log::Log;

/// Whose API a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API.
    Openai,
    /// OpenAI's Responses API.
    Responses,
    /// DeepSeek's API.
    Deepseek,
}

/// How a server behaves, whatever it is asked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whose API it speaks.
    pub shape: Shape,
    /// Whose server it is, of those that speak Chat Completions.
    pub make: Make,
    /// The models of a server that is not OpenAI's.
    pub models: Vec<ServedModel>,
    /// Whether it says what a turn took.
    pub counts: bool,
    /// The only key that it takes; any, or none, when absent.
    pub key: Option<String>,
    /// The concurrency limit; more calls are refused at once.
    pub max_concurrent: Option<u32>,
    /// How it refuses them.
    pub refusal: Refusal,
    /// How long each answer takes before its first byte.
    pub delay: Duration,
    /// Where each call is written down when it is over, one JSON a line.
    pub log: Option<PathBuf>,
    /// Where it listens; any port of loopback, unless said otherwise.
    pub listen: SocketAddr,
}

impl Settings {
    /// A server without a concurrency limit that answers at once.
    pub fn new(shape: Shape) -> Self {
        let status = if shape == Shape::Anthropic { 529 } else { 503 };
        Self {
            shape,
            make: Make::Openai,
            models: Vec::new(),
            counts: true,
            key: None,
            max_concurrent: None,
            refusal: Refusal::new(status, "Overloaded"),
            delay: Duration::ZERO,
            log: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }

    /// The same, refusing with 429 what comes while `calls` are under way.
    #[must_use]
    pub fn max_concurrent(mut self, calls: u32, retry_after: RetryAfter) -> Self {
        self.max_concurrent = Some(calls);
        self.refusal = Refusal { retry_after, ..Refusal::new(429, "Too many requests at once") };
        self
    }

    /// The same, taking only this key.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// The same, answering after `delay`.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// What a server answers.
pub type Script = dyn Fn(&Asked) -> ServerReply + Send + Sync;

/// Most requests that are kept for `Provider::asked`.
const MOST_KEPT: usize = 4096;

/// What the connections of a server share.
struct Shared {
    settings: Settings,
    script: Box<Script>,
    log: Log,
    kept: Mutex<Vec<Asked>>,
    /// Paths that were asked for beside turns.
    others: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

/// A server that runs until it is dropped.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Provider {
    /// Starts a server that answers what `script` says to each request that the real API would take.
    pub async fn start(
        settings: Settings,
        script: impl Fn(&Asked) -> ServerReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let log = Log::new(settings.log.as_deref())?;
        let shared = Arc::new(Shared {
            settings,
            script: Box::new(script),
            log,
            kept: Mutex::default(),
            others: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let task = tokio::spawn(server::serve(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its `base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All calls that are over, in the order of their ends.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.log.calls()
    }

    /// The first requests for turns that it got, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The paths that were asked for beside turns, in order.
    pub fn others(&self) -> Vec<String> {
        self.shared.others.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Runs until the process ends.
    pub async fn run(mut self) {
        // The task never ends; an error would be a panic of the script, which it survives.
        drop((&mut self.task).await);
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A script for tests that need no other: it repeats what the user said last, thinks when it is asked to, calls a tool
/// for each line `call NAME {input}`, and repeats what those calls came to.
pub fn parrot(asked: &Asked) -> ServerReply {
    let results = asked.results();
    if !results.is_empty() {
        return Reply::text(format!("It came to: {}", results.join(" / "))).thinking("Now I know.").into();
    }
    let said = asked.last_text();
    let mut reply = Reply::text(format!("You said: {said}")).thinking("What was said?");
    for line in said.lines() {
        let Some((name, input)) = line.strip_prefix("call ").and_then(|rest| rest.split_once(' ')) else { continue };
        if asked.tools().iter().any(|tool| tool == name) {
            reply = reply.raw_call(name, input);
        }
    }
    reply.pieces(4, Duration::ZERO).into()
}
