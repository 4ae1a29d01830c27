//! One list of every field that can carry free text. A secret is planted in each, through the real surfaces; afterwards it is
//! in no file of the data directory, no log line, no stream, no metric and no answer.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use drawloom_contract::redact::forms;
use serde_json::{Value, json};

use crate::{
    mcp::client::{Client, Era},
    support::{Home, Server},
};

/// A secret that is valid as an id, a host, a word of a path and a file name, so that it gets as far as it can.
const CANARY: &str = "canary-Vx73Qm-secret-0192837465";
/// A secret of several lines, with signs that encodings change.
const LINES: &str = "first canary line \"é\"/+?&\nsecond canary line = x\nshort\n";
const TOKEN: &str = "token-canary-Kw82Rt-5647382910";

fn config() -> String {
    let lines = json!(LINES).to_string();
    format!(
        r#"
listen: 127.0.0.1:0
redaction: {{ values_env: [CANARY_ONE, CANARY_LINES] }}
providers:
  script:
    driver: script
    options:
      rules:
        - {{ when: {{ contains: say-text }}, text: "a {CANARY} b", chunks: 7 }}
        - {{ when: {{ contains: say-thinking }}, thinking: "a {CANARY} b", text: done, chunks: 5 }}
        - {{ when: {{ contains: say-lines }}, text: {lines}, chunks: 9 }}
        - {{ when: {{ contains: say-error }}, fail: {{ kind: refused, message: "it is {CANARY}" }} }}
        - {{ when: {{ contains: call-tool, turn: 1 }}, calls: [{{ tool: "{CANARY}", input: {{}} }}] }}
        - {{ when: {{ contains: call-input, turn: 1 }}, calls: [{{ tool: Write, input: {{ path: "{CANARY}", content: "{CANARY}" }} }}] }}
        - {{ when: {{ contains: call-missing, turn: 1 }}, calls: [{{ tool: Read, input: {{ path: "no/{CANARY}" }} }}] }}
        - {{ when: {{ contains: call-volume, turn: 1 }}, calls: [{{ tool: Read, input: {{ path: x, volume: "{CANARY}" }} }}] }}
        - {{ when: {{ contains: call-key, turn: 1 }}, calls: [{{ tool: Read, input: {{ "{CANARY}": 1 }} }}] }}
        - {{ when: {{ contains: call-edit, turn: 1 }}, calls: [{{ tool: Edit, input: {{ path: lines.txt, old_string: "{CANARY}", new_string: x }} }}] }}
        - {{ when: {{ contains: call-agent, turn: 1 }}, calls: [{{ tool: Agent, input: {{ name: echo, prompt: "{CANARY}" }} }}] }}
        - {{ when: {{ contains: call-stranger, turn: 1 }}, calls: [{{ tool: Agent, input: {{ name: "{CANARY}", prompt: x }} }}] }}
        - {{ when: {{ contains: read-lines, turn: 1 }}, calls: [{{ tool: Read, input: {{ path: lines.txt }} }}] }}
        - {{ when: {{ contains: read-piece, turn: 1 }}, calls: [{{ tool: Read, input: {{ path: one.txt, bytes: true, offset: 3, limit: 20 }} }}] }}
        - {{ when: {{ contains: grep-lines, turn: 1 }}, calls: [{{ tool: Grep, input: {{ pattern: canary, output_mode: content }} }}] }}
        - {{ when: {{ contains: glob-name, turn: 1 }}, calls: [{{ tool: Glob, input: {{ pattern: "**" }} }}] }}
        - {{ text: "{{{{prompt}}}} {{{{last}}}}", chunks: 3 }}
defaults: {{ provider: script, model: test }}
agents:
  echo: {{ tools: [Read, Write, Edit, Grep, Glob, Agent], agents: [echo], volumes: [notes] }}
volumes:
  notes: {{ path: notes, mode: rw, default: true }}
"#
    )
}

/// What models and tools say, by the word in the prompt that makes them say it.
const SAID: &[&str] = &[
    "say-text",
    "say-thinking",
    "say-lines",
    "say-error",
    "call-tool",
    "call-input",
    "call-missing",
    "call-volume",
    "call-key",
    "call-edit",
    "call-agent",
    "call-stranger",
    "read-lines",
    "read-piece",
    "grep-lines",
    "glob-name",
];

