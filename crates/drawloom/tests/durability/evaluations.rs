//! The tool `Evaluation` in a run whose server is killed around every one of its commits: each evaluation is there once, and what the
//! agent was told is the same as without a crash.

use serde_json::{Value, json};

use crate::{http::get, process::Case};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{run}}", score: 0.5 } }] }
        - { when: { turn: 2 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{run}}", score: 0.6, tag: t, dimensions: { d: 0.1 } } }] }
        - { when: { turn: 3 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{run}}", score: 0.7, tag: t } }] }
        - { when: { turn: 4 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{run}}", score: 0.7, tag: t } }] }
        - { text: "{{last}}" }
defaults: { provider: script, model: m }
agents:
  judge: { tools: [Evaluation], agents: [], hosts: [], evaluation_scopes: [submit_self] }
"#;

/// The evaluations of the run without what differs from run to run, what its agent was told last, and how many its definition counts.
fn outcome(url: &str) -> (Value, Value, Value) {
    let run = get(url, "/v1/agents/judge?wait_ms=60000");
    assert_eq!(run["status"], "completed", "{run}");
    let id = run["run_id"].as_str().expect("a run");
    let page = get(url, &format!("/v1/runs/{id}/evaluations"));
    let listed = page["evaluations"].as_array().expect("a list").iter();
    let listed = listed.map(|it| json!([it["tag"], it["score"], it["revision"], it["replaced"]["score"]])).collect();
    let told: Value = serde_json::from_str(run["final_text"].as_str().expect("a text")).expect("an answer");
    let told = json!([told["score"], told["revision"], told["unchanged"], told["replaced"]["score"]]);
    (listed, told, get(url, "/v1/evaluations:aggregate?agent=judge")["count"].clone())
}

fn run(kill: Option<&str>) -> ((Value, Value, Value), Vec<String>) {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({ "points": case.path("points"), "kill": kill }));
    let ask = json!({ "agent": "judge", "prompt": "go", "agent_id": "judge", "mode": "detach" });
    let answer = crate::http::post(&server.url, "/v1/runs", &ask);
    // A server that is killed may be killed before its answer is read; the run is durable by then.
    assert!(answer.is_ok() || kill.is_some(), "{answer:?}");
    let outcome = match kill {
        None => outcome(&server.url),
        Some(_) => {
            server.ended();
            let again = case.start(&json!({}));
            outcome(&again.url)
        }
    };
    (outcome, case.lines("points"))
}

#[test]
fn killed_around_any_commit_of_an_evaluation_a_run_ends_as_if_nothing_had_happened() {
    let (outcome, points) = run(None);
    let listed = json!([["t", 0.7, 2, 0.6], [null, 0.5, 1, null]]);
    assert_eq!(outcome, (listed, json!([0.7, 2, true, 0.6]), json!(2)));
    let points: Vec<&String> = points.iter().filter(|point| point.contains(":value")).collect();
    assert_eq!(
        points.len(),
        8,
        "before and after each of four submissions, also of one that changed nothing: {points:?}"
    );
    // Keys have times and ids in them, which differ from run to run.
    let starts =
        points.iter().filter_map(|point| point.split_once(":value").map(|(start, _)| format!("{start}:value*")));
    for point in starts {
        assert_eq!(run(Some(&point)).0, outcome, "killed {point}");
    }
}
