//! A real server whose wall clock is set back and forth by days while runs wait.

use serde_json::{Value, json};

use crate::{
    http::{Response, get, post},
    process::{Case, Server},
};

const CONFIG: &str = r#"
channels: { jobs: {} }
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

/// The keys of memory and the messages that callers see.
fn seen(server: &Server) -> (Vec<String>, Vec<String>) {
    let list = get(&server.url, "/v1/memory/tenant/keys");
    let keys = list["entries"].as_array().expect("entries").iter();
    let keys = keys.map(|entry| entry["key"].as_str().expect("a key").to_owned());
    let page = get(&server.url, "/v1/channels/jobs/peek");
    let messages = page["messages"].as_array().expect("messages").iter();
    (keys.collect(), messages.map(|message| message["value"].as_str().expect("a text").to_owned()).collect())
}

fn change(server: &Server, path: &str, body: &Value) {
    let answer = post(&server.url, path, body).expect("answered");
    let (status, text) = (answer.status, answer.text().unwrap_or_default());
    assert_eq!(status, 200, "{path}: {text}");
}

#[test]
fn what_is_kept_for_a_while_does_not_follow_the_wall_clock() {
    const YEAR_MS: i64 = 365 * DAY_MS;
    let case = Case::new(CONFIG);
    let settings = json!({ "clock": case.path("clock"), "sync": false });
    let mut server = case.start(&settings);
    for (key, seconds) in [("long", 3_600), ("short", 1)] {
        change(&server, &format!("/v1/memory/tenant/keys/{key}"), &json!({ "op": "incr", "ttl_seconds": seconds }));
        change(&server, "/v1/channels/jobs/publish", &json!({ "value": key, "ttl": seconds }));
    }
    change(&server, "/v1/channels/jobs/publish", &json!({ "value": "late", "deliver_after_ms": 3_600_000 }));
    let long = || (vec!["long".to_owned()], vec!["long".to_owned()]);
    // A second passes for real.
    let all = seen(&server);
    assert!(all == long() || all.0.len() == 2, "{all:?}");
    while seen(&server) != long() {}
    // Ahead by a year, back by two, and back by a day; with a crash and a restart after each.
    for jump in [YEAR_MS, -YEAR_MS, -DAY_MS, 0] {
        set_clock(&case, jump);
        assert_eq!(seen(&server), long(), "the clock is off by {jump}");
        server.kill();
        server = case.start(&settings);
        assert_eq!(seen(&server), long(), "after a restart with a clock that is off by {jump}");
    }
    // What is due soon comes soon.
    set_clock(&case, -10 * DAY_MS);
    change(&server, "/v1/channels/jobs/publish", &json!({ "value": "soon", "deliver_after_ms": 1 }));
    while seen(&server).1.len() < 2 {}
}
