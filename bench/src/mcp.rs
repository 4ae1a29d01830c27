//! MCP: what it adds to the same call over REST, over HTTP and through the thin client; the thin client's start; many calls
//! that wait at once.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    http::{self, Connection},
    process,
    report::{self, Table},
    server::{Bench, Server},
    targets::Figures,
};

/// Calls of each kind, one after the other.
const CALLS: usize = 1_000;
/// How often the thin client is started.
const STARTS: usize = 20;
/// Calls that wait at once.
const WAITING: usize = 1_000;
/// How long memory may settle before it is read.
const SETTLE: Duration = Duration::from_millis(500);

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let data = bench.directory()?;
    let server = bench.start(data.path())?;
    start(bench, &server, figures)?;
    latency(bench, &server, figures).await?;
    server.stop()?;
    waiting(bench).await
}

/// A thin client with an open session.
struct Thin {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Thin {
    fn open(bench: &Bench, address: SocketAddr) -> Result<Self> {
        let mut child = Command::new(bench.drawloom())
            .args(["mcp", "--upstream", &format!("http://{address}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the thin client")?;
        let input = child.stdin.take().context("its input is a pipe")?;
        let output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut thin = Self { child, input, output, next: 0 };
        thin.ask("initialize", initialize())?;
        writeln!(thin.input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(thin)
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let frame = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.input, "{frame}")?;
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the thin client ended");
        let answer: Value = serde_json::from_str(&line)?;
        ensure!(answer["id"] == self.next && answer.get("result").is_some(), "{method} was answered {answer}");
        Ok(answer)
    }
}

impl Drop for Thin {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn initialize() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } })
}

fn start(bench: &Bench, server: &Server, figures: &mut Figures) -> Result<()> {
    let (mut times, mut memory) = (Vec::new(), 0);
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut thin = Thin::open(bench, server.address)?;
        let listed = thin.ask("tools/list", json!({}))?;
        times.push(begun.elapsed());
        ensure!(listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 8), "not the tools: {listed}");
        memory = memory.max(process::memory(thin.child.id())?.resident);
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    report::heading(&format!("The thin client, {STARTS} times: from its start to tools/list answered"))?;
    report::line(&format!(
        "median {:.1} ms, least {:.1} ms, most {:.1} ms; at most {:.1} MB",
        milliseconds(median),
        milliseconds(times[0]),
        milliseconds(times[times.len() - 1]),
        memory as f64 / 1e6
    ))?;
    figures.thin_start = Some(median);
    figures.thin_memory = Some(memory);
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The bytes of a POST to `/mcp`.
fn post(headers: &str, message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A call without a session.
fn stateless(id: usize, arguments: Value, meta: Value) -> Vec<u8> {
    let mut params = json!({ "name": "spawn_run", "arguments": arguments, "_meta": meta });
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "bench", "version": "1" });
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: spawn_run\r\n";
    post(headers, &json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
}

/// Opens a session and returns its id.
async fn open(connection: &mut Connection) -> Result<String> {
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize() });
    let answer = String::from_utf8_lossy(connection.exchange(&post("", &message)).await?).into_owned();
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).map(|id| id.trim().to_owned());
    let id = id.with_context(|| format!("no session: {answer}"))?;
    let headers = format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    connection.exchange(&post(&headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))).await?;
    Ok(headers)
}

