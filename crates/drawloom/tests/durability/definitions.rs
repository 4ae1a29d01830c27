//! The tool `AgentDef` in a run whose server is killed around every one of its commits: each version is made once, and the run
//! ends as without a crash.

use serde_json::{Value, json};

use crate::{http::get, process::Case};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: AgentDef, input: { op: create, name: made, source: { system_prompt: One., tools: [] } } }] }
        - { when: { turn: 2 }, calls: [{ tool: AgentDef, input: { op: fork, name: made, changes: { system_prompt: Two. } } }] }
        - { when: { turn: 3 }, calls: [{ tool: AgentDef, input: { op: promote, name: made, version: 2 } }] }
        - { when: { turn: 4 }, calls: [{ tool: AgentDef, input: { op: create, kind: channel, name: talk, source: { max_messages: 5 } } }] }
        - { when: { turn: 5 }, calls: [{ tool: AgentDef, input: { op: fork, kind: channel, name: talk, promote: true, changes: { max_messages: 6 } } }] }
        - { when: { turn: 6 }, calls: [{ tool: AgentDef, input: { op: retire, name: made, version: 1 } }] }
        - { text: "{{last}}" }
defaults: { provider: script, model: m }
agents:
  maker: { tools: [AgentDef], agents: [], hosts: [], volumes: [], definitions: [agent, channel], channels: { publish: [talk] } }
"#;

/// The versions, without times, and what the last call answered.
fn outcome(url: &str) -> (Value, Value) {
    let run = get(url, "/v1/agents/maker?wait_ms=60000");
    assert_eq!(run["status"], "completed", "{run}");
    let pages = ["/v1/definitions?name=made", "/v1/definitions?kind=channel&name=talk"].map(|path| get(url, path));
    let rows = pages.iter().flat_map(|page| page["versions"].as_array().expect("versions"));
    let rows =
        rows.map(|row| json!([row["def_id"], row["parent"], row["retired"], row["active"], row["content_sha256"]]));
    let channels = get(url, "/v1/channels");
    assert_eq!(channels["channels"][0]["max_messages"], 6, "{channels}");
    let shown = get(url, "/v1/definitions/agent/made");
    assert_eq!(shown["maker"]["run_id"], run["run_id"], "{shown}");
    let mut last: Value = serde_json::from_str(run["final_text"].as_str().expect("a text")).expect("JSON");
    for field in ["created_at", "maker"] {
        last.as_object_mut().expect("fields").remove(field);
    }
    (rows.collect(), last)
}

fn run(kill: Option<&str>) -> (Value, Value, Vec<String>) {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({ "points": case.path("points"), "kill": kill }));
    let ask = json!({ "agent": "maker", "prompt": "go", "agent_id": "maker", "mode": "detach" });
    let answer = crate::http::post(&server.url, "/v1/runs", &ask);
    // A server that is killed may be killed before its answer is read; the run is durable by then.
    assert!(answer.is_ok() || kill.is_some(), "{answer:?}");
    let (versions, last) = match kill {
        None => outcome(&server.url),
        Some(_) => {
            server.ended();
            let again = case.start(&json!({}));
            outcome(&again.url)
        }
    };
    (versions, last, case.lines("points"))
}

#[test]
fn killed_around_any_commit_of_a_definition_a_run_ends_as_if_nothing_had_happened() {
    let (versions, last, points) = run(None);
    assert_eq!(versions.as_array().map(Vec::len), Some(4), "{versions}");
    assert_eq!((&versions[0][2], &versions[1][3]), (&json!(true), &json!(true)), "{versions}");
    let points: Vec<&String> = points.iter().filter(|point| point.contains(":value")).collect();
    assert!(points.len() >= 12, "before and after each of six changes: {points:?}");
    for point in points {
        let (killed, said, _) = run(Some(point));
        assert_eq!(killed, versions, "killed {point}");
        assert_eq!(said, last, "killed {point}");
    }
}
