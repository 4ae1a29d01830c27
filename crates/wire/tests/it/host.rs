//! A host: the other side of the proxy's pipes.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::time::{Clock, Entropy, NoEntropy, Timestamp};
use drawloom_net::Configured;
use drawloom_wire::{
    mcp,
    upstream::{Fixed, Upstream},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A clock on which a second lasts `1 / speed` seconds.
pub(crate) struct Fast {
    begun: Instant,
    speed: u32,
}

impl Fast {
    pub(crate) fn at_speed(speed: u32) -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), speed })
    }
}

#[async_trait]
impl Clock for Fast {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0).after(self.now().since_origin())
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        drawloom_contract::time::Instant::from_origin(self.begun.elapsed() * self.speed)
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        tokio::time::sleep(time.since(self.now()) / self.speed).await;
    }
}

/// A clock that keeps how long it was asked to wait, each time.
pub(crate) struct Recording {
    clock: Arc<Fast>,
    waits: Mutex<Vec<Duration>>,
}

impl Recording {
    pub(crate) fn at_speed(speed: u32) -> Arc<Self> {
        Arc::new(Self { clock: Fast::at_speed(speed), waits: Mutex::default() })
    }

    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.waits.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl Clock for Recording {
    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        self.clock.now()
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        self.waits.lock().expect("no panic").push(time.since(self.now()));
        self.clock.sleep_until(time).await;
    }
}

struct Chance;

impl Entropy for Chance {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        getrandom::fill(bytes).expect("the system has random bytes");
        Ok(())
    }
}

/// A host with its proxy.
pub(crate) struct Host {
    input: Option<DuplexStream>,
    lines: Lines<BufReader<DuplexStream>>,
    proxy: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Host {
    /// A proxy to `url` whose clock runs as the machine's.
    pub(crate) fn connect(url: &str) -> Self {
        Self::connect_at_speed(url, 1)
    }

    /// A proxy to `url` for whom time passes `speed` times as fast.
    pub(crate) fn connect_at_speed(url: &str, speed: u32) -> Self {
        Self::connect_with_patience(url, speed, None)
    }

    /// The same, for a host that waits for so long.
    pub(crate) fn connect_with_patience(url: &str, speed: u32, patience: Option<Duration>) -> Self {
        Self::connect_to(Arc::new(Fixed::new(url, Some("a token"))), Fast::at_speed(speed), patience)
    }

    /// A proxy to `url` by this clock.
    pub(crate) fn connect_by(url: &str, clock: Arc<dyn Clock>) -> Self {
        Self::connect_to(Arc::new(Fixed::new(url, Some("a token"))), clock, None)
    }

    /// A proxy to wherever `upstream` says.
    pub(crate) fn connect_to(upstream: Arc<dyn Upstream>, clock: Arc<dyn Clock>, patience: Option<Duration>) -> Self {
        let (input, from_host) = tokio::io::duplex(64 * 1024);
        let (to_host, output) = tokio::io::duplex(64 * 1024);
        let (stop, stopped) = oneshot::channel::<()>();
        let parts = mcp::Parts {
            upstream,
            http: Configured::plain(),
            headers: vec![("x-more".into(), "yes".into())],
            patience,
            clock,
            entropy: Arc::new(Chance),
        };
        let stopped = Box::pin(async { drop(stopped.await) });
        let proxy = tokio::spawn(mcp::run(parts, Box::new(from_host), Box::new(to_host), stopped));
        Self { input: Some(input), lines: BufReader::new(output).lines(), proxy, stop: Some(stop) }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("not closed");
        input.write_all(format!("{line}\n").as_bytes()).await.expect("the proxy reads");
    }

    pub(crate) async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })).await;
    }

    pub(crate) async fn call(&mut self, id: impl Into<Value>, tool: &str) {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": {} })).await;
    }

    pub(crate) async fn cancel(&mut self, id: impl Into<Value>) {
        let params = json!({ "requestId": id.into(), "reason": "enough" });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }

    /// The next line, which must be JSON.
    pub(crate) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("a line in time");
        let line = line.expect("a pipe").expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
    }

    /// Says hello as a host with sessions does, and hears the answer.
    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t" } });
        self.request(0, "initialize", params).await;
        let answer = self.next().await;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    /// Closes the input, and reads what still comes until the proxy has ended.
    pub(crate) async fn close(mut self) -> Vec<Value> {
        self.input = None;
        self.rest().await
    }

    /// Stops the proxy as a signal does, and reads what still comes.
    pub(crate) async fn stop(mut self) -> Vec<Value> {
        drop(self.stop.take());
        self.rest().await
    }

    /// Closes the input or stops the proxy, which must end although nobody reads its output.
    pub(crate) async fn ends_unread(mut self, by_signal: bool) {
        // Something has arrived, so the pipe is full by now or soon.
        self.lines.get_mut().fill_buf().await.expect("a pipe");
        match by_signal {
            true => drop(self.stop.take()),
            false => self.input = None,
        }
        tokio::time::timeout(PATIENCE, self.proxy).await.expect("it ends").expect("no panic");
    }

    async fn rest(mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.expect("a pipe") {
            rest.push(serde_json::from_str(&line).expect("JSON"));
        }
        tokio::time::timeout(PATIENCE, self.proxy).await.expect("it ends").expect("no panic");
        rest
    }
}
