//! SIGKILL keeps the page cache, so it cannot show a commit that never reached the disk. `strace` can: before each answer
//! that carries an id there must be a sync.

use serde_json::json;

use crate::{http::post, process::Case};

/// An agent without tools, so that nothing but the store syncs.
const CONFIG: &str = r#"
providers: { script: { driver: script } }
agents:
  echo: { provider: script, model: m, tools: [] }
"#;

/// Answers with an id, and how many of them had no sync between the request and them.
fn unsynced_answers(sync: bool) -> (usize, usize) {
    let case = Case::new(CONFIG);
    let trace = case.path("trace");
    let trace_name = trace.display().to_string();
    let strace = [
        "strace",
        "-f",
        "-s",
        "2048",
        "-e",
        "trace=fsync,fdatasync,recvfrom,read,sendto,write,writev,sendmsg",
        "-o",
        &trace_name,
    ];
    let mut server = case.start_under(&strace, &json!({ "sync": sync }));
    for key in ["a", "b", "c"] {
        let body = json!({ "agent": "echo", "prompt": "hello", "idempotency_key": key });
        let answer = post(&server.url, "/v1/runs", &body).expect("an answer");
        assert_eq!(answer.json().expect("a result")["status"], "completed");
    }
    server.kill();
    let (mut answers, mut unsynced, mut synced) = (0, 0, false);
    for line in std::fs::read_to_string(&trace).expect("a trace").lines() {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        if call.contains("POST /v1/runs") {
            synced = false;
        } else if (call.starts_with("fsync") || call.starts_with("fdatasync") || call.starts_with("<... f"))
            && call.ends_with("= 0")
        {
            synced = true;
        } else if call.to_ascii_lowercase().contains("drawloom-run-id") {
            answers += 1;
            unsynced += usize::from(!synced);
        }
    }
    (answers, unsynced)
}

#[test]
fn every_answer_that_carries_an_id_comes_after_a_sync() {
    assert_eq!(unsynced_answers(true), (3, 0));
}

#[test]
fn the_probe_catches_a_store_that_does_not_sync() {
    let (answers, unsynced) = unsynced_answers(false);
    assert_eq!((answers, unsynced), (3, 3));
}
