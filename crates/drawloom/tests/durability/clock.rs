//! A real server whose wall clock is set back and forth by days while runs wait.

use serde_json::{Value, json};

use crate::{
    http::{Response, get, post},
    process::{Case, Server},
};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { agent: slow }, text: done, delay_ms: 600000 }
        - { when: { agent: busy, attempt: 1 }, fail: { kind: throttled, retry_after_ms: 1000 } }
        - { text: done }
agents:
  slow: { provider: script, model: m }
  busy: { provider: script, model: m }
"#;

const DAY_MS: i64 = 86_400_000;

/// Sets the wall clock of the case's server.
fn set_clock(case: &Case, by_ms: i64) {
    std::fs::write(case.path("clock.new"), by_ms.to_string()).expect("a file");
    std::fs::rename(case.path("clock.new"), case.path("clock")).expect("a file");
}

fn start(server: &Server, agent: &str, timeout_ms: Option<u64>) -> String {
    let mut body = json!({ "agent": agent, "prompt": "x", "mode": "detach" });
    if let Some(timeout) = timeout_ms {
        body["timeout_ms"] = json!(timeout);
    }
    let answer = post(&server.url, "/v1/runs", &body).and_then(Response::json).expect("accepted");
    answer["run_id"].as_str().expect("an id").to_owned()
}

/// The end of a run, for which a minute is waited.
fn end(server: &Server, run: &str) -> Value {
    let result = get(&server.url, &format!("/v1/runs/{run}?wait_ms=60000"));
    assert!(!["queued", "running", "waiting"].contains(&result["status"].as_str().unwrap_or_default()), "{result}");
    result
}

#[test]
fn jumps_of_the_wall_clock_neither_stall_a_wait_nor_cut_one_short() {
    let case = Case::new(CONFIG);
    let settings = json!({ "clock": case.path("clock"), "sync": false });
    let mut server = case.start(&settings);
    // Back by ten days: what waits would wait for ten days more by the wall clock.
    let (deadline, retry) = (start(&server, "slow", Some(1_500)), start(&server, "busy", None));
    set_clock(&case, -10 * DAY_MS);
    assert_eq!(end(&server, &deadline)["error"]["code"], "timeout");
    assert_eq!(end(&server, &retry)["status"], "completed");
    // Forward by twenty: a run with ten minutes left has ten minutes left.
    let long = start(&server, "slow", Some(600_000));
    set_clock(&case, 10 * DAY_MS);
    let retry = start(&server, "busy", None);
    assert_eq!(end(&server, &retry)["status"], "completed");
    assert_eq!(get(&server.url, &format!("/v1/runs/{long}"))["status"], "running");
    // Only a restart asks the wall clock, and an end that this brings says so.
    server.kill();
    set_clock(&case, 20 * DAY_MS);
    // Also when the process that notices is killed before it ends the run: this one dies at its first commit.
    let dies = json!({ "clock": case.path("clock"), "sync": false, "kill": "before *" });
    case.start(&dies).ended();
    let server = case.start(&settings);
    let ended = end(&server, &long);
    assert_eq!(ended["error"]["code"], "timeout");
    let message = ended["error"]["message"].as_str().unwrap_or_default();
    // Thirty days since the run began, give or take what the start took.
    let days = message.split("set forward by ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    assert!(days.is_some_and(|seconds| (seconds / 86_400.0 - 30.0).abs() < 0.1), "{message}");
}
