//! Files that a consumer takes as soon as they are written: killed at every point, each message goes out once.

use std::{collections::BTreeMap, fs, path::Path, sync::Mutex};

use serde_json::{Value, json};

use crate::{
    http::post,
    kill::{for_each, report_number},
    process::Case,
};

/// New files beside each other, an edit that the consumer undoes, and a new file in a new directory.
const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: { turn: 1 }
          calls:
            - { tool: Write, input: { path: message-1, content: one } }
            - { tool: Write, input: { path: message-2, content: two } }
        - when: { turn: 2 }
          calls: [{ tool: Edit, input: { path: state, old_string: idle, new_string: go } }]
        - when: { turn: 3 }
          calls: [{ tool: Write, input: { path: deep/er/message-3, content: three } }]
        - text: sent
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  sender: { provider: script, model: m, tools: [Write, Edit] }
"#;

/// Takes every message that there is, and answers the edit; counts both.
fn consume(files: &Path, taken: &mut BTreeMap<String, usize>) {
    for path in ["message-1", "message-2", "deep/er/message-3"] {
        if let Ok(content) = fs::read_to_string(files.join(path)) {
            *taken.entry(content).or_default() += 1;
            fs::remove_file(files.join(path)).expect("it was just there");
        }
    }
    if fs::read_to_string(files.join("state")).expect("the state") == "go" {
        *taken.entry("go".to_owned()).or_default() += 1;
        fs::write(files.join("state"), "idle").expect("the state");
    }
}

fn request() -> Value {
    json!({ "agent": "sender", "prompt": "go", "idempotency_key": "the one" })
}

fn case() -> Case {
    let case = Case::new(CONFIG);
    fs::write(case.path("files/state"), "idle").expect("a file");
    case
}

/// Kills at a point, consumes, starts again and consumes again. Says what is wrong.
fn crash_at(point: &str) -> Result<(), String> {
    let (case, mut taken) = (case(), BTreeMap::new());
    let files = case.path("files");
    let mut server = case.start(&json!({ "kill": point }));
    if let Ok(answer) = post(&server.url, "/v1/runs", &request())
        && answer.json().is_ok()
    {
        return Err("the run ended without passing it".into());
    }
    server.ended();
    consume(&files, &mut taken);
    let server = case.start(&json!({}));
    let answer = post(&server.url, "/v1/runs", &request()).map_err(|error| format!("no answer: {error}"))?;
    let result = answer.json().map_err(|error| format!("no result: {error}"))?;
    if result["status"] != "completed" {
        return Err(format!("it ended as {result}"));
    }
    consume(&files, &mut taken);
    let wanted = ["go", "one", "three", "two"].map(|message| (message.to_owned(), 1));
    if taken != BTreeMap::from(wanted) {
        return Err(format!("messages went out {taken:?}"));
    }
    let run = result["run_id"].as_str().unwrap_or_default();
    let events = crate::kill::events(&server.url, run);
    if let Some((_, doubt)) = events.iter().find(|(event, data)| event == "tool_result" && data["is_error"] == true) {
        return Err(format!("a call came to {doubt}"));
    }
    // The start removes what a call that was never journaled had staged.
    drop(server);
    let left: Vec<_> = fs::read_dir(&files).expect("the directory").flatten().map(|entry| entry.file_name()).collect();
    let staged: Vec<_> = left.iter().filter(|name| name.to_string_lossy().starts_with(".drawloom-")).collect();
    if staged.is_empty() { Ok(()) } else { Err(format!("left behind: {staged:?}")) }
}

/// The points that a run passes which is not killed.
pub(crate) fn points_of(case: &Case, request: &Value) -> Vec<String> {
    let server = case.start(&json!({ "points": case.path("points") }));
    let answer = post(&server.url, "/v1/runs", request).expect("an answer");
    assert_eq!(answer.json().expect("a result")["status"], "completed");
    let mut points = case.lines("points");
    points.sort();
    points.dedup();
    points
}

/// Crashes at each point; nothing may be wrong.
pub(crate) fn crash_at_each(points: &[String], crash_at: impl Fn(&str) -> Result<(), String> + Sync) {
    let wrong = Mutex::new(Vec::new());
    for_each(points, |point| {
        if let Err(why) = crash_at(point) {
            wrong.lock().expect("no panic while held").push(format!("{point}: {why}"));
        }
        false
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    assert!(wrong.is_empty(), "{} of {} points:\n{}", wrong.len(), points.len(), wrong.join("\n"));
}

#[test]
fn killed_at_every_point_each_consumed_file_was_written_once() {
    let points = points_of(&case(), &request());
    crash_at_each(&points, crash_at);
    assert!(points.len() >= 15, "only {} points: {points:?}", points.len());
    report_number(&format!("consumed files: killed at {} points, every message went out once", points.len()));
}
