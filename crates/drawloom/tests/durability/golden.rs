//! Data directories of earlier versions: they open, their runs are as they were, and what was unfinished goes on.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    http::{Response, get, post, send},
    process::{Case, Server},
};

/// Every released version and every format of the store since has a directory here, with the config and the store of a
/// server that was killed.
fn golden(version: &str) -> Case {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version);
    let case = Case::new(&std::fs::read_to_string(from.join("drawloom.yaml")).expect("a config"));
    std::fs::create_dir(case.path("data")).expect("a directory");
    std::fs::copy(from.join("drawloom.db"), case.path("data/drawloom.db")).expect("a store");
    case
}

#[test]
fn a_directory_of_0_1_0_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on("0.1.0", "2026-11-17");
}

#[test]
fn a_directory_of_format_5_is_opened_and_what_it_left_goes_on() {
    let (case, url, _server) = opens_and_goes_on("format-5", "2026-11-17T10:05");
    let of = |user: &str| get(&url, &format!("/v1/runs?limit=100&user_id={user}"))["runs"].as_array().map(Vec::len);
    assert_eq!((of("ada"), of("bob"), of("default")), (Some(6), Some(5), Some(3)));
    drop(case);
}

#[test]
fn a_directory_of_format_6_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on("format-6", "2026-11-17T12:40");
}

fn opens_and_goes_on(version: &str, made_before: &str) -> (Case, String, Server) {
    let case = golden(version);
    let server = case.start(&json!({}));
    let url = server.url.clone();
    // What had ended is as it was.
    let done = get(&url, "/v1/agents/golden-done");
    assert_eq!((&done["status"], &done["final_text"]), (&json!("completed"), &json!("quick says hello")));
    assert_eq!(done.get("cost"), None);
    let failed = get(&url, "/v1/agents/golden-failed");
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("model_refused")));
    let long = get(&url, "/v1/agents/golden-long");
    assert_eq!(long["final_text"].as_str().map(str::len), Some(9_000));
    let path = format!("/v1/runs/{}/events", done["run_id"].as_str().expect("an id"));
    let events = send(&url, "GET", &path, &[], "").and_then(Response::text).expect("events");
    assert!(events.contains("\"thinking\":\"hm\""), "{events}");
    // The same request is still the same batch.
    let spawns = json!([{ "agent": "quick", "prompt": "a" }, { "agent": "quick", "prompt": "b" }]);
    let same = json!({ "spawns": spawns, "idempotency_key": "golden-key" });
    let same = post(&url, "/v1/runs:batch", &same).and_then(Response::json).expect("an answer");
    assert_eq!(same["results"][1]["final_text"], "quick says b");
    assert!(same["results"][0]["timings"]["accepted_at"].as_str().is_some_and(|time| time < made_before), "{same}");
    // What was unfinished ends: running, queued, parked for a time and parked for children.
    for (handle, text) in [
        ("golden-slow-1", "slow says later"),
        ("golden-slow-5", "slow says later"),
        ("golden-timer", "quick says wait"),
    ] {
        let run = get(&url, &format!("/v1/agents/{handle}?wait_ms=60000"));
        assert_eq!((&run["status"], &run["final_text"]), (&json!("completed"), &json!(text)), "{run}");
    }
    let parent = get(&url, "/v1/agents/golden-parent?wait_ms=60000");
    let text = parent["final_text"].as_str().expect("a text");
    assert!(text.contains("quick says first") && text.contains("slow says second"), "{text}");
    // And every journal can be folded again.
    let page = get(&url, "/v1/runs?limit=100");
    let runs = page["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 14);
    for run in runs {
        let id = run["run_id"].as_str().expect("an id");
        let replay = get(&url, &format!("/v1/runs/{id}/replay"));
        assert_eq!((&replay["ok"], &replay["fold_error"]), (&json!(true), &Value::Null), "{replay}");
    }
    (case, url, server)
}
