//! Clocks, and servers that answer over a real socket as a test says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    redact::Redactor,
    time::{Clock, Timestamp},
    tool::{CallResult, Step, ToolError},
};
use drawloom_process::Launcher;
use drawloom_testkit::TestClock;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::outside::{McpServerConfig, OutsideParts, server::Server};

/// A clock that can be put forward.
#[derive(Default)]
pub(super) struct MovedClock {
    real: TestClock,
    pub(super) ahead_ms: AtomicI64,
}

#[async_trait]
impl Clock for MovedClock {
    fn wall(&self) -> Timestamp {
        self.real.wall()
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        let ahead = u64::try_from(self.ahead_ms.load(Ordering::SeqCst)).expect("it only goes forward");
        self.real.now().after(Duration::from_millis(ahead))
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}

pub(super) fn server(url: String, start_timeout_ms: u64) -> Arc<Server> {
    server_with(url, start_timeout_ms, Arc::new(TestClock::default()))
}

pub(super) fn server_with(url: String, start_timeout_ms: u64, clock: Arc<dyn Clock>) -> Arc<Server> {
    made(url, McpServerConfig { start_timeout_ms, ..McpServerConfig::default() }, clock)
}

/// A server with settings of the test's own.
pub(super) fn server_of(url: String, config: McpServerConfig) -> Arc<Server> {
    made(url, config, Arc::new(TestClock::default()))
}

fn made(url: String, config: McpServerConfig, clock: Arc<dyn Clock>) -> Arc<Server> {
    let parts = OutsideParts {
        launcher: Launcher::this_program(&[]),
        environment: BTreeMap::new(),
        redactor: Arc::new(Redactor::new([""; 0])),
        clock,
    };
    Arc::new(Server::new("out", McpServerConfig { url: Some(url), ..config }, parts))
}

/// A request that came: what is above its body, in small letters, and its message.
pub(super) struct Asked {
    pub(super) head: String,
    pub(super) message: Value,
}

impl Asked {
    pub(super) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// An answer to it with a status, headers and a body.
    pub(super) fn with(&self, status: u16, headers: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    }

    /// An answer to it with a result.
    pub(super) fn result(&self, headers: &str, result: &Value) -> String {
        let body = json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).to_string();
        self.with(200, &format!("Content-Type: application/json\r\n{headers}"), &body)
    }

    /// What a server of the newer era answers.
    pub(super) fn newer(&self, tools: &Value) -> String {
        let known = json!({"resultType": "complete", "ttlMs": 100_000, "cacheScope": "private"});
        let with = |key: &str, value: &Value| {
            let mut result = known.clone();
            result[key] = value.clone();
            result
        };
        match self.method() {
            "server/discover" => {
                let mut result = with("supportedVersions", &json!(["2026-07-28"]));
                result["capabilities"] = json!({"tools": {}});
                result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": "test", "version": "1"}});
                self.result("", &result)
            }
            "tools/list" => self.result("", &with("tools", tools)),
            "tools/call" => self.result("", &with("content", &json!([{"type": "text", "text": "done"}]))),
            _ => self.with(404, "", ""),
        }
    }

    /// What a server of the older era answers, which is in the session `session`.
    pub(super) fn older(&self, session: &str, tools: &Value) -> String {
        let name = json!({"name": "test", "version": "1"});
        match self.method() {
            "server/discover" => self.with(400, "Content-Type: text/plain\r\n", "what?"),
            "initialize" => self.result(
                &format!("Mcp-Session-Id: {session}\r\n"),
                &json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": name}),
            ),
            "tools/list" => self.result("", &json!({"tools": tools})),
            "tools/call" => self.result("", &json!({"content": [{"type": "text", "text": "done"}]})),
            "ping" => self.result("", &json!({})),
            _ if self.head.starts_with("post") => self.with(202, "", ""),
            _ => self.with(405, "", ""),
        }
    }
}

async fn asked(stream: &mut TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).await.ok()?;
    Some(Asked { head, message: serde_json::from_slice(&body).unwrap_or_default() })
}

/// An address where every request is answered with what `answer` says.
pub(super) async fn answering(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> String {
    answering_later(move |asked| Box::pin(std::future::ready(answer(asked)))).await
}

/// The same, when it says it.
pub(super) async fn answering_later(
    answer: impl Fn(&Asked) -> BoxFuture<'static, String> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                if let Some(asked) = asked(&mut stream).await {
                    // Whoever does not wait for it any more does not matter.
                    let _ = stream.write_all(answer(&asked).await.as_bytes()).await;
                }
            });
        }
    });
    url
}

pub(super) fn told(step: Result<Step, ToolError>) -> String {
    match step {
        Ok(Step::Done(CallResult { text, .. })) => text,
        Ok(_) => "not done".into(),
        Err(error) => error.to_string(),
    }
}
