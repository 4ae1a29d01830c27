//! Servers that are reached over a real socket.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex as StdMutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    redact::Redactor,
    time::{Clock, Timestamp},
    tool::{Step, ToolError},
};
use drawloom_process::Launcher;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time::Instant,
};

use super::{McpServerConfig, OutsideParts, server::Server};

/// The time since it was made.
pub(super) struct WallClock(Instant);

impl Default for WallClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

#[async_trait]
impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.0.elapsed().as_millis()).expect("a short time"))
    }

    async fn sleep_until(&self, time: Timestamp) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}

/// A clock that can be put forward.
#[derive(Default)]
struct MovedClock {
    wall: WallClock,
    ahead_ms: AtomicI64,
}

#[async_trait]
impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        let ahead = u64::try_from(self.ahead_ms.load(Ordering::SeqCst)).expect("it only goes forward");
        self.wall.now().after(Duration::from_millis(ahead))
    }

    async fn sleep_until(&self, time: Timestamp) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}

fn server(url: String, start_timeout_ms: u64) -> Arc<Server> {
    server_with(url, start_timeout_ms, Arc::new(WallClock::default()))
}

fn server_with(url: String, start_timeout_ms: u64, clock: Arc<dyn Clock>) -> Arc<Server> {
    let parts = OutsideParts {
        launcher: Launcher::this_program(&[]),
        environment: BTreeMap::new(),
        redactor: Arc::new(Redactor::new([""; 0])),
        clock,
    };
    let config = McpServerConfig { url: Some(url), start_timeout_ms, ..McpServerConfig::default() };
    Arc::new(Server::new("out", config, parts))
}

/// An address where somebody takes connections and says nothing; and how many there were.
async fn silence() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let taken = Arc::<AtomicUsize>::default();
    let count = taken.clone();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            kept.push(stream);
        }
    });
    (url, taken)
}

#[tokio::test]
async fn all_who_wait_for_a_server_share_one_opening_and_its_failure() {
    let (url, taken) = silence().await;
    let server = server(url, 600);
    let began = Instant::now();
    let offers = futures::future::join_all((0..8).map(|_| server.offer())).await;
    assert!(began.elapsed() < Duration::from_millis(1_200), "{:?}", began.elapsed());
    server.settled().await;
    for offer in offers {
        let why = offer.unavailable.as_deref().expect("nobody answers");
        assert!(why.contains("it did not say within 600 ms which tools it has"), "{why}");
    }
    // One for each era of the protocol.
    assert!(taken.load(Ordering::SeqCst) <= 2, "{taken:?}");
}

#[tokio::test]
async fn what_stands_after_the_question_mark_of_an_address_is_not_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let offer = server(format!("http://{address}/mcp?key=k3y"), 5_000).offer().await;
    let why = offer.unavailable.as_deref().expect("nobody is there");
    assert!(why.contains(&format!("no connection to http://{address}/mcp?…")), "{why}");
    assert!(!why.contains("k3y"), "{why}");
}

/// A request that came: what is above its body, in small letters, and its message.
struct Asked {
    head: String,
    message: Value,
}

impl Asked {
    fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// An answer to it with a status, headers and a body.
    fn with(&self, status: u16, headers: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
    }

