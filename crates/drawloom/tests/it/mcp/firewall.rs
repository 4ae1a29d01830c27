//! What children read and say does not flood whoever asked.

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    home, runs, server,
};

/// What must never reach the host.
const CANARY: &str = "canary-7f3a9c1e";

#[test]
fn ten_children_of_a_megabyte_come_back_as_outlines_that_can_be_read_in_parts() {
    let home = home();
    let long: String = (0..4_000).map(|line| format!("line {line} {}\n", "x".repeat(40))).collect();
    let file = format!("# First\n{long}needle\n");
    // The teller says it six times over.
    let text = file.repeat(6);
    assert!(text.len() > 1_000_000);
    home.write("notes/long.txt", &file);
    home.write("notes/short.txt", "short");
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let mut spawns: Vec<Value> = (0..9).map(|_| json!({ "agent": "teller", "prompt": "long.txt" })).collect();
    spawns.push(json!({ "agent": "teller", "prompt": "short.txt" }));
    let mut call = client.begin(1, "spawn_runs", json!({ "spawns": spawns }), json!({ "progressToken": 1 }));
    let answer = call.answer();
    assert!(call.seen.len() < 64 * 1024, "{} bytes came back", call.seen.len());
    let results = answer["result"]["structuredContent"]["results"].as_array().expect("results").clone();
    assert_eq!(results[9]["final_text"], "short".repeat(6));
    let artifact = &results[0]["artifact"];
    assert_eq!(artifact["bytes"], text.len());
    assert!(artifact["outline"].as_str().is_some_and(|outline| outline.starts_with("1: # First\n4003: # First\n")));
    assert!(results[0].get("final_text").is_none());

    let run_id = results[0]["run_id"].clone();
    let read = |ask: Value| client.call("read_artifact", ask)["structuredContent"].clone();
    let found = read(json!({ "run_id": run_id, "grep": "^needle$", "context": 1 }));
    assert_eq!(found["matches"], 6);
    assert!(found["text"].as_str().is_some_and(|text| text.contains("\n4002: needle\n4003- # First\n")), "{found}");
    let part = read(json!({ "run_id": run_id, "from_line": 3, "lines": 1 }));
    assert!(part["text"].as_str().is_some_and(|text| text.starts_with("line 1 ")), "{part}");
    let (mut whole, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let part = read(json!({ "run_id": run_id, "offset": offset, "max_bytes": 262_144 }));
        whole.push_str(part["text"].as_str().expect("a text"));
        offset = part["next_offset"].clone();
        assert_eq!(part["sha256"], artifact["sha256"]);
    }
    assert!(whole == text, "the parts are not the whole");
    let bad = client.call("read_artifact", json!({ "run_id": run_id, "grep": "(" }));
    assert!(bad["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("bad_pattern")), "{bad}");
}

/// What ten readers of files with the canary brought onto the connection, and their results.
fn fan_out(prompt: impl Fn(usize) -> String) -> (String, Vec<Value>, Vec<String>, usize) {
    let home = home();
    for index in 0..10 {
        let lines = "a line\n".repeat(index + 1);
        home.write(&format!("notes/slice{index}.txt"), &format!("{lines}{CANARY}\n"));
        home.write(&format!("notes/echo{index}.txt"), &format!("{lines}{CANARY}\n"));
    }
    let server = home.serve();
    let client = Client::open(&server.url, Era::Sessions);
    let spawns: Vec<Value> = (0..10).map(|index| json!({ "agent": "reader", "prompt": prompt(index) })).collect();
    let mut call = client.begin(1, "spawn_runs", json!({ "spawns": spawns }), json!({ "progressToken": 1 }));
    let answer = call.answer();
    let results = answer["result"]["structuredContent"]["results"].as_array().expect("results").clone();
    let bytes = std::mem::take(&mut call.seen);
    let rest = Client::new(&server.url, Era::Sessions);
    let journals: Vec<String> = results
        .iter()
        .map(|one| {
            let id = one["run_id"].as_str().expect("an id");
            rest.clone()
                .at(&format!("/v1/runs/{id}/artifact?name=journal&max_bytes=262144"))
                .send_as("GET", None)
                .text()
        })
        .collect();
    let times: Vec<(String, String)> = runs(&server.url)
        .iter()
        .map(|run| {
            let time = |name: &str| run["timings"][name].as_str().expect("a time").to_owned();
            (time("started_at"), time("ended_at"))
        })
        .collect();
    let most = times.iter().map(|(at, _)| times.iter().filter(|(from, to)| from <= at && at < to).count()).max();
    (bytes, results, journals, most.unwrap_or(0))
}

#[test]
fn what_ten_children_read_is_in_their_journals_and_nowhere_on_the_connection() {
    let (bytes, results, journals, at_once) = fan_out(|index| format!("slice{index}.txt"));
    assert_eq!(results.len(), 10);
    for (index, one) in results.iter().enumerate() {
        assert_eq!(one["index"], index);
        assert_eq!(one["final_text"], format!("{} lines are in slice{index}.txt", index + 2));
    }
    assert!(at_once <= 4, "{at_once} at once");
    assert!(journals.iter().all(|journal| journal.contains(CANARY)), "a journal lacks what was read");
    assert!(!bytes.contains(CANARY), "the canary is on the connection");
}

#[test]
fn a_child_that_says_what_it_read_is_caught() {
    let name = |index| if index == 3 { "echo3.txt".to_owned() } else { format!("slice{index}.txt") };
    let (bytes, _, _, _) = fan_out(name);
    assert!(bytes.contains(CANARY), "the recorder does not see what goes over the connection");
}

#[test]
fn what_the_caller_hands_down_does_not_come_back_as_a_flood() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Stateless);
    let spawn =
        |bytes: usize| json!({ "agent": "echo", "prompt": "x", "parent_context": { "note": "n".repeat(bytes) } });
    let long = client.call("spawn_run", spawn(20_000));
    assert!(long["isError"] == true && long.to_string().contains("too_long"), "{long}");
    let spawns: Vec<Value> = (0..10).map(|_| spawn(10_000)).collect();
    let batch = client.call("spawn_runs", json!({ "spawns": spawns }));
    assert!(batch.to_string().len() < 60_000, "{}", batch.to_string().len());
    let short = client.call("spawn_run", spawn(10));
    assert_eq!(short["structuredContent"]["parent_context"]["note"], "n".repeat(10));
}
