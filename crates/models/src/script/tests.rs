use std::sync::Mutex;

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    message::{Message, ToolResult},
};
use serde_json::json;

use super::*;
use crate::tests::Frozen;

#[derive(Default)]
struct RecordedDeltas(Mutex<Vec<(DeltaKind, String)>>);

impl Deltas for RecordedDeltas {
    fn push(&self, kind: DeltaKind, text: &str) {
        self.0.lock().expect("no panic while held").push((kind, text.to_owned()));
    }
}

fn script(options: serde_json::Value) -> Script {
    let options = serde_json::from_value(options).expect("options of the test");
    Script::new("script", &options, Arc::new(Frozen)).expect("rules of the test")
}

fn request(agent: &str, turn: u32, attempt: u32, messages: Vec<Message>) -> TurnRequest {
    TurnRequest {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([7; 16]) },
        agent: agent.parse().expect("a name"),
        model: "m".into(),
        turn,
        attempt,
        system: "".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::new([]),
        max_tokens: 100,
        effort: None,
        sampling: Arc::default(),
    }
}

fn user(text: &str) -> Vec<Message> {
    vec![Message::user(text)]
}

#[tokio::test]
async fn the_first_rule_that_fits_speaks_with_its_placeholders_filled() {
    let script = script(json!({ "rules": [
        { "when": { "agent": "other" }, "text": "no" },
        { "when": { "agent": "read*", "turn": 1, "matches": "slice=(\\w+)" },
          "calls": [{ "tool": "Read", "input": { "paths": ["{{1}}.md", 3] } }] },
        { "when": { "turn": 2 }, "text": "{{prompt}}: {{last.words}} words, {{last.lines}} lines, {{unknown}} {{turn}}", "chunks": 3,
          "usage": { "input_tokens": 5 } },
    ] }));
    let heard = RecordedDeltas::default();
    let first = script.turn(request("reader", 1, 1, user("slice=api")), &heard).await.expect("a turn");
    assert_eq!(first.calls[0].input, json!({ "paths": ["api.md", 3] }));
    assert_eq!(first.stop_reason, StopReason::ToolUse);

    let mut messages = user("slice=api");
    messages.push(Message::Results(vec![ToolResult {
        id: "x".into(),
        text: "one two\nthree".into(),
        is_error: false,
    }]));
    let second = script.turn(request("reader", 2, 1, messages), &heard).await.expect("a turn");
    assert_eq!(second.text, "slice=api: 3 words, 2 lines, {{unknown}} 2");
    assert_eq!(second.usage.input_tokens, 5);
    let heard = heard.0.into_inner().expect("no panic while held");
    assert_eq!(heard.len(), 3);
    assert_eq!(heard.into_iter().map(|(_, text)| text).collect::<String>(), second.text);
}

#[tokio::test]
async fn failures_come_after_the_pieces_they_say_and_only_at_their_attempt() {
    let script = script(json!({ "rules": [
        { "when": { "attempt": 1 }, "text": "abcdef", "chunks": 3, "fail": { "kind": "cut", "after_chunks": 2 } },
        { "text": "fine" },
    ] }));
    let heard = RecordedDeltas::default();
    let error = script.turn(request("a", 1, 1, user("x")), &heard).await.expect_err("scripted failure");
    assert_eq!(error.code(), "model_stream_cut");
    assert_eq!(heard.0.lock().expect("no panic while held").len(), 2);
    assert_eq!(script.turn(request("a", 1, 2, user("x")), &heard).await.expect("a turn").text, "fine");
}

#[tokio::test]
async fn chance_depends_on_the_seed_and_on_nothing_else() {
    let run = async |seed: u64| {
        let script = script(json!({ "seed": seed, "rules": [
            { "when": { "chance": 0.5 }, "text": "heads" }, { "text": "tails" } ] }));
        let mut said = Vec::new();
        for turn in 1..=64 {
            said.push(
                script.turn(request("a", turn, 1, user("x")), &RecordedDeltas::default()).await.expect("a turn").text,
            );
        }
        said
    };
    let first = run(1).await;
    assert_eq!(first, run(1).await);
    assert_ne!(first, run(2).await);
    let heads = first.iter().filter(|text| *text == "heads").count();
    assert!((16..=48).contains(&heads), "{heads} of 64");
}

#[tokio::test]
async fn without_rules_it_repeats_the_prompt_and_without_a_fitting_one_it_says_so() {
    let echo =
        script(json!({})).turn(request("a", 1, 1, user("hello")), &RecordedDeltas::default()).await.expect("a turn");
    assert_eq!(echo.text, "hello");
    let script = script(json!({ "rules": [{ "when": { "turn": 9 }, "text": "x" }] }));
    let error =
        script.turn(request("a", 1, 1, user("hello")), &RecordedDeltas::default()).await.expect_err("nothing fits");
    assert!(error.to_string().contains("no script rule matches agent a in turn 1"), "{error}");
}

#[test]
fn a_rule_that_cannot_work_is_named() {
    let bad = [
        json!({}),
        json!({ "text": "x", "when": { "matches": "(" } }),
        json!({ "text": "x", "when": { "chance": 2 } }),
    ];
    for rule in bad {
        let options = serde_json::from_value(json!({ "rules": [{ "text": "fine" }, rule] })).expect("options");
        let error = Script::new("p", &options, Arc::new(Frozen)).err().expect("a bad rule");
        assert!(error.to_string().starts_with("providers.p.options.rules[1]: "), "{error}");
    }
}
