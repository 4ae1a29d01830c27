//! The soak: a mixed load for a while, and then the server has no more memory, descriptors or threads than before.

use std::{
    io::Read as _,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde_json::{Value, json};

use super::{Dice, pass, say, setting};
use crate::{
    http::{self, Response, get, post, send},
    process::{Case, Server},
};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { agent: slow }, delay_ms: 60000, text: never }
        - when: { agent: lead, turn: 1 }
          calls:
            - tool: Agent
              input: { op: parallel_spawn, spawns: [{ name: worker, prompt: one }, { name: worker, prompt: two }] }
        - when: { agent: worker, turn: 1 }
          calls: [{ tool: Write, input: { path: "{{prompt}}.txt", content: "of {{run}}" } }, { tool: Read, input: { path: in.txt } }]
        - { text: "done {{last}}", chunks: 20, delay_ms: 5 }
concurrency: { max_concurrent_runs: 16 }
defaults: { provider: script, model: m }
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  lead: { tools: [Agent], agents: [worker], hosts: [] }
  worker: { tools: [Read, Write], agents: [], hosts: [] }
  slow: { tools: [], agents: [], hosts: [] }
"#;

/// Seconds from which on memory is looked at: before, caches still fill.
const LONG: u64 = 300;

/// What the process holds.
#[derive(Debug, Clone, Copy)]
struct Sample {
    memory: u64,
    descriptors: u64,
    threads: u64,
}

impl Sample {
    fn of(server: &Server) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").count() as u64;
        Self { memory: number("VmRSS:") * 1024, descriptors, threads: number("Threads:") }
    }
}

/// One caller: what it does is by chance.
fn call(url: &str, dice: &mut Dice, done: &AtomicU64) {
    let wait = |agent: &str| json!({ "agent": agent, "prompt": "go" });
    let detached = |agent: &str| {
        let mut ask = wait(agent);
        ask["mode"] = json!("detach");
        post(url, "/v1/runs", &ask).and_then(Response::json).expect("an answer")["run_id"].clone()
    };
    match dice.roll(0, 6) {
        0 => assert_eq!(answered(url, &wait("worker"))["status"], "completed"),
        1 => assert_eq!(answered(url, &wait("lead"))["status"], "completed"),
        2 => {
            let run = detached("slow");
            let run = run.as_str().expect("an id");
            let cancelled = post(url, &format!("/v1/runs/{run}/cancel"), &json!({})).and_then(Response::json);
            assert_eq!(cancelled.expect("an answer")["cancelled"], true);
        }
        // A follower that leaves in the middle, and one that stays to the end.
        3 | 4 => {
            let run = detached("lead");
            let path = format!("/v1/runs/{}/events", run.as_str().expect("an id"));
            let mut events = send(url, "GET", &path, &[], "").expect("a stream").into_chunks();
            if dice.roll(0, 2) == 0 {
                events.read_to_end(&mut Vec::new()).expect("a whole stream");
            } else {
                events.read_exact(&mut [0; 64]).expect("some events");
            }
        }
        _ => mcp(url),
    }
    done.fetch_add(1, Ordering::Relaxed);
}

fn answered(url: &str, ask: &Value) -> Value {
    post(url, "/v1/runs", ask).and_then(Response::json).expect("an answer")
}

/// An MCP session: opened, used, closed.
fn mcp(url: &str) {
    let accept = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let open = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "soak", "version": "1" } } });
    let answer = send(url, "POST", "/mcp", &accept, &open.to_string()).expect("an answer");
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    drop(answer.text());
    let headers = [accept[0], accept[1], ("Mcp-Session-Id", session.as_str())];
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "spawn_run", "arguments": { "agent": "worker", "prompt": "go" } } }),
    ] {
        drop(send(url, "POST", "/mcp", &headers, &message.to_string()).expect("an answer").text());
    }
    drop(http::send(url, "DELETE", "/mcp", &headers, ""));
}

fn mean(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.memory).sum::<u64>() / samples.len().max(1) as u64
}

#[test]
fn a_mixed_load_leaves_nothing_behind() {
    let (seed, seconds) = (setting("PROVE_SEED", 11), setting("PROVE_SECONDS", 15));
    let case = Case::new(CONFIG);
    let server = case.start(&json!({}));
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (url, over, done) = (&server.url, &over, &done);
            scope.spawn(move || {
                let mut dice = Dice::new(seed + number);
                while !over.load(Ordering::Relaxed) {
                    call(url, &mut dice, done);
                }
            });
        }
        for _ in 0..seconds {
            pass(1_000);
            samples.push(Sample::of(&server));
        }
        over.store(true, Ordering::Relaxed);
    });
    // Whatever was detached ends, and connections that were left are noticed.
    let rest = || get(&server.url, "/v1/_concurrency/stats")["active"].as_u64().unwrap_or_default();
    for _ in 0..600 {
        if rest() == 0 {
            break;
        }
        pass(100);
    }
    assert_eq!(rest(), 0, "runs are still active");
    // The process as it is without load, from a server that did the same for a moment.
    let third = samples.len() / 3;
    let (warm, last) = (samples[third], samples[samples.len() - 1]);
    let mut end = Sample::of(&server);
    // Threads for blocking work end ten seconds after their last one.
    let settled = |end: &Sample| end.descriptors <= warm.descriptors && end.threads <= warm.threads + 16;
    for _ in 0..600 {
        if settled(&end) {
            break;
        }
        pass(100);
        end = Sample::of(&server);
    }
    say(&format!("seed {seed}, {seconds} s, {} calls, warm after {third} s", done.load(Ordering::Relaxed)));
    let show = |what: &str, sample: &Sample| {
        let Sample { memory, descriptors, threads } = sample;
        say(&format!("{what}: {:.1} MB, {descriptors} descriptors, {threads} threads", *memory as f64 / 1e6));
    };
    show("warm", &warm);
    show("last under load", &last);
    show("after the load", &end);
    assert!(done.load(Ordering::Relaxed) > 5, "hardly anything was done");
    assert!(end.descriptors <= warm.descriptors + 4, "{warm:?}, then {end:?}");
    assert!(end.threads <= warm.threads + 16, "{warm:?}, then {end:?}");
    let (second, third) = (mean(&samples[third..2 * third]), mean(&samples[2 * third..]));
    say(&format!(
        "memory: {:.1} MB in the second third, {:.1} MB in the last",
        second as f64 / 1e6,
        third as f64 / 1e6
    ));
    if seconds >= LONG {
        assert!(third <= second + second / 10 + (8 << 20), "memory grows: {second}, then {third}");
    }
}
