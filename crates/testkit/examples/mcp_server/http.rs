//! Just enough of HTTP: one request a connection, JSON answers, and a stream of events for calls.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use serde_json::Value;

use super::{Options, Out, answer, reply, tools};

/// Whether it has lost the session once.
static FORGOTTEN: AtomicBool = AtomicBool::new(false);

/// The only session that it has.
const SESSION: &str = "the-session";

pub(crate) fn serve(options: &Arc<Options>) {
    let port = options.get("port").unwrap_or("0");
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(writeln!(std::io::stdout(), "http://{address}/mcp"));
    let in_session = Arc::new(AtomicBool::new(false));
    for stream in listener.incoming().flatten() {
        let (options, in_session) = (options.clone(), in_session.clone());
        std::thread::spawn(move || handle(&options, stream, &in_session));
    }
}

struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut headers) = (String::new(), Vec::new());
    reader.read_line(&mut line).ok()?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { line, headers, body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, session: bool, body: &str) {
    let session = if session { format!("Mcp-Session-Id: {SESSION}\r\n") } else { String::new() };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{session}Connection: close\r\n\r\n"
    );
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}

fn handle(options: &Arc<Options>, stream: TcpStream, in_session: &AtomicBool) {
    let Some(request) = read(&stream) else { return };
    if let Some(variable) = options.get("bearer") {
        let wanted = format!("Bearer {}", std::env::var(variable).unwrap_or_default());
        if request.header("authorization") != Some(&wanted) {
            return respond(&stream, "401 Unauthorized", "text/plain", false, "who are you?");
        }
    }
    if request.line.starts_with("DELETE") && request.header("mcp-session-id") == Some(SESSION) {
        tools::end();
        return respond(&stream, "200 OK", "text/plain", false, "");
    }
    if !request.line.starts_with("POST") {
        return respond(&stream, "405 Method Not Allowed", "text/plain", false, "");
    }
    let Ok(message) = serde_json::from_slice::<Value>(&request.body) else {
        return respond(&stream, "400 Bad Request", "text/plain", false, "no JSON");
    };
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_modern = request.header("mcp-protocol-version") == Some("2026-07-28");
    if is_modern && request.header("mcp-method") != Some(&method) {
        return respond(&stream, "400 Bad Request", "text/plain", false, "the headers and the body differ");
    }
    let begins = matches!(method.as_str(), "initialize" | "server/discover");
    if !is_modern
        && !begins
        && (request.header("mcp-session-id") != Some(SESSION) || !in_session.load(Ordering::SeqCst))
    {
        return respond(&stream, "404 Not Found", "text/plain", false, "there is no such session");
    }
    if message.get("id").is_none() {
        return respond(&stream, "202 Accepted", "text/plain", false, "");
    }
    if method == "initialize" {
        in_session.store(true, Ordering::SeqCst);
    }
    let is_call_of =
        |tool: &str| method == "tools/call" && message.pointer("/params/name").and_then(Value::as_str) == Some(tool);
    if is_call_of("forget") && !is_modern && !FORGOTTEN.swap(true, Ordering::SeqCst) {
        // After a while, so that what was asked at the same time is under way.
        let (_kept, never) = mpsc::channel::<()>();
        let _ = never.recv_timeout(Duration::from_millis(500));
        in_session.store(false, Ordering::SeqCst);
        return respond(&stream, "404 Not Found", "text/plain", false, "there is no such session");
    }
    if is_call_of("accept") {
        return respond(&stream, "202 Accepted", "text/plain", false, "");
    }
    if is_call_of("throttle") {
        return respond(&stream, "429 Too Many Requests", "text/plain", false, "slow down");
    }
    if method == "tools/call" {
        return call(&message, &stream);
    }
    let (out, written) = buffer();
    answer(options, &message, &out);
    let body = written();
    if body.is_empty() {
        // Somebody who never answers keeps the connection open for it.
        drop((&stream).read(&mut [0; 1]));
        return;
    }
    let is_error = body.contains("\"error\"") && begins;
    let status = if is_error { "400 Bad Request" } else { "200 OK" };
    respond(&stream, status, "application/json", method == "initialize", &body);
}

/// Answers a call with a stream of events.
fn call(message: &Value, stream: &TcpStream) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let mut writer = stream;
    if writer.write_all(head.as_bytes()).is_err() {
        return;
    }
    let out = Out::new(Events(stream.try_clone().expect("a copy")));
    match tools::call(message, &out) {
        Some(result) => drop(out.send(&reply(&message["id"], result))),
        None => drop((&*stream).read(&mut [0; 1])),
    }
}

/// Makes every piece that is written an event.
struct Events(TcpStream);

impl Write for Events {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        let whole = piece.ends_with(b"\n");
        let end: &[u8] = if whole { b"\n" } else { b"" };
        let begin: &[u8] = if piece.is_empty() { b"" } else { b"data: " };
        self.0.write_all(begin)?;
        self.0.write_all(piece)?;
        self.0.write_all(end)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Something to write to, and a way to see what was written.
fn buffer() -> (Out, impl Fn() -> String) {
    #[derive(Clone, Default)]
    struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("nobody panics").extend_from_slice(piece);
            Ok(piece.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let shared = Shared::default();
    let seen = shared.clone();
    (Out::new(shared), move || {
        String::from_utf8(seen.0.lock().expect("nobody panics").clone()).expect("JSON is text").trim().to_owned()
    })
}
