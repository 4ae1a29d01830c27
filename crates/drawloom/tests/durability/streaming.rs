//! An event stream that is cut off anywhere and taken up again shows each journaled event once, in order, and the text
//! that its reader rebuilt is the run's.

use std::io::Read;

use serde_json::{Value, json};

use crate::{
    http::{post, send},
    process::Case,
};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, text: "let me look at it ", chunks: 5, calls: [{ tool: Ledger, input: { line: x } }] }
        - { when: { turn: 2, attempt: 1 }, text: "this will be taken back", chunks: 6, chunk_delay_ms: 1, fail: { kind: cut, after_chunks: 4 } }
        - { text: "the last word äöü is rebuilt", chunks: 7, chunk_delay_ms: 1 }
agents:
  talker: { provider: script, model: m, tools: [Ledger] }
"#;

/// One event as it stood on the wire.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    name: String,
    id: Option<u64>,
    data: Value,
}

/// Whole events of a stream that may be cut anywhere.
fn parse(bytes: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(bytes);
    let Some(end) = text.rfind("\n\n") else { return Vec::new() };
    text[..end]
        .split("\n\n")
        .filter_map(|frame| {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            Some(Event {
                name: field("event: ")?.to_owned(),
                id: field("id: ").and_then(|id| id.parse().ok()),
                data: serde_json::from_str(field("data: ")?).expect("JSON"),
            })
        })
        .collect()
}

/// The text of the newest turn, as a reader has it: deltas, replaced by `message`, taken back by `turn_reset`.
fn rebuild(events: &[Event]) -> String {
    let (mut turn, mut text) = (0, String::new());
    for event in events {
        let number = event.data["turn"].as_u64().unwrap_or_default();
        match event.name.as_str() {
            "text" => {
                if number != turn {
                    (turn, text) = (number, String::new());
                }
                let offset = usize::try_from(event.data["offset"].as_u64().expect("an offset")).expect("it fits");
                // A reader that came late begins in the middle; the message will have it all.
                if offset == text.len() {
                    text.push_str(event.data["text"].as_str().expect("a text"));
                }
            }
            "message" => (turn, text) = (number, event.data["text"].as_str().expect("a text").to_owned()),
            "turn_reset" => (turn, text) = (number, String::new()),
            _ => {}
        }
    }
    text
}

fn request() -> Value {
    json!({ "agent": "talker", "prompt": "go" })
}

#[test]
fn cut_off_at_any_byte_a_stream_goes_on_where_it_was() {
    let case = Case::new(CONFIG);
    let server = case.start(&json!({}));
    let headers = [("Content-Type", "application/json")];
    let answer = send(&server.url, "POST", "/v1/runs", &headers, &request().to_string()).expect("a stream");
    let run = answer.header("drawloom-run-id").expect("an id").to_owned();
    let mut whole = Vec::new();
    answer.into_chunks().read_to_end(&mut whole).expect("to the end");
    let all = parse(&whole);
    let journaled: Vec<&Event> = all.iter().filter(|event| event.id.is_some()).collect();
    assert!(journaled.windows(2).all(|pair| pair[0].id < pair[1].id), "in order");
    assert_eq!(all.iter().filter(|event| event.name == "done" || event.name == "error").count(), 1);
    let last = all.last().expect("events");
    assert_eq!((last.name.as_str(), &last.data["status"]), ("done", &json!("completed")));
    let final_text = last.data["final_text"].as_str().expect("a text");
    assert_eq!((rebuild(&all).as_str(), final_text), ("the last word äöü is rebuilt", "the last word äöü is rebuilt"));
    assert!(all.iter().any(|event| event.name == "turn_reset"));
    for cut in 0..=whole.len() {
        let mut seen = parse(&whole[..cut]);
        let after = seen.iter().filter_map(|event| event.id).max();
        let from = after.map(|id| id.to_string());
        let headers: Vec<(&str, &str)> = from.iter().map(|id| ("Last-Event-ID", id.as_str())).collect();
        if seen.last().is_some_and(|event| event.name == "done") {
            continue;
        }
        let rest = send(&server.url, "GET", &format!("/v1/runs/{run}/events"), &headers, "").expect("a stream");
        seen.extend(parse(rest.text().expect("to the end").as_bytes()));
        let found: Vec<&Event> = seen.iter().filter(|event| event.id.is_some()).collect();
        assert_eq!(found, journaled, "cut at byte {cut}");
        assert_eq!(rebuild(&seen), final_text, "cut at byte {cut}");
    }
}

#[test]
fn readers_that_are_cut_off_while_the_run_is_live_also_rebuild_its_text() {
    let case = Case::new(CONFIG);
    let server = case.start(&json!({}));
    std::thread::scope(|scope| {
        for reader in 0..40usize {
            let url = &server.url;
            scope.spawn(move || {
                let headers = [("Content-Type", "application/json")];
                let answer = send(url, "POST", "/v1/runs", &headers, &request().to_string()).expect("a stream");
                let run = answer.header("drawloom-run-id").expect("an id").to_owned();
                let mut bytes = vec![0; 40 * (reader + 1)];
                let mut chunks = answer.into_chunks();
                let mut read = 0;
                while read < bytes.len() {
                    match chunks.read(&mut bytes[read..]).expect("a live stream") {
                        0 => break,
                        more => read += more,
                    }
                }
                drop(chunks);
                let mut seen = parse(&bytes[..read]);
                if seen.last().is_none_or(|event| event.name != "done") {
                    let after = seen.iter().filter_map(|event| event.id).max().unwrap_or(0);
                    let path = format!("/v1/runs/{run}/stream?from_seq={after}");
                    let rest = send(url, "GET", &path, &[], "").expect("a stream");
                    seen.extend(parse(rest.text().expect("to the end").as_bytes()));
                }
                let ids: Vec<u64> = seen.iter().filter_map(|event| event.id).collect();
                assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order: {ids:?}");
                let last = seen.last().expect("events");
                assert_eq!(
                    (last.name.as_str(), rebuild(&seen).as_str()),
                    ("done", last.data["final_text"].as_str().expect("a text"))
                );
            });
        }
    });
}

