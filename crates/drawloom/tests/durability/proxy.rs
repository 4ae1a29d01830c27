//! The proxy's server is killed with SIGKILL at every step of a `spawn_runs`, and started again: the host gets one answer,
//! and each run was started once.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use rustix::process::{Signal, pidfd_send_signal};
use serde_json::{Value, json};

use crate::{
    fanout::CONFIG,
    http::get,
    kill::{for_each, report_number},
    process::{Case, Server},
};

/// How long an answer may take, with a crash in the middle.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the server is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Point {
    /// Nowhere.
    Never,
    /// By itself, at a point of its journal or its tools.
    Inside(String),
    /// When it has been sent so many bytes.
    Sent(usize),
    /// When so many bytes of its answers were passed on.
    Answered(usize),
}

/// How the host speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Session,
    Stateless,
}

/// Whether the keys of calls arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Kept,
    Lost,
}

/// The address that the proxy knows. Behind it is whichever server lives; bytes on the way are counted.
struct Wire {
    address: SocketAddr,
    server: Mutex<Option<(SocketAddr, Arc<OwnedFd>)>>,
    point: Point,
    keys: Keys,
    sent: AtomicUsize,
    answered: AtomicUsize,
}

impl Wire {
    fn start(point: Point, keys: Keys) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let zero = || AtomicUsize::new(0);
        let wire = Arc::new(Self { address, server: Mutex::default(), point, keys, sent: zero(), answered: zero() });
        let passing = Arc::downgrade(&wire);
        std::thread::spawn(move || {
            for host in listener.incoming().flatten() {
                let Some(wire) = passing.upgrade() else { return };
                wire.admit(host);
            }
        });
        wire
    }

    fn connect_to(&self, server: &Server) {
        let address = server.url.strip_prefix("http://").and_then(|address| address.parse().ok());
        *self.server.lock().expect("no panic") = address.map(|address| (address, server.handle()));
    }

    /// Joins a connection to the server; one that cannot be joined is closed.
    fn admit(self: Arc<Self>, host: TcpStream) {
        let target = self.server.lock().expect("no panic").as_ref().map(|(address, _)| *address);
        let Some(server) = target.and_then(|address| TcpStream::connect(address).ok()) else { return };
        let both = |stream: &TcpStream| stream.try_clone().expect("a second handle");
        let (to_server, to_host) = ((both(&host), both(&server)), (server, host));
        let here = self.clone();
        std::thread::spawn(move || here.pass(to_server.0, to_server.1, |wire| (&wire.sent, Point::Sent)));
        std::thread::spawn(move || self.pass(to_host.0, to_host.1, |wire| (&wire.answered, Point::Answered)));
    }

    fn pass(
        &self,
        mut from: TcpStream,
        mut to: TcpStream,
        count: impl Fn(&Self) -> (&AtomicUsize, fn(usize) -> Point),
    ) {
        let mut buffer = [0; 4096];
        while let Ok(read) = from.read(&mut buffer) {
            if self.keys == Keys::Lost {
                lose_keys(&mut buffer[..read]);
            }
            let (count, kind) = count(self);
            let before = count.fetch_add(read, Ordering::Relaxed);
            // Up to the very byte, then the server is dead and the connection with it.
            let left = (0..read).find(|index| kind(before + index) == self.point);
            if to.write_all(&buffer[..left.unwrap_or(read)]).is_err() {
                break;
            }
            if left.is_some() {
                let server = self.server.lock().expect("no panic").clone();
                kill(&server.expect("a connection was made").1);
            }
            if read == 0 || left.is_some() {
                break;
            }
        }
        for stream in [&from, &to] {
            // The other direction may have closed it before.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// Kills a process that may be dead already, which is as good.
fn kill(process: &OwnedFd) {
    let _ = pidfd_send_signal(process, Signal::KILL);
}

/// Renames what carries a call's key, so that nobody knows it.
fn lose_keys(bytes: &mut [u8]) {
    const NAME: &[u8] = b"io.drawloom/idempotencyKey";
    if let Some(start) = bytes.windows(NAME.len()).position(|window| window == NAME) {
        bytes[start..start + NAME.len()].fill(b'x');
    }
}

/// A host and the proxy that it started.
struct Host {
    proxy: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
}

impl Host {
    fn start(case: &Case, wire: &Wire) -> Self {
        let mut proxy = Command::new(env!("CARGO_BIN_EXE_drawloom"))
            .args(["mcp", "--upstream", &format!("http://{}", wire.address)])
            .env_remove("DRAWLOOM_TOKEN")
            .current_dir(case.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let (send, lines) = mpsc::channel();
        let stdout: ChildStdout = proxy.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let frame = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "not_json": line }));
                drop(send.send(frame));
            }
        });
        let input = proxy.stdin.take();
        Self { proxy, input, lines }
    }

    fn send(&mut self, frame: &Value) {
        let input = self.input.as_mut().expect("not closed");
        writeln!(input, "{frame}").expect("the proxy reads");
    }

    /// The answer to `id`.
    fn answer(&self, id: u64) -> Result<Value, String> {
        loop {
            let frame = self.lines.recv_timeout(PATIENCE).map_err(|error| format!("no answer to {id}: {error}"))?;
            match frame.get("method") {
                Some(_) => {}
                None if frame["id"] == id => return Ok(frame),
                None => return Err(format!("an answer that nobody waits for: {frame}")),
            }
        }
    }

    /// Ends the input; what still comes and is no notification is one too much.
    fn close(mut self) -> Result<(), String> {
        self.input = None;
        let status = self.proxy.wait().map_err(|error| error.to_string())?;
        let rest: Vec<Value> = self.lines.iter().filter(|frame| frame.get("method").is_none()).collect();
        match status.success() && rest.is_empty() {
            true => Ok(()),
            false => Err(format!("the proxy ended with {status} and said {rest:?}")),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.proxy.kill());
        drop(self.proxy.wait());
    }
}

