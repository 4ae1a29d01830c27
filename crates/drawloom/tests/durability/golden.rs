//! Data directories of earlier versions: they open, their runs are as they were, and what was unfinished goes on.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use drawloom_contract::time::Timestamp;
use serde_json::{Value, json};

use crate::{
    http::{Response, get, post, send},
    process::Case,
};

/// A directory of `tests/golden`: the config and the store of a server that was killed. The README there says how one is made.
struct Golden {
    directory: &'static str,
    /// When its last run was accepted, in milliseconds since 1970. Deadlines and retention go by the wall clock, so the server that
    /// opens the directory has its clock a minute after that.
    last: i64,
    /// How many runs the users ada, bob and default have.
    users: [usize; 3],
}

const ALL: &[&Golden] = &[
    &FORMAT_1, &FORMAT_2, &FORMAT_3, &FORMAT_4, &FORMAT_5, &FORMAT_6, &FORMAT_7, &FORMAT_8, &FORMAT_9, &FORMAT_10,
    &FORMAT_11,
];

const FORMAT_1: Golden = Golden { directory: "0.1.0", last: 1_794_801_892_513, users: [0, 0, 14] };
const FORMAT_2: Golden = Golden { directory: "format-2", last: 1_794_930_198_993, users: [6, 5, 3] };
const FORMAT_3: Golden = Golden { directory: "format-3", last: 1_794_930_111_583, users: [6, 5, 3] };
const FORMAT_4: Golden = Golden { directory: "format-4", last: 1_794_929_890_330, users: [6, 5, 3] };
const FORMAT_5: Golden = Golden { directory: "format-5", last: 1_794_909_853_454, users: [6, 5, 3] };
const FORMAT_6: Golden = Golden { directory: "format-6", last: 1_794_918_741_858, users: [6, 4, 4] };
const FORMAT_7: Golden = Golden { directory: "format-7", last: 1_794_930_512_582, users: [6, 5, 3] };
const FORMAT_8: Golden = Golden { directory: "format-8", last: 1_794_940_628_302, users: [6, 5, 3] };
const FORMAT_9: Golden = Golden { directory: "format-9", last: 1_794_953_512_739, users: [6, 5, 3] };
const FORMAT_10: Golden = Golden { directory: "format-10", last: 1_794_989_031_916, users: [6, 5, 3] };
const FORMAT_11: Golden = Golden { directory: "format-11", last: 1_795_123_479_997, users: [6, 5, 3] };

impl Golden {
    fn copy(&self) -> Case {
        let from = directories().join(self.directory);
        let case = Case::new(&std::fs::read_to_string(from.join("drawloom.yaml")).expect("a config"));
        std::fs::create_dir(case.path("data")).expect("a directory");
        std::fs::copy(from.join("drawloom.db"), case.path("data/drawloom.db")).expect("a store");
        case
    }

    /// When the server that opens it begins.
    fn opened_at(&self) -> Timestamp {
        Timestamp::from_millis(self.last + 60_000)
    }
}

fn directories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn every_directory_is_opened_by_a_test() {
    let entries = std::fs::read_dir(directories()).expect("a directory").map(|entry| entry.expect("an entry"));
    let found: BTreeSet<_> = entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name()).collect();
    let opened: BTreeSet<_> = ALL.iter().map(|golden| golden.directory.into()).collect();
    assert_eq!(found, opened);
}

#[test]
fn a_directory_of_0_1_0_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_1);
}

#[test]
fn a_directory_of_format_2_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_2);
}

#[test]
fn a_directory_of_format_3_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_3);
}

#[test]
fn a_directory_of_format_4_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_4);
}

#[test]
fn a_directory_of_format_5_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_5);
}

#[test]
fn a_directory_of_format_6_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_6);
}

#[test]
fn a_directory_of_format_7_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_7);
}

#[test]
fn a_directory_of_format_8_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_8);
}

#[test]
fn a_directory_of_format_9_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_9);
}

#[test]
fn a_directory_of_format_10_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_10);
}

#[test]
fn a_directory_of_format_11_is_opened_and_what_it_left_goes_on() {
    opens_and_goes_on(&FORMAT_11);
}

/// That program kept a channel of runtime in a place of its own, without the versions before the last.
#[test]
fn a_channel_made_at_runtime_before_channels_had_versions_is_one_of_the_definitions() {
    let case = FORMAT_10.copy();
    let start = || case.start(&json!({ "clock": case.path("clock"), "begins_at": FORMAT_10.opened_at() }));
    let shown = |url: &str| {
        let shown = get(url, "/v1/definitions/channel/golden-channel");
        json!([shown["def_id"], shown["active"], shown["source"]])
    };
    let source = json!({ "description": "Golden.", "scope": "user", "max_messages": 40 });
    let mut server = start();
    assert_eq!(shown(&server.url), json!(["golden-channel@2", true, source]));
    let ask =
        json!({ "kind": "channel", "from": "golden-channel", "changes": { "max_messages": 30 }, "promote": true });
    let forked = post(&server.url, "/v1/definitions:fork", &ask).and_then(Response::json).expect("an answer");
    assert_eq!((&forked["def_id"], &forked["parent"]), (&json!("golden-channel@3"), &json!("golden-channel@2")));
    server.kill();
    let server = start();
    let source = json!({ "description": "Golden.", "scope": "user", "max_messages": 30 });
    assert_eq!(shown(&server.url), json!(["golden-channel@3", true, source]));
    let ask = json!({ "user_id": "ada" });
    let read = post(&server.url, "/v1/channels/golden-channel/subscribe", &ask).and_then(Response::json);
    let read = read.expect("an answer");
    assert_eq!((&read["messages"][0]["value"], &read["messages"][1]["value"]), (&json!(1), &json!(2)), "{read}");
}

/// The index of format 9 has the words of every value; from format 10 on it may be behind.
#[test]
fn memory_of_format_9_is_found_by_its_words_and_follows_changes() {
    let case = FORMAT_9.copy();
    let server = case.start(&json!({ "clock": case.path("clock"), "begins_at": FORMAT_9.opened_at() }));
    let found = |word: &str| {
        let hits = get(&server.url, &format!("/v1/memory/tenant/search?query={word}"));
        hits["entries"].as_array().expect("entries").iter().map(|hit| hit["entry"]["value"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("words"), [json!("the golden words")]);
    assert_eq!(found("first"), [json!(null); 0]);
    let path = "/v1/memory/tenant/keys/golden";
    send(
        &server.url,
        "PUT",
        path,
        &[("Content-Type", "application/json")],
        &json!({ "value": "newer words" }).to_string(),
    )
    .expect("an answer");
    assert_eq!(found("words"), [json!("newer words")]);
    assert_eq!(found("golden").len(), 1, "it is the key");
    assert_eq!(found("the"), [json!(null); 0]);
}

fn opens_and_goes_on(golden: &Golden) {
    let case = golden.copy();
    let server = case.start(&json!({ "clock": case.path("clock"), "begins_at": golden.opened_at() }));
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
    let accepted = same["results"][0]["timings"]["accepted_at"].as_str();
    assert!(accepted.is_some_and(|time| *time < *golden.opened_at().to_rfc3339()), "{same}");
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
    let of = |user| get(&url, &format!("/v1/runs?limit=100&user_id={user}"))["runs"].as_array().map(Vec::len);
    assert_eq!(["ada", "bob", "default"].map(of), golden.users.map(Some));
}