#[test]
fn a_run_whose_server_was_killed_is_followed_to_its_end_and_says_that_the_turn_began_again() {
    let case = Case::new(&CONFIG.replace("chunk_delay_ms: 1 }", "chunk_delay_ms: 40 }"));
    let mut server = case.start(&json!({}));
    let headers = [("Content-Type", "application/json")];
    let body = json!({ "agent": "talker", "prompt": "go", "idempotency_key": "k" });
    let answer = send(&server.url, "POST", "/v1/runs", &headers, &body.to_string()).expect("a stream");
    let run = answer.header("drawloom-run-id").expect("an id").to_owned();
    let (mut seen, mut chunks, mut buffer) = (Vec::new(), answer.into_chunks(), [0; 512]);
    // Until the first words of the last turn are there.
    while !String::from_utf8_lossy(&seen).contains("\"the \"") {
        let read = chunks.read(&mut buffer).expect("a live stream");
        seen.extend_from_slice(&buffer[..read]);
    }
    server.kill();
    let mut events = parse(&seen);
    let after = events.iter().filter_map(|event| event.id).max().expect("an id").to_string();
    let server = case.start(&json!({}));
    let path = format!("/v1/runs/{run}/events");
    let rest = send(&server.url, "GET", &path, &[("Last-Event-ID", &after)], "").expect("a stream");
    events.extend(parse(rest.text().expect("to the end").as_bytes()));
    assert_eq!(events.iter().filter(|event| event.name == "turn_reset").count(), 2, "the cut and the kill");
    assert_eq!(rebuild(&events), "the last word äöü is rebuilt");
    let result = post(&server.url, "/v1/runs", &body).and_then(|answer| answer.json()).expect("a result");
    assert_eq!((&result["run_id"], &result["final_text"]), (&json!(run), &json!("the last word äöü is rebuilt")));
}

const TEAM: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, turn: 1 }
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns: [{ name: worker, prompt: a }, { name: worker, prompt: boom }, { name: worker, prompt: b }]
        - { when: { agent: lead }, text: all are back }
        - { when: { contains: boom }, fail: { kind: refused } }
        - { when: { turn: 1 }, calls: [{ tool: Ledger, input: { line: x } }] }
        - { when: { turn: 2, attempt: 1 }, text: never said, delay_ms: 3600000 }
        - { text: "did {{prompt}}" }
defaults: { provider: script, model: m }
agents:
  lead: { tools: [Agent], agents: [worker] }
  worker: { tools: [Ledger] }
"#;

#[test]
fn a_tree_whose_server_was_killed_is_followed_to_its_end_without_a_gap_or_a_repeat() {
    let case = Case::new(TEAM);
    let mut server = case.start(&json!({}));
    let body = json!({ "agent": "lead", "prompt": "go", "mode": "detach" });
    let started = post(&server.url, "/v1/runs", &body).and_then(|answer| answer.json()).expect("an id");
    let path = format!("/v1/runs/{}/events?tree=true", started["run_id"].as_str().expect("an id"));
    let stream = [("Accept", "text/event-stream")];
    let answer = send(&server.url, "GET", &path, &stream, "").expect("a stream");
    let (mut seen, mut chunks, mut buffer) = (Vec::new(), answer.into_chunks(), [0; 512]);
    // Until two workers wait for words that never come, and the third has failed.
    let waits = |seen: &[u8]| {
        let events = parse(seen);
        let count = |name: &str| events.iter().filter(|event| event.name == name).count();
        (count("tool_result"), count("error")) == (2, 1)
    };
    while !waits(&seen) {
        let read = chunks.read(&mut buffer).expect("a live stream");
        assert!(read > 0, "the stream ended: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..read]);
    }
    server.kill();
    let mut events = parse(&seen);
    let after = events.iter().filter_map(|event| event.id).max().expect("an id").to_string();
    let server = case.start(&json!({}));
    let rest = send(&server.url, "GET", &path, &[stream[0], ("Last-Event-ID", &after)], "").expect("a stream");
    events.extend(parse(rest.text().expect("to the end").as_bytes()));
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("tree_done"));
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order: {ids:?}");
    // Who reads it all afterwards reads the same.
    let whole = send(&server.url, "GET", &path, &stream, "").expect("a stream");
    let whole = parse(whole.text().expect("to the end").as_bytes());
    let journaled =
        |events: &[Event]| -> Vec<Event> { events.iter().filter(|event| event.id.is_some()).cloned().collect() };
    assert_eq!(journaled(&events), journaled(&whole));
    let ends: Vec<&str> = events
        .iter()
        .filter(|event| matches!(event.name.as_str(), "done" | "error"))
        .map(|event| event.name.as_str())
        .collect();
    assert_eq!(ends, ["error", "done", "done", "done"]);
}