/// What came of a case: the server died or not, and how many bytes went each way.
struct Outcome {
    died: bool,
    sent: usize,
    answered: usize,
    points: Vec<String>,
}

/// Runs the case with a kill at `point`; says what is wrong with what came of it.
fn crash_at(point: &Point, era: Era, keys: Keys) -> Result<Outcome, String> {
    let case = Case::new(CONFIG);
    let wire = Wire::start(point.clone(), keys);
    let mut settings = json!({ "points": case.path("points"), "sync": false });
    if let Point::Inside(point) = point {
        settings["kill"] = json!(point);
    }
    let mut first = case.start(&settings);
    let handle = first.handle();
    wire.connect_to(&first);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // Starts the server again as soon as it is dead.
        let again = scope.spawn(|| {
            first.ended();
            if done.load(Ordering::Relaxed) == 1 {
                return None;
            }
            let second = case.start(&json!({ "sync": false }));
            wire.connect_to(&second);
            Some(second)
        });
        let answered = converse(&case, &wire, era);
        done.store(1, Ordering::Relaxed);
        // It has ended already, unless its point was never passed.
        kill(&handle);
        let second = again.join().expect("no panic");
        let died = second.is_some();
        let server = second.unwrap_or_else(|| case.start(&json!({ "sync": false })));
        inspect(&case, &server, &answered?)?;
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Ok(Outcome { died, sent: count(&wire.sent), answered: count(&wire.answered), points: case.lines("points") })
    })
}

/// What a host says, and the answer to its `spawn_runs`.
fn converse(case: &Case, wire: &Wire, era: Era) -> Result<Value, String> {
    let mut host = Host::start(case, wire);
    let spawns: Vec<Value> = (0..3).map(|i| json!({ "agent": "worker", "prompt": format!("slice {i}") })).collect();
    let mut call = json!({ "name": "spawn_runs", "arguments": { "spawns": spawns } });
    match era {
        Era::Session => {
            let client = json!({ "name": "test", "version": "1" });
            let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
            host.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
            host.answer(0)?;
            host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        Era::Stateless => {
            call["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
    }
    host.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }));
    let answer = host.answer(2)?;
    host.close()?;
    Ok(answer)
}

/// Three results by index, three runs in the store, and nothing done twice.
fn inspect(case: &Case, server: &Server, answer: &Value) -> Result<(), String> {
    let results = answer["result"]["structuredContent"]["results"].as_array();
    let results = results.ok_or_else(|| format!("no results: {answer}"))?;
    for (index, result) in results.iter().enumerate() {
        let text = result["final_text"].as_str().unwrap_or_default();
        if result["index"] != index || result["status"] != "completed" || !text.starts_with(&format!("slice {index}: "))
        {
            return Err(format!("result {index} is {result}"));
        }
    }
    let runs = get(&server.url, "/v1/runs?limit=200");
    let runs = runs["runs"].as_array().map_or(0, Vec::len);
    if results.len() != 3 || runs != 3 {
        return Err(format!("{} results and {runs} runs where there should be 3", results.len()));
    }
    let mut ledger = BTreeMap::<String, usize>::new();
    for line in case.lines("ledger") {
        *ledger.entry(line).or_default() += 1;
    }
    match ledger.iter().find(|(_, times)| **times > 1) {
        Some((line, times)) => Err(format!("the ledger has {line} {times} times")),
        None => Ok(()),
    }
}

#[test]
fn killed_at_every_step_of_spawn_runs_the_host_gets_one_answer_and_each_run_was_started_once() {
    let mut cases = Vec::new();
    for era in [Era::Session, Era::Stateless] {
        let whole =
            crash_at(&Point::Never, era, Keys::Kept).unwrap_or_else(|why| panic!("without a crash, {era:?}: {why}"));
        assert!(!whole.died);
        let mut inside = whole.points;
        inside.sort();
        inside.dedup();
        cases.extend(inside.into_iter().map(|point| (Point::Inside(point), era)));
        for part in 0..10 {
            cases.push((Point::Sent(whole.sent * part / 10), era));
            cases.push((Point::Answered(whole.answered * part / 10), era));
        }
    }
    let (wrong, died) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    for_each(&cases, |(point, era)| {
        match crash_at(point, *era, Keys::Kept) {
            Ok(outcome) => drop(died.fetch_add(usize::from(outcome.died), Ordering::Relaxed)),
            Err(why) => wrong.lock().expect("no panic").push(format!("{point:?}, {era:?}: {why}")),
        }
        false
    });
    let (wrong, died) = (wrong.into_inner().expect("no panic"), died.into_inner());
    assert!(wrong.is_empty(), "{} of {} points:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    // A point that is near the end may come after the answer.
    assert!(died * 10 > cases.len() * 9 && cases.len() > 100, "{died} of {} points killed the server", cases.len());
    report_number(&format!(
        "the proxy's server was killed at {died} points of a spawn_runs: one answer, each run once"
    ));
}

#[test]
fn the_kill_test_catches_calls_without_keys() {
    let whole =
        crash_at(&Point::Never, Era::Session, Keys::Lost).unwrap_or_else(|why| panic!("without a crash: {why}"));
    let caught = crash_at(&Point::Answered(whole.answered / 2), Era::Session, Keys::Lost).err();
    let caught = caught.or_else(|| {
        let begun = whole.points.iter().find(|point| point.starts_with("after "))?;
        crash_at(&Point::Inside(begun.clone()), Era::Session, Keys::Lost).err()
    });
    let caught = caught.expect("caught");
    assert!(caught.contains("6 runs where there should be 3"), "{caught}");
}