/// Every field of a request to start a run, as a body with the canary in it.
fn spawn_fields() -> Vec<(&'static str, Value)> {
    let c = CANARY;
    vec![
        ("agent", json!({ "agent": c, "prompt": "x" })),
        ("prompt", json!({ "agent": "echo", "prompt": c })),
        (
            "segments.trusted",
            json!({ "agent": "echo", "segments": [{ "role": "user", "content": [{ "type": "trusted_text", "text": c }] }] }),
        ),
        (
            "segments.untrusted",
            json!({ "agent": "echo", "segments": [{ "role": "user", "content": [{ "type": "untrusted_block", "text": c, "kind": c }] }] }),
        ),
        ("segments.role", json!({ "agent": "echo", "segments": [{ "role": c, "content": [] }] })),
        ("tools", json!({ "agent": "echo", "prompt": "x", "tools": [c] })),
        ("session_id", json!({ "agent": "echo", "prompt": "x", "session_id": c })),
        ("agent_id", json!({ "agent": "echo", "prompt": "x", "agent_id": c })),
        ("user_id", json!({ "agent": "echo", "prompt": "x", "user_id": c })),
        ("tenant_id", json!({ "agent": "echo", "prompt": "x", "tenant_id": c })),
        ("parent_context.value", json!({ "agent": "echo", "prompt": "x", "parent_context": { "k": [c] } })),
        ("parent_context.key", json!({ "agent": "echo", "prompt": "x", "parent_context": { c: 1 } })),
        ("metadata.value", json!({ "agent": "echo", "prompt": "x", "metadata": { "k": { "deep": c } } })),
        ("metadata.key", json!({ "agent": "echo", "prompt": "x", "metadata": { c: 1 } })),
        ("user_tier", json!({ "agent": "echo", "prompt": "x", "user_tier": c })),
        ("sampling.stop", json!({ "agent": "echo", "prompt": "x", "sampling": { "stop": [c] } })),
        ("allowed_hosts", json!({ "agent": "echo", "prompt": "x", "allowed_hosts": [c] })),
        ("idempotency_key", json!({ "agent": "echo", "prompt": "x", "idempotency_key": c })),
        ("mode", json!({ "agent": "echo", "prompt": "x", "mode": c })),
        ("unknown key", json!({ "agent": "echo", "prompt": "x", c: 1 })),
        ("wrong type", json!({ "agent": "echo", "prompt": [c] })),
    ]
}

/// Paths, queries and headers of REST: method, path, header, body.
fn rest_fields(run: &str) -> Vec<(&'static str, String, String, String, Value)> {
    let c = CANARY;
    let field =
        |name, method: &str, path: String, header: &str, body| (name, method.to_owned(), path, header.to_owned(), body);
    vec![
        field("path: run", "GET", format!("/v1/runs/{c}"), "", Value::Null),
        field("path: handle", "GET", format!("/v1/agents/{c}"), "", Value::Null),
        field("path: batch", "GET", format!("/v1/batches/{c}"), "", Value::Null),
        field("path: user", "GET", format!("/v1/users/{c}/agents"), "", Value::Null),
        field("path: unknown", "GET", format!("/v1/{c}"), "", Value::Null),
        field("method", "POST", format!("/v1/agents?{c}={c}"), "", json!({})),
        field("query: status", "GET", format!("/v1/runs?status={c}"), "", Value::Null),
        field("query: agent", "GET", format!("/v1/runs?agent={c}"), "", Value::Null),
        field("query: unknown", "GET", format!("/v1/runs?{c}={c}"), "", Value::Null),
        field("query: result_bytes", "GET", format!("/v1/runs/{run}?result_bytes={c}"), "", Value::Null),
        field("query: from_seq", "GET", format!("/v1/runs/{run}/events?from_seq={c}"), "", Value::Null),
        field(
            "header: Last-Event-ID",
            "GET",
            format!("/v1/runs/{run}/events"),
            &format!("Last-Event-ID: {c}"),
            Value::Null,
        ),
        field("header: X-Request-Id", "GET", "/v1/runs".into(), &format!("X-Request-Id: {c}"), Value::Null),
        field(
            "header: Idempotency-Key",
            "POST",
            "/v1/runs".into(),
            &format!("Idempotency-Key: {c}"),
            json!({ "agent": "echo", "prompt": "y" }),
        ),
        field("header: Accept", "GET", "/v1/runs".into(), &format!("Accept: {c}/{c}"), Value::Null),
        field("header: Origin", "GET", "/v1/runs".into(), &format!("Origin: http://{c}"), Value::Null),
        field("artifact name", "GET", format!("/v1/runs/{run}/artifact?name={c}"), "", Value::Null),
        field("artifact find", "GET", format!("/v1/runs/{run}/artifact?find={c}"), "", Value::Null),
        field("cancel: reason", "POST", format!("/v1/runs/{run}/cancel"), "", json!({ "reason": c })),
        field("prune: unknown key", "POST", "/v1/runs:prune".into(), "", json!({ c: c })),
        field(
            "batch: spawn",
            "POST",
            "/v1/runs:batch".into(),
            "",
            json!({ "spawns": [{ "agent": "echo", "prompt": c }, { "agent": c, "prompt": "x" }] }),
        ),
        field("body: no JSON", "POST", "/v1/runs".into(), "", json!(c)),
    ]
}

