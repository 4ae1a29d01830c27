//! A storm: 200 runs against a provider with a concurrency limit of 5 that refuses the rest at once. What happened is read
//! from the provider's own log.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use drawloom_testkit::providers::{Call, Outcome};
use serde_json::{Value, json};

use crate::{
    http::{Response, get, post},
    kill::report_number,
    process::Case,
};

const RUNS: usize = 200;
const LIMIT: usize = 5;
const TAKES_MS: f64 = 200.0;

/// A provider in a process of its own.
pub(crate) struct Provider {
    child: Child,
    pub(crate) address: String,
}

impl Provider {
    pub(crate) fn start(arguments: &[&str], log: &Path) -> Self {
        let program: PathBuf = Path::new(env!("CARGO_BIN_EXE_drawloom")).with_file_name("examples").join("provider");
        assert!(program.exists(), "{} is missing: cargo build -p drawloom-testkit --examples", program.display());
        let mut child = Command::new(program)
            .args(["--max-concurrent", &LIMIT.to_string(), "--delay-ms", &TAKES_MS.to_string()])
            .args(arguments)
            .arg("--log")
            .arg(log)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the provider starts");
        let mut address = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut address).expect("an address");
        Self { child, address: address.trim().to_owned() }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(driver: &str, address: &str, slots: usize) -> String {
    format!(
        "providers:\n  busy: {{ driver: {driver}, base_url: 'http://{address}' }}\n\
         agents:\n  worker: {{ provider: busy, model: m, tools: [] }}\n\
         concurrency: {{ max_concurrent_runs: {slots} }}\n"
    )
}

/// Seconds in flight of all calls together between two times.
fn in_flight(calls: &[&Call], from: f64, to: f64) -> f64 {
    calls.iter().map(|call| (call.ended_ms.min(to) - call.started_ms.max(from)).max(0.0)).sum()
}

fn storm(driver: &str, slots: usize, arguments: &[&str]) {
    let scratch = tempfile::tempdir().expect("a directory");
    let log = scratch.path().join("calls");
    let provider = Provider::start(&[&["--shape", driver], arguments].concat(), &log);
    let case = Case::new(&config(driver, &provider.address, slots));
    let server = case.start(&json!({}));
    let mut batches = Vec::new();
    for part in (0..RUNS).collect::<Vec<_>>().chunks(32) {
        let spawns: Vec<Value> =
            part.iter().map(|run| json!({ "agent": "worker", "prompt": format!("say {run}") })).collect();
        let batch = post(&server.url, "/v1/runs:batch", &json!({ "spawns": spawns, "mode": "detach" }));
        let batch = batch.and_then(Response::json).expect("a batch");
        batches.push(batch["batch_id"].as_str().expect("an id").to_owned());
    }
    let mut number = 0;
    for batch in batches {
        let done = get(&server.url, &format!("/v1/batches/{batch}?wait_ms=120000"));
        for result in done["results"].as_array().expect("results") {
            assert_eq!(result["status"], "completed", "{result}");
            assert_eq!(result["final_text"], format!("You said: say {number}"));
            number += 1;
        }
    }
    assert_eq!(number, RUNS);
    let text = std::fs::read_to_string(&log).expect("a log");
    let calls: Vec<Call> = text.lines().map(|line| serde_json::from_str(line).expect("a call")).collect();
    let completed: Vec<&Call> = calls.iter().filter(|call| call.outcome == Outcome::Whole).collect();
    assert_eq!(completed.len(), RUNS);
    let begun = calls.iter().map(|call| call.started_ms).fold(f64::INFINITY, f64::min);
    let ended = completed.iter().map(|call| call.ended_ms).fold(0.0, f64::max);
    let took = ended - begun;
    // From how long calls really took, which on a busy machine is longer than the provider means.
    let ideal = completed.iter().map(|call| call.ended_ms - call.started_ms).sum::<f64>() / LIMIT as f64;
    let third = begun + took * 2.0 / 3.0;
    let late: Vec<&Call> = calls.iter().filter(|call| call.started_ms >= third).collect();
    let refused = late.iter().filter(|call| call.outcome == Outcome::Crowded).count();
    let level = in_flight(&completed, third, ended) / (ended - third);
    let all = calls.len() - RUNS;
    report_number(&format!(
        "storm, {driver}, {slots} slots, {}: {:.2} times the ideal time, {all} of {} calls refused; in the last third {level:.1} in \
         flight, {refused} of {} refused",
        arguments.join(" "),
        took / ideal,
        calls.len(),
        late.len()
    ));
    // A busy machine takes time between two calls, in which none of them is in flight.
    assert!((3.0..=7.0).contains(&level), "{level} calls in flight");
    assert!(refused * 10 < late.len(), "{refused} of {} calls refused", late.len());
    assert!(took <= 1.5 * ideal, "{took} ms where {ideal} ms are ideal");
}

#[test]
fn a_storm_ends_when_the_provider_says_nothing_of_when() {
    storm("anthropic", RUNS, &["--retry-after", "none"]);
}

#[test]
fn a_storm_ends_when_the_provider_says_how_many_seconds() {
    storm("openai", 8, &["--retry-after", "seconds:1"]);
}

#[test]
fn a_storm_ends_when_the_provider_says_a_date() {
    storm("anthropic", RUNS, &["--retry-after", "date:2"]);
}

#[test]
fn a_storm_ends_when_the_provider_is_overloaded() {
    storm("deepseek", 8, &["--retry-after", "none", "--refuse", "503"]);
}
