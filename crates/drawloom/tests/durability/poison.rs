//! A run whose model turn kills the process, among others that are only slow: it alone is quarantined, after few deaths.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::{
    http::{Response, post, send},
    kill::report_number,
    process::Case,
    prove::pass,
};

/// Runs that are in flight at every death.
const RUNS: usize = 8;

/// Three deaths make suspects of all, three more halve them down to one, which must be found twice.
const MOST_DEATHS: usize = 3 + 3 + 2;

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { agent: slow }, text: done, delay_ms: 1000 }
        - { when: { agent: stuck }, text: done, delay_ms: 3600000 }
        - { text: done }
concurrency: { max_concurrent_runs: 32 }
agents:
  slow: { provider: script, model: m }
  stuck: { provider: script, model: m }
  quick: { provider: script, model: m }
  poison: { provider: script, model: m }
"#;

/// Says that it is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn only_the_run_that_kills_the_process_is_quarantined() {
    let case = Case::new(CONFIG);
    let settings = json!({ "poison": "poison", "sync": false });
    let (mut deaths, mut answered, mut batch) = (0, 0, None);
    let results = loop {
        assert!(deaths <= MOST_DEATHS, "{deaths} deaths, and the run is not quarantined");
        let mut server = case.start(&settings);
        if server.url.is_empty() {
            server.ended();
            deaths += 1;
            continue;
        }
        let (others, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done = std::thread::scope(|scope| {
            // Ordinary runs all the while; the last one of each process may be cut off by its death.
            scope.spawn(|| {
                let body = json!({ "agent": "quick", "prompt": "x" });
                while !over.load(Ordering::Relaxed)
                    && let Ok(result) = post(&server.url, "/v1/runs", &body).and_then(Response::json)
                {
                    assert_eq!(result["status"], "completed");
                    others.fetch_add(1, Ordering::Relaxed);
                }
            });
            let _over = Over(&over);
            if batch.is_none() {
                // The last one is the one: it is in the second half of every group.
                let agent = |number| if number + 1 == RUNS { "poison" } else { "slow" };
                let spawns: Vec<Value> =
                    (0..RUNS).map(|number| json!({ "agent": agent(number), "prompt": "x" })).collect();
                let body = json!({ "spawns": spawns, "mode": "detach", "idempotency_key": "k" });
                let answer = post(&server.url, "/v1/runs:batch", &body).ok()?;
                batch = answer.header("drawloom-batch-id").map(str::to_owned);
            }
            let path = format!("/v1/batches/{}?wait_ms=60000", batch.as_ref()?);
            let done = send(&server.url, "GET", &path, &[], "").and_then(Response::json);
            done.ok().filter(|done| done["results"].is_array())
        });
        match done {
            Some(done) => {
                answered += others.into_inner();
                break done["results"].as_array().cloned().expect("checked");
            }
            None => {
                server.ended();
                deaths += 1;
                answered += others.into_inner();
            }
        }
    };
    let statuses: Vec<&str> = results.iter().map(|result| result["status"].as_str().unwrap_or_default()).collect();
    assert_eq!(statuses[..RUNS - 1], ["completed"; RUNS - 1]);
    assert_eq!((statuses[RUNS - 1], &results[RUNS - 1]["error"]["code"]), ("failed", &json!("quarantined")));
    // Processes that die at once answer nothing.
    report_number(&format!(
        "one of {RUNS} runs kills the process: quarantined after {deaths} deaths, {answered} others answered"
    ));
}

/// Waits until the model was asked this many times in all.
fn until_asked(case: &Case, times: usize) {
    while case.lines("calls").len() < times {
        pass(5);
    }
}

#[test]
fn an_ordinary_run_is_answered_while_suspects_are_tried() {
    let case = Case::new(CONFIG);
    let settings = json!({ "sync": false });
    let spawns = vec![json!({ "agent": "stuck", "prompt": "x" }); 4];
    let mut server = case.start(&settings);
    post(&server.url, "/v1/runs:batch", &json!({ "spawns": spawns, "mode": "detach" })).expect("an answer");
    // Three unclean ends, each with all four in flight, make suspects of them.
    for death in 1..=3 {
        until_asked(&case, 4 * death);
        server.kill();
        server = case.start(&settings);
    }
    // The first two are on trial, which takes 30 s; the other two wait for its end, and ordinary runs do not.
    until_asked(&case, 4 * 3 + 2);
    let result = post(&server.url, "/v1/runs", &json!({ "agent": "quick", "prompt": "x" })).and_then(Response::json);
    assert_eq!(result.expect("an answer")["status"], "completed");
    assert_eq!(case.lines("calls").len(), 4 * 3 + 2 + 1, "the trial is over, and the run was answered only then");
}