/// Requests of an MCP host: method and params.
fn mcp_fields(run: &str) -> Vec<(&'static str, &'static str, Value)> {
    let c = CANARY;
    let tool = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    vec![
        (
            "mcp: client",
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": c, "version": c } }),
        ),
        ("mcp: method", "unknown/canary-Vx73Qm-secret-0192837465", json!({})),
        ("mcp: tool", "tools/call", tool(c, json!({}))),
        ("mcp: prompt", "tools/call", tool("spawn_run", json!({ "agent": "echo", "prompt": c }))),
        ("mcp: unknown key", "tools/call", tool("spawn_run", json!({ "agent": "echo", "prompt": "x", c: c }))),
        ("mcp: agent", "tools/call", tool("spawn_run", json!({ "agent": c, "prompt": "x" }))),
        ("mcp: run", "tools/call", tool("get_run", json!({ "run_id": c }))),
        ("mcp: cancel", "tools/call", tool("cancel_run", json!({ "run_id": run, "reason": c }))),
        ("mcp: resource", "resources/read", json!({ "uri": format!("drawloom://runs/{c}") })),
        ("mcp: scheme", "resources/read", json!({ "uri": format!("{c}://x") })),
        ("mcp: prompt name", "prompts/get", json!({ "name": c })),
        (
            "mcp: completion",
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": c }, "argument": { "name": c, "value": c } }),
        ),
        ("mcp: level", "logging/setLevel", json!({ "level": c })),
        ("mcp: task", "tasks/get", json!({ "taskId": c })),
    ]
}

/// Sends a request and reads everything that comes back, head included.
fn send(server: &Server, method: &str, path: &str, header: &str, body: &Value) -> String {
    let address = server.url.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
    let accept = if header.contains("Accept") { "" } else { "Accept: application/json, text/event-stream\r\n" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{accept}{header}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut answer = Vec::new();
    // A connection that the server ends early has said what it had to say.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Every text that would give one of the secrets away.
fn given_away() -> Vec<String> {
    [CANARY, LINES, TOKEN].into_iter().flat_map(forms).collect()
}

fn files_below(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files_below(&path, found),
            false => found.push((path.display().to_string(), std::fs::read(&path).expect("a file"))),
        }
    }
}

