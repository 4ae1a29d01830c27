//! Staged files of calls that fail: killed at every point, none stays in the volume once the next server is up.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    consumed::{crash_at_each, points_of},
    http::post,
    process::Case,
};

/// Both edits are staged, and the one that comes second finds nothing to replace.
const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: { turn: 1 }
          calls:
            - { tool: Edit, input: { path: in.txt, old_string: some, new_string: "no" } }
            - { tool: Edit, input: { path: in.txt, old_string: some, new_string: "all" } }
        - text: edited
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  editor: { provider: script, model: m, tools: [Edit] }
"#;

/// Longer than anything here takes.
const HANGS: Duration = Duration::from_secs(60);

fn request() -> Value {
    json!({ "agent": "editor", "prompt": "go", "idempotency_key": "the one" })
}

/// Kills at a point and starts again. Says what is wrong.
fn crash_at(point: &str) -> Result<(), String> {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({ "kill": point }));
    if post(&server.url, "/v1/runs", &request()).is_ok_and(|answer| answer.json().is_ok()) {
        return Err("the run ended without passing it".into());
    }
    server.ended();
    let server = case.start(&json!({}));
    let answer = post(&server.url, "/v1/runs", &request()).map_err(|error| format!("no answer: {error}"))?;
    let result = answer.json().map_err(|error| format!("no result: {error}"))?;
    if result["status"] != "completed" {
        return Err(format!("it ended as {result}"));
    }
    // What the last call staged is removed beside the run.
    let begun = Instant::now();
    loop {
        let entries = fs::read_dir(case.path("files")).expect("the directory").flatten();
        let staged: Vec<_> = entries
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with(".drawloom-"))
            .collect();
        match staged.is_empty() {
            true => return Ok(()),
            false if begun.elapsed() > HANGS => return Err(format!("left behind: {staged:?}")),
            false => std::thread::yield_now(),
        }
    }
}

#[test]
fn killed_at_every_point_no_staged_file_of_a_failed_call_stays() {
    let points = points_of(&Case::new(CONFIG), &request());
    crash_at_each(&points, crash_at);
    assert!(points.len() >= 8, "only {} points: {points:?}", points.len());
}