async fn latency(bench: &Bench, server: &Server, figures: &mut Figures) -> Result<()> {
    let arguments = json!({ "agent": "echo", "prompt": "hello" });
    let rest = http::post("/v1/runs", "application/json", &arguments.to_string());
    let mut plain = Connection::open(server.address).await?;
    let mut modern = Connection::open(server.address).await?;
    let mut older = Connection::open(server.address).await?;
    let session = open(&mut older).await?;
    let mut thin = Thin::open(bench, server.address)?;
    let mut times: [Vec<Duration>; 4] = Default::default();
    // In turns, so that whatever else the machine does falls on all of them alike.
    for call in 1..=CALLS {
        let begun = Instant::now();
        completed(plain.exchange(&rest).await?)?;
        times[0].push(begun.elapsed());

        let request = stateless(call, arguments.clone(), json!({}));
        let begun = Instant::now();
        completed(modern.exchange(&request).await?)?;
        times[1].push(begun.elapsed());

        let params = json!({ "name": "spawn_run", "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params });
        let request = post(&session, &message);
        let begun = Instant::now();
        completed(older.exchange(&request).await?)?;
        times[2].push(begun.elapsed());

        let begun = Instant::now();
        completed(thin.ask("tools/call", params)?.to_string().as_bytes())?;
        times[3].push(begun.elapsed());
    }
    report::heading(&format!("spawn_run, one at a time, {CALLS} times each, in turns"))?;
    let table = Table::start(&[("over", 26), ("p50", 9), ("p99", 9), ("added to REST, p50", 18)])?;
    let mut base = Duration::ZERO;
    let mut added = [0.0; 4];
    for (index, name) in ["REST", "MCP 2026-07-28", "MCP 2025-11-25, session", "the thin client"].iter().enumerate() {
        times[index].sort_unstable();
        let (half, most) = (times[index][CALLS / 2], times[index][CALLS * 99 / 100]);
        if index == 0 {
            base = half;
        }
        added[index] = milliseconds(half) - milliseconds(base);
        table.row(&[
            (*name).to_owned(),
            format!("{:.2} ms", milliseconds(half)),
            format!("{:.2} ms", milliseconds(most)),
            if index == 0 { String::new() } else { format!("{:+.2} ms", added[index]) },
        ])?;
    }
    figures.mcp_added = Some(added[1].max(added[2]));
    figures.thin_added = Some(added[3]);
    Ok(())
}

fn completed(answer: &[u8]) -> Result<()> {
    if http::find(answer, b"\"status\":\"completed\"").is_none() {
        bail!("a call did not complete: {}", String::from_utf8_lossy(answer));
    }
    Ok(())
}

/// Many calls that wait at once, each on a connection of its own, with heartbeats.
async fn waiting(bench: &Bench) -> Result<()> {
    let data = bench.directory()?;
    let server = bench.start(data.path())?;
    // The first call makes what all calls share.
    let mut first = Connection::open(server.address).await?;
    completed(first.exchange(&stateless(0, json!({ "agent": "echo", "prompt": "hello" }), json!({}))).await?)?;
    let before = process::memory(server.pid())?.resident;
    let mut calls = JoinSet::new();
    for call in 0..WAITING {
        let address = server.address;
        calls.spawn(async move {
            let request =
                stateless(call, json!({ "agent": "sleeper", "prompt": "wait" }), json!({ "progressToken": call }));
            let mut connection = Connection::open(address).await?;
            connection.exchange(&request).await.map(|_| ())
        });
    }
    server.wait_for_load(|active, _| active == WAITING as u64).await?;
    // Until each has had a first heartbeat.
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(calls.try_join_next().is_none(), "a call that should wait was answered");
    tokio::time::sleep(SETTLE).await;
    let after = process::memory(server.pid())?.resident;
    let begun = Instant::now();
    completed(first.exchange(&stateless(1, json!({ "agent": "echo", "prompt": "hello" }), json!({}))).await?)?;
    let meanwhile = begun.elapsed();
    let each = after.saturating_sub(before) as f64 / WAITING as f64;
    report::heading(&format!("{WAITING} calls that wait at once, each with its run in flight and heartbeats"))?;
    report::line(&format!(
        "{:.1} MB before, {:.1} MB with them: {:.1} KiB a call; another call meanwhile took {:.2} ms",
        before as f64 / 1e6,
        after as f64 / 1e6,
        each / 1024.0,
        milliseconds(meanwhile)
    ))?;
    calls.abort_all();
    Ok(())
}