#[test]
fn a_secret_that_is_planted_in_every_field_is_found_nowhere() {
    let home = Home::new();
    home.write("drawloom.yaml", &config());
    home.write("notes/lines.txt", LINES);
    home.write("notes/one.txt", &format!("x {CANARY} y"));
    home.write(&format!("notes/{CANARY}.txt"), "a name");
    let with_secrets = |command: &mut std::process::Command| {
        command.env("DRAWLOOM_TOKEN", TOKEN).env("CANARY_ONE", CANARY).env("CANARY_LINES", LINES);
    };
    let mut command = home.command(&["serve", "--json", "--log", "debug", "--config", "drawloom.yaml"]);
    with_secrets(&mut command);
    let mut server = home.serve_with(command);
    let mut log = server.read_log();
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    let mut fields = 0;
    let run = {
        let answer = send(
            &server,
            "POST",
            "/v1/runs",
            "Accept: application/json",
            &json!({ "agent": "echo", "prompt": "plain" }),
        );
        let at = answer.find("\"run_id\":\"").expect("a run") + 10;
        answer[at..at + 34].to_owned()
    };
    for (name, body) in spawn_fields() {
        for accept in ["Accept: application/json", "Accept: text/event-stream"] {
            seen.push((format!("spawn {name}"), send(&server, "POST", "/v1/runs", accept, &body).into()));
        }
        fields += 1;
    }
    let all_forms = given_away();
    for form in &all_forms {
        let body = json!({ "agent": "echo", "prompt": format!("<{form}>") });
        seen.push((
            format!("form {form}"),
            send(&server, "POST", "/v1/runs", "Accept: text/event-stream", &body).into(),
        ));
    }
    for word in SAID {
        let body = json!({ "agent": "echo", "prompt": word });
        seen.push((
            format!("said {word}"),
            send(&server, "POST", "/v1/runs", "Accept: text/event-stream", &body).into(),
        ));
        fields += 1;
    }
    for (name, method, path, header, body) in rest_fields(&run) {
        seen.push((name.to_owned(), send(&server, &method, &path, &header, &body).into()));
        fields += 1;
    }
    for era in [Era::Sessions, Era::Stateless] {
        let client = Client::new(&server.url, era).with_token(TOKEN).opened();
        for (name, method, params) in mcp_fields(&run) {
            let exchange = client.send(&client.request(7, method, params));
            let head = format!("{} {:?}", exchange.status, exchange.headers);
            seen.push((name.to_owned(), (head + &exchange.text()).into()));
        }
    }
    fields += mcp_fields(&run).len();
    for arguments in [
        &["run", "echo", CANARY, "--json"][..],
        &["run", CANARY, "x"],
        &["runs", "list", "--user", CANARY],
        &["runs", "show", CANARY],
        &["call", "get_run", &format!("run_id={CANARY}")],
    ] {
        let mut command = home.command(arguments);
        with_secrets(&mut command);
        let ran = home.finish(&mut command);
        seen.push((format!("command {}", arguments[0]), format!("{}{}", ran.stdout, ran.stderr).into()));
        fields += 1;
    }
    let list = send(&server, "GET", "/v1/runs?limit=200", "", &Value::Null);
    let runs: Vec<String> = list.match_indices("\"r_").map(|(at, _)| list[at + 1..at + 35].to_owned()).collect();
    assert!(runs.len() > 30, "only {} runs: {list}", runs.len());
    for run in &runs {
        for path in ["", "/events", "/replay", "/artifact"] {
            let path = format!("/v1/runs/{run}{path}");
            seen.push((path.clone(), send(&server, "GET", &path, "", &Value::Null).into()));
        }
    }
    for path in [
        "/v1/runs?limit=200",
        "/metrics",
        "/healthz",
        "/v1/agents",
        "/v1/_models",
        "/v1/_me",
        "/openapi.json",
        "/v1/_concurrency/stats",
    ] {
        seen.push((path.to_owned(), send(&server, "GET", path, "", &Value::Null).into()));
    }
    files_below(&home.data(), &mut seen);
    server.stop_in_order();
    let mut logged = String::new();
    log.read_to_string(&mut logged).expect("text");
    assert!(logged.lines().count() > 10, "there is a log: {logged}");
    seen.push(("the log".to_owned(), logged.into()));
    files_below(&home.data(), &mut seen);
    let mut wrong = Vec::new();
    for (name, bytes) in &seen {
        let text = String::from_utf8_lossy(bytes);
        if let Some(form) = all_forms.iter().find(|form| text.contains(form.as_str())) {
            let at = text.find(form.as_str()).unwrap_or(0);
            let around: String = text[text.floor_char_boundary(at.saturating_sub(120))..].chars().take(300).collect();
            wrong.push(format!("{name}: {form:?} in …{around}…"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} places:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
    let masked = seen.iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("[redacted]")).count();
    assert!(masked > 50, "only {masked} places were masked: the canary did not get far");
    use std::io::Write as _;
    writeln!(
        std::io::stderr(),
        "canary: planted in {fields} fields and {} forms, searched in {} answers, streams, logs and files",
        all_forms.len(),
        seen.len()
    )
    .expect("stderr");
}
