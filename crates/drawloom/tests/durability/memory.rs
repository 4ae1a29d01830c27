//! The tool `Memory` in a run whose server is killed around every one of its commits: each change happens once, and its answer
//! is the same as without a crash.

use serde_json::{Value, json};

use crate::{http::get, process::Case};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: Memory, input: { op: incr, key: n, delta: 3 } }] }
        - { when: { turn: 2 }, calls: [{ tool: Memory, input: { op: append_dedupe, key: l, value: "{{run}}" } }] }
        - { when: { turn: 3 }, calls: [{ tool: Memory, input: { op: append_dedupe, key: l, value: "{{run}}" } }] }
        - { when: { turn: 4 }, calls: [{ tool: Memory, input: { op: bounded_list, key: b, value: 1, limit: 1 } }] }
        - { when: { turn: 5 }, calls: [{ tool: Memory, input: { op: merge, key: o, value: { a: 1 } } }] }
        - { when: { turn: 6 }, calls: [{ tool: Memory, input: { op: set, key: s, value: x, if_revision: 0 } }] }
        - { when: { turn: 7 }, calls: [{ tool: Memory, input: { op: delete, key: s } }] }
        - { text: "deleted: {{last}}" }
defaults: { provider: script, model: m }
agents:
  keeper: { tools: [Memory], agents: [], hosts: [], memory_scopes: [agent] }
"#;

/// Every key of the agent with its value, revision apart, and the final text of the run.
fn outcome(url: &str) -> (Value, Value) {
    let run = get(url, "/v1/agents/keeper?wait_ms=60000");
    assert_eq!(run["status"], "completed", "{run}");
    let page = get(url, "/v1/memory/agent/keys?agent=keeper&include_provenance=true");
    let entries = page["entries"].as_array().expect("entries");
    for entry in entries {
        assert_eq!(entry["provenance"]["run_id"], run["run_id"], "{entry}");
        assert_eq!(entry["provenance"]["agent"], "keeper");
    }
    let values = entries.iter().map(|entry| json!([entry["key"], entry["value"]])).collect();
    // Every start of the server takes revisions of its own.
    let text = run["final_text"].as_str().expect("a text");
    let text = text.split("\"revision\"").next().unwrap_or_default();
    (values, text.into())
}

fn run(kill: Option<&str>) -> (Value, Value, Vec<String>) {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({ "points": case.path("points"), "kill": kill }));
    let ask = json!({ "agent": "keeper", "prompt": "go", "agent_id": "keeper", "mode": "detach" });
    let answer = crate::http::post(&server.url, "/v1/runs", &ask);
    // A server that is killed may be killed before its answer is read; the run is durable by then.
    assert!(answer.is_ok() || kill.is_some(), "{answer:?}");
    let (values, text) = match kill {
        None => outcome(&server.url),
        Some(_) => {
            server.ended();
            let again = case.start(&json!({}));
            outcome(&again.url)
        }
    };
    let values = serde_json::from_str(&values.to_string().replace(&run_of(&values), "RUN")).expect("JSON");
    (values, text, case.lines("points"))
}

/// The id of the run, which the list holds.
fn run_of(values: &Value) -> String {
    let of_list = values.as_array().into_iter().flatten().find(|entry| entry[0] == "l");
    of_list.and_then(|entry| entry[1][0].as_str()).expect("the run's id").to_owned()
}

#[test]
fn killed_around_any_commit_of_memory_a_run_ends_as_if_nothing_had_happened() {
    let (values, text, points) = run(None);
    assert_eq!(text, "deleted: {\"deleted\":true,");
    assert_eq!(values, json!([["b", [1]], ["l", ["RUN"]], ["n", 3], ["o", {"a": 1}]]));
    let points: Vec<&String> = points.iter().filter(|point| point.contains(":value")).collect();
    assert_eq!(
        points.len(),
        14,
        "before and after each of seven changes, also of one that changed nothing: {points:?}"
    );
    for point in points {
        let (killed, said, _) = run(Some(point));
        assert_eq!(killed, values, "killed {point}");
        assert_eq!(said, text, "killed {point}");
    }
}
