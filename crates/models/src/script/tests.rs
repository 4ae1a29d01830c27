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
        root: RunId::from_bytes([7; 16]),
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

/// A turn that called tools, and what they answered.
fn round(turn: u32, calls: &[(&str, serde_json::Value)]) -> [Message; 2] {
    let id = |index: usize| format!("call_{turn}_{index}");
    let uses = calls.iter().enumerate();
    let uses = uses.map(|(index, (tool, _))| ToolUse { id: id(index), name: (*tool).into(), input: json!({}) });
    let results = calls.iter().enumerate();
    let results =
        results.map(|(index, (_, text))| ToolResult { id: id(index), text: text.to_string().into(), is_error: false });
    [
        Message::Assistant { text: String::new(), thoughts: Vec::new(), calls: uses.collect() },
        Message::Results(results.collect()),
    ]
}

#[tokio::test]
async fn what_it_says_can_depend_on_what_tools_answered() {
    let script = script(json!({ "rules": [
        { "when": { "last_tool": "Channel", "values": { "result.Channel/messages/0/value/hop": "2" } },
          "calls": [{ "tool": "Memory", "input": {
            "key": "advice:hop{{result.Channel/messages/0/value/hop}}",
            "value": { "hop": "{{json result.Channel/messages/0/value/hop}}", "next": "{{json add result.Channel/messages/0/value/hop 1}}" },
            "unknown": "{{json result.Nothing/at/all}}" } }] },
        { "when": { "last_tool": "Evaluation" },
          "text": "{{max result.Evaluation/evaluations score tag}} with {{fixed result.Evaluation/evaluations/0/score 2}}" },
        { "when": { "last_tool": "Memory" }, "text": "{{result.Memory/value/try}}" },
        { "text": "nothing fits" },
    ] }));
    let heard = RecordedDeltas::default();
    let mut messages = user("go");
    messages.extend(round(1, &[("Channel", json!({ "messages": [{ "value": { "hop": 2 } }] }))]));
    let turn = script.turn(request("a", 2, 1, messages.clone()), &heard).await.expect("a turn");
    assert_eq!(
        turn.calls[0].input,
        json!({ "key": "advice:hop2", "value": { "hop": 2, "next": 3 }, "unknown": "{{json result.Nothing/at/all}}" })
    );
    messages.extend(round(
        2,
        &[("Memory", json!({ "value": { "try": "shorter" } })), ("Channel", json!({ "message_id": "m" }))],
    ));
    let turn = script.turn(request("a", 3, 1, messages.clone()), &heard).await.expect("a turn");
    assert_eq!(turn.calls[0].input["key"], "advice:hop2", "the newest result that has the pointer");
    messages.extend(round(3, &[("Memory", json!({ "value": { "try": "shortest" } }))]));
    let turn = script.turn(request("a", 4, 1, messages.clone()), &heard).await.expect("a turn");
    assert_eq!(turn.text, "shortest");
    let scores =
        json!([{ "score": 0.9, "tag": "hop1" }, { "score": 0.98, "tag": "hop5" }, { "score": 0.97, "tag": "hop3" }]);
    messages.extend(round(4, &[("Evaluation", json!({ "evaluations": scores }))]));
    let turn = script.turn(request("a", 5, 1, messages), &heard).await.expect("a turn");
    assert_eq!(turn.text, "hop5 with 0.90");
}
