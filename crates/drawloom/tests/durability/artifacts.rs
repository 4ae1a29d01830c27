//! The tool `Artifact` in a run whose server is killed around every one of its commits: each write happens once, and a name that the
//! call took itself before the crash is not in its way.

use serde_json::{Value, json};

use crate::{
    http::{get, post},
    process::Case,
};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: Artifact, input: { op: write, name: a.md, text: "one\n" } }] }
        - { when: { turn: 2 }, calls: [{ tool: Artifact, input: { op: write, name: a.md, text: "two\n" } }] }
        - { when: { turn: 3 }, calls: [{ tool: Artifact, input: { op: write, name: a.md, text: "three\n", replace: true } }] }
        - { text: "{{last}}" }
defaults: { provider: script, model: m }
agents:
  writer: { tools: [Artifact], agents: [], hosts: [] }
"#;

/// What the run was told about each write, what is kept, and the points that the server passed.
fn run(kill: Option<&str>) -> (Vec<Value>, Value, Vec<String>) {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({ "points": case.path("points"), "kill": kill }));
    let ask = json!({ "agent": "writer", "prompt": "go", "agent_id": "writer", "mode": "detach" });
    let answer = post(&server.url, "/v1/runs", &ask);
    // A server that is killed may be killed before its answer is read; the run is durable by then.
    assert!(answer.is_ok() || kill.is_some(), "{answer:?}");
    if kill.is_some() {
        server.ended();
        server = case.start(&json!({}));
    }
    let run = get(&server.url, "/v1/agents/writer?wait_ms=60000");
    assert_eq!(run["status"], "completed", "{run}");
    let id = run["run_id"].as_str().expect("an id");
    let journal = get(&server.url, &format!("/v1/runs/{id}/artifact?name=journal&max_bytes=200000"));
    let records = journal["text"].as_str().expect("records").lines();
    let bodies = records.map(|line| serde_json::from_str::<Value>(line).expect("JSON")["body"].take());
    let told = bodies.filter(|body| body["kind"] == "call_done");
    let told = told.map(|body| body["text"].as_str().expect("a text").replace(id, "RUN").into());
    let mut kept = get(&server.url, &format!("/v1/runs/{id}/artifacts"))["artifacts"].take();
    for artifact in kept.as_array_mut().into_iter().flatten() {
        assert_eq!(artifact["run_id"], run["run_id"]);
        artifact["replaced"]["run_id"].take();
        for field in ["run_id", "at", "call"] {
            artifact[field].take();
        }
    }
    (told.collect(), kept, case.lines("points"))
}

#[test]
fn killed_around_any_write_of_an_artifact_a_run_ends_as_if_nothing_had_happened() {
    let (told, kept, points) = run(None);
    assert!(told[0].as_str().is_some_and(|text| text.contains("\"bytes\":4")), "{told:?}");
    assert!(told[1].as_str().is_some_and(|text| text.contains("artifact a.md already exists")), "{told:?}");
    assert_eq!((&kept[0]["bytes"], &kept[1]), (&json!(6), &Value::Null));
    let points: Vec<&String> = points.iter().filter(|point| point.contains(":value")).collect();
    assert_eq!(points.len(), 5, "the second write is refused, so it has no point after it: {points:?}");
    for point in points {
        let (told_again, kept_again, _) = run(Some(point));
        assert_eq!((&told_again, &kept_again), (&told, &kept), "killed {point}");
    }
}
