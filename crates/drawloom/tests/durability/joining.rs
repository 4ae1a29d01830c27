//! Joining a batch, through the end of the client that joined and of the server that served it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    http::{get, post, send},
    process::Case,
};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { contains: "item 7 " }, fail: { kind: refused, message: no } }
        - { text: "did {{prompt}}", delay_ms: 60 }
concurrency: { max_concurrent_runs: 4 }
agents:
  worker: { provider: script, model: m, tools: [] }
"#;

fn batch(key: &str) -> Value {
    let spawns: Vec<Value> = (0..32).map(|i| json!({ "agent": "worker", "prompt": format!("item {i} ") })).collect();
    json!({ "spawns": spawns, "mode": "join", "idempotency_key": key })
}

fn check(result: &Value, cancelled: Option<usize>) {
    let results = result["results"].as_array().expect("results");
    assert_eq!(results.len(), 32);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        match index {
            7 => assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!("model_refused"))),
            _ if Some(index) == cancelled => assert_eq!(result["status"], "cancelled", "{result}"),
            _ => assert_eq!(result["final_text"], format!("did item {index} "), "{result}"),
        }
    }
}

/// Most model calls that were under way at the same time, from the times that the answers give.
fn most_at_once(result: &Value) -> usize {
    let mut edges = Vec::new();
    for result in result["results"].as_array().expect("results") {
        let time = |name: &str| result["timings"][name].as_str().map(str::to_owned);
        if let (Some(from), Some(to)) = (time("started_at"), time("ended_at")) {
            edges.push((from, 1i32));
            edges.push((to, -1));
        }
    }
    // An end and a beginning at the same millisecond: the end came first.
    edges.sort();
    let (mut now, mut most) = (0i32, 0i32);
    for (_, step) in edges {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).expect("a count")
}

#[test]
fn a_batch_of_32_behind_4_slots_ends_whole_through_a_lost_client_and_a_killed_server() {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({}));
    // The first client joins and goes away as soon as it knows the batch's id.
    let answer = post(&server.url, "/v1/runs:batch", &batch("k")).expect("an answer");
    let id = answer.header("drawloom-batch-id").expect("the id comes before the wait").to_owned();
    drop(answer);
    // One that still waits for a slot is cancelled.
    let now = get(&server.url, &format!("/v1/batches/{id}"));
    let last = &now["results"][31];
    assert_eq!(last["status"], "queued", "{last}");
    assert!(last["position"].as_u64().is_some_and(|place| place > 4), "{last}");
    let run = last["run_id"].as_str().expect("an id");
    let cancelled = post(&server.url, &format!("/v1/runs/{run}/cancel"), &json!({})).and_then(|answer| answer.json());
    assert_eq!(cancelled.expect("an answer")["cancelled"], true);
    // Another client re-attaches with the key; the server dies under it.
    let answer = post(&server.url, "/v1/runs:batch", &batch("k")).expect("an answer");
    assert_eq!(answer.header("drawloom-batch-id"), Some(id.as_str()));
    server.kill();
    assert!(answer.json().is_err(), "the wait was cut off");
    // The next server ends the batch, for the key and for the id.
    let server = case.start(&json!({}));
    let by_key = post(&server.url, "/v1/runs:batch", &batch("k")).and_then(|answer| answer.json()).expect("a result");
    check(&by_key, Some(31));
    let by_id = get(&server.url, &format!("/v1/batches/{id}?wait_ms=60000"));
    assert_eq!(by_id["results"], by_key["results"]);
    assert!(most_at_once(&by_key) <= 4, "{} at once", most_at_once(&by_key));
    let mut asked = BTreeMap::<String, usize>::new();
    for line in case.lines("calls") {
        *asked.entry(line.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    assert_eq!(asked.len(), 31, "the cancelled one was never asked");
    assert!(asked.values().filter(|times| **times > 1).count() <= 4, "only what was in flight is asked again");
}

#[test]
fn a_detached_batch_answers_at_once_and_goes_on() {
    let case = Case::new(CONFIG);
    let server = case.start(&json!({}));
    let mut body = batch("d");
    body["mode"] = json!("detach");
    let answer = post(&server.url, "/v1/runs:batch", &body).expect("an answer");
    assert_eq!(answer.status, 202);
    let id = answer.header("drawloom-batch-id").expect("an id").to_owned();
    assert!(answer.json().expect("ids")["results"].as_array().is_some_and(|results| results.len() == 32));
    check(&get(&server.url, &format!("/v1/batches/{id}?wait_ms=60000")), None);
}

#[test]
fn the_same_key_is_one_run_at_the_same_time_and_across_a_restart_and_another_body_is_a_conflict() {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({}));
    let body = json!({ "agent": "worker", "prompt": "once", "idempotency_key": "k" });
    let url = server.url.clone();
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let asks: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    post(&url, "/v1/runs", &body).and_then(|answer| answer.json()).expect("a result")["run_id"].clone()
                })
            })
            .collect();
        asks.into_iter().map(|ask| ask.join().expect("no panic")).collect()
    });
    assert!(ids.iter().all(|id| id.is_string() && *id == ids[0]), "{ids:?}");
    server.kill();
    let server = case.start(&json!({}));
    let again = post(&server.url, "/v1/runs", &body).and_then(|answer| answer.json()).expect("a result");
    assert_eq!((&again["run_id"], &again["final_text"]), (&ids[0], &json!("did once")));
    assert_eq!(case.lines("calls").len(), 1);
    let other = json!({ "agent": "worker", "prompt": "another", "idempotency_key": "k" });
    let answer = post(&server.url, "/v1/runs", &other).expect("an answer");
    assert_eq!(answer.status, 409);
    assert_eq!(answer.json().expect("an error")["error"]["code"], "idempotency_key_reused");
    let health = send(&server.url, "GET", "/healthz", &[], "").expect("an answer");
    assert_eq!(health.status, 200);
}