    /// An answer to it with a result.
    fn result(&self, headers: &str, result: &Value) -> String {
        let body = json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).to_string();
        self.with(200, &format!("Content-Type: application/json\r\n{headers}"), &body)
    }

    /// What a server of the newer era answers.
    fn newer(&self, tools: &Value) -> String {
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
    fn older(&self, session: &str, tools: &Value) -> String {
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
async fn answering(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> String {
    answering_later(move |asked| Box::pin(std::future::ready(answer(asked)))).await
}

/// The same, when it says it.
async fn answering_later(answer: impl Fn(&Asked) -> BoxFuture<'static, String> + Send + Sync + 'static) -> String {
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

fn told(step: Result<Step, ToolError>) -> String {
    match step {
        Ok(Step::Done(text)) => text,
        Ok(_) => "not done".into(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_400_for_the_session_leads_to_a_new_one_and_another_400_does_not() {
    let reference =
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
    for refusal in [reference, "Invalid session ID"] {
        let (sessions, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun, made) = (sessions.clone(), calls.clone());
        let url = answering(move |asked| {
            if asked.method() == "initialize" {
                begun.fetch_add(1, Ordering::SeqCst);
            }
            let session = format!("session-{}", begun.load(Ordering::SeqCst));
            let bad = || asked.with(400, "Content-Type: application/json\r\n", refusal);
            let begins = ["server/discover", "initialize"].contains(&asked.method());
            if !begins && !asked.head.contains(&session) {
                return bad();
            }
            match asked.message["params"]["name"].as_str() {
                // The session is forgotten, as after a restart.
                Some("forget") if made.fetch_add(1, Ordering::SeqCst) == 0 => {
                    begun.fetch_add(1, Ordering::SeqCst);
                    bad()
                }
                Some("reject") => asked.with(400, "Content-Type: text/plain\r\n", "bad arguments"),
                _ => asked.older(&session, &json!([{"name": "forget", "inputSchema": {}}])),
            }
        })
        .await;
        let server = server(url, 5_000);
        assert_eq!(told(server.call("forget", Map::new()).await), "done", "{refusal}");
        assert_eq!((sessions.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (3, 2), "{refusal}");
        for _ in 0..2 {
            let said = told(server.call("reject", Map::new()).await);
            assert!(said.ends_with("HTTP 400 (text/plain): bad arguments"), "{said}");
        }
        assert_eq!(sessions.load(Ordering::SeqCst), 3, "{refusal}");
    }
}

#[tokio::test]
async fn types_of_content_are_known_in_capitals_too() {
    let url = answering(|asked| {
        let tools = json!([{"name": "call", "inputSchema": {}}]);
        match asked.method() {
            "tools/call" => {
                let content = json!([{"type": "text", "text": "in an event"}]);
                let answer = json!({"jsonrpc": "2.0", "id": asked.message["id"], "result": {"content": content}});
                asked.with(200, "Content-Type: Text/Event-Stream\r\n", &format!("data: {answer}\n\n"))
            }
            _ => asked.older("s", &tools).replace("application/json", "Application/JSON; charset=UTF-8"),
        }
    })
    .await;
    assert_eq!(told(server(url, 5_000).call("call", Map::new()).await), "in an event");
}

#[tokio::test]
async fn a_redirect_names_where_it_leads_and_is_not_followed() {
    let url =
        answering(|asked| asked.with(308, "Location: https://me:pw@there.example/mcp/?key=k3y\r\n", "moved")).await;
    let offer = server(url, 5_000).offer().await;
    assert_eq!(
        offer.unavailable.as_deref(),
        Some(
            "the MCP server out is not available: HTTP 308: it leads on to https://…@there.example/mcp/?…, and redirects are \
             not followed; put the final address into `url`"
        )
    );
}

#[tokio::test]
async fn a_list_is_cut_at_the_sum_of_what_is_kept() {
    let pages = Arc::new(AtomicUsize::new(0));
    let count = pages.clone();
    let url = answering(move |asked| {
        if asked.method() != "tools/list" {
            return asked.older("s", &json!([]));
        }
        let page = count.fetch_add(1, Ordering::SeqCst);
        let schema = json!({"type": "object", "description": "x".repeat(60_000)});
        let tool = |number: usize| json!({"name": format!("t{page}_{number}"), "inputSchema": schema});
        asked.result("", &json!({"tools": (0..20).map(tool).collect::<Vec<_>>(), "nextCursor": "on"}))
    })
    .await;
    let offer = server(url, 20_000).offer().await;
    assert_eq!(offer.unavailable, None);
    assert_eq!(pages.load(Ordering::SeqCst), 4);
    assert_eq!(offer.tools.len(), 4 * 1024 * 1024 / 60_050);
    let text = &offer.remarks[0].text;
    assert!(text.starts_with("the list of `mcp__out__*` goes on for longer than anybody looks"), "{text}");
}

#[tokio::test]
async fn one_odd_tool_does_not_take_the_headers_of_the_others() {
    let called = Arc::new(StdMutex::new(String::new()));
    let seen = called.clone();
    let url = answering(move |asked| {
        if asked.method() == "tools/call" {
            *seen.lock().expect("nobody panics") = asked.head.clone();
        }
        let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        let task = json!({"name": "task", "inputSchema": {}, "execution": {"taskSupport": "required"}});
        asked.newer(&json!([{"name": "odd"}, {"name": "good", "inputSchema": schema}, task]))
    })
    .await;
    let server = server(url, 5_000);
    let offer = server.offer().await;
    let remarks: Vec<_> = offer.remarks.iter().map(|remark| remark.text.as_str()).collect();
    assert_eq!(
        remarks,
        [
            "`mcp__out__odd` is left out: its input schema is no JSON object",
            "`mcp__out__task` is left out: it can only be called as a task, which is not supported"
        ]
    );
    let arguments = json!({"region": "north"}).as_object().expect("an object").clone();
    assert_eq!(told(server.call("good", arguments).await), "done");
    let head = called.lock().expect("nobody panics").clone();
    assert!(head.contains("mcp-param-region: north"), "{head}");
}

/// A server that has one more tool each time that it is asked, in the newer era or in the older one; and its lists.
async fn growing(ttl_ms: Option<u64>) -> (String, Arc<AtomicUsize>) {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let url = answering(move |asked| {
        let many = match asked.method() {
            "tools/list" => count.fetch_add(1, Ordering::SeqCst) + 1,
            _ => 0,
        };
        let tools: Value = (0..many).map(|number| json!({"name": format!("t{number}"), "inputSchema": {}})).collect();
        match ttl_ms {
            // The same number of digits, so that the length stays right.
            Some(ttl) => asked.newer(&tools).replace("\"ttlMs\":100000", &format!("\"ttlMs\":{ttl:06}")),
            None => asked.older("s", &tools),
        }
    })
    .await;
    (url, lists)
}

#[tokio::test]
async fn a_list_of_tools_that_is_not_good_any_more_is_asked_for_again() {
    for (ttl_ms, too_early, late_enough) in [(None, 30_000, 31_000), (Some(500_000), 300_000, 201_000)] {
        let (url, lists) = growing(ttl_ms).await;
        let clock = Arc::new(MovedClock::default());
        let server = server_with(url, 5_000, clock.clone());
        let first = server.offer().await;
        clock.ahead_ms.fetch_add(too_early, Ordering::SeqCst);
        assert!(Arc::ptr_eq(&first, &server.offer().await), "{ttl_ms:?}");
        assert_eq!((first.tools.len(), lists.load(Ordering::SeqCst)), (1, 1), "{ttl_ms:?}");
        clock.ahead_ms.fetch_add(late_enough, Ordering::SeqCst);
        assert_eq!(server.offer().await.tools.len(), 2, "{ttl_ms:?}");
    }
}

#[tokio::test]
async fn a_run_does_not_wait_long_for_a_newer_list_of_tools() {
    let (release, released) = tokio::sync::watch::channel(false);
    let url = answering_later(move |asked| {
        let mut released = released.clone();
        let answer = asked.older("s", &json!([{"name": "t", "inputSchema": {}}]));
        let first = asked.message["id"].as_u64() < Some(3);
        let waits = asked.method() == "tools/list" && !first;
        Box::pin(async move {
            if waits {
                let _ = released.wait_for(|released| *released).await;
            }
            answer
        })
    })
    .await;
    let clock = Arc::new(MovedClock::default());
    let server = server_with(url, 60_000, clock.clone());
    let first = server.offer().await;
    assert_eq!(first.tools.len(), 1);
    clock.ahead_ms.fetch_add(61_000, Ordering::SeqCst);
    let began = Instant::now();
    assert!(Arc::ptr_eq(&first, &server.offer().await));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    release.send_replace(true);
    server.settled().await;
    assert!(Arc::ptr_eq(&first, &server.offer().await), "the same list is another offer");
}

#[tokio::test]
async fn a_session_that_is_lost_is_begun_anew_when_the_list_is_asked_for() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let begun = sessions.clone();
    let url = answering(move |asked| {
        if asked.method() == "initialize" {
            begun.fetch_add(1, Ordering::SeqCst);
        }
        let session = format!("session-{}", begun.load(Ordering::SeqCst));
        let begins = ["server/discover", "initialize"].contains(&asked.method());
        match begins || asked.head.contains(&session) {
            true => asked.older(&session, &json!([{"name": format!("of-{session}"), "inputSchema": {}}])),
            false => asked.with(404, "", ""),
        }
    })
    .await;
    let clock = Arc::new(MovedClock::default());
    let server = server_with(url, 5_000, clock.clone());
    assert_eq!(server.offer().await.tools[0].card().name, "mcp__out__of-session-1");
    sessions.fetch_add(1, Ordering::SeqCst);
    clock.ahead_ms.fetch_add(61_000, Ordering::SeqCst);
    assert_eq!(server.offer().await.tools[0].card().name, "mcp__out__of-session-3");
}

#[tokio::test]
async fn what_a_server_asks_on_the_stream_of_no_request_is_answered() {
    let (answer, answered) = tokio::sync::watch::channel(false);
    let (streams, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, listed) = (streams.clone(), lists.clone());
    let url = answering_later(move |asked| {
        let mut answered = answered.clone();
        let mut said = asked.older("s", &json!([{"name": "t", "inputSchema": {}}]));
        match asked.method() {
            "tools/list" => drop(listed.fetch_add(1, Ordering::SeqCst)),
            "" if asked.message["id"] == "ask-1" => drop(answer.send_replace(true)),
            "" if asked.head.starts_with("get") => {
                opened.fetch_add(1, Ordering::SeqCst);
                let ask = json!({"jsonrpc": "2.0", "id": "ask-1", "method": "roots/list"});
                let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let events = format!("id: 1\ndata: {notice}\n\nretry: 0\nid: 2\ndata: {ask}\n\n");
                said = asked.with(200, "Content-Type: text/event-stream\r\n", &events);
            }
            _ => {}
        }
        let waits = asked.method() == "tools/call";
        Box::pin(async move {
            if waits {
                let _ = answered.wait_for(|answered| *answered).await;
            }
            said
        })
    })
    .await;
    let server = server(url, 5_000);
    assert_eq!(told(server.call("t", Map::new()).await), "done");
    server.offer().await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
    assert_eq!(streams.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_session_is_ended_when_drawloom_stops() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let url = answering(move |asked| {
        if asked.head.starts_with("delete") && asked.head.contains("mcp-session-id: the-one") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        asked.older("the-one", &json!([{"name": "t", "inputSchema": {}}]))
    })
    .await;
    let server = server(url, 5_000);
    assert_eq!(told(server.call("t", Map::new()).await), "done");
    server.leave().await;
    server.leave().await;
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}
