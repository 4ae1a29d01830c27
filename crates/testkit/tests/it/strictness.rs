//! Requests that the real APIs reject, each with the words of the rejection.

use drawloom_testkit::providers::{Provider, Settings, Shape, parrot};
use serde_json::{Value, json};

use crate::send;

async fn check(shape: Shape, path: &str, good: Value, cases: &[(&str, Value, &str)]) {
    let provider = Provider::start(Settings::new(shape), parrot).await.expect("a port of loopback");
    let (status, body) = send(provider.address(), "POST", path, &good).await;
    assert_eq!(status, 200, "{body}");
    for (pointer, value, words) in cases {
        let mut body = good.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        match body.pointer_mut(parent).expect("a place in the request") {
            Value::Object(map) if value.is_null() => drop(map.remove(key)),
            Value::Object(map) => drop(map.insert(key.to_owned(), value.clone())),
            Value::Array(list) => list[key.parse::<usize>().expect("an index")] = value.clone(),
            other => panic!("{other} has no parts"),
        }
        let (status, said) = send(provider.address(), "POST", path, &body).await;
        assert_eq!(status, 400, "{pointer}: {said}");
        assert!(said.contains(words), "{pointer}: {said}");
    }
}

#[tokio::test]
async fn anthropic_rejects_what_the_real_one_rejects() {
    let call = json!({ "type": "tool_use", "id": "t1", "name": "Read", "input": {} });
    let result = json!({ "type": "tool_result", "tool_use_id": "t1", "content": "x" });
    let good = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 4096,
        "messages": [
            { "role": "user", "content": "hello" },
            { "role": "assistant", "content": [call] },
            { "role": "user", "content": [result] },
        ],
    });
    let thinking = json!({ "type": "enabled", "budget_tokens": 2048 });
    let mark = json!({ "type": "ephemeral" });
    let marked = json!({ "type": "text", "text": "x", "cache_control": mark });
    let forged = json!([{ "type": "thinking", "thinking": "x", "signature": "y" }, call]);
    let cases = [
        ("/max_tokens", Value::Null, "max_tokens: Field required"),
        ("/model", Value::Null, "model: Field required"),
        ("/colour", json!("red"), "colour: Extra inputs are not permitted"),
        ("/thinking", thinking, "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
        ("/thinking", json!({ "type": "enabled", "budget_tokens": 4096 }), "must be greater than"),
        ("/thinking", json!({ "type": "enabled", "budget_tokens": 10 }), "greater than or equal to 1024"),
        ("/messages/0/role", json!("assistant"), "first message must use the \\\"user\\\" role"),
        ("/messages/1/role", json!("system"), "should be 'user' or 'assistant'"),
        ("/messages/1/content/0/id", json!("t2"), "unexpected `tool_use_id`"),
        ("/messages/1/content/0/id", json!("a.b"), "should match pattern"),
        ("/messages/1/content/0/input", json!("x"), "should be a valid dictionary"),
        ("/messages/1/content", forged, "Invalid `signature` in `thinking` block"),
        ("/messages/2/content", json!("never mind"), "without `tool_result` blocks"),
        ("/messages/0/content", json!([{ "type": "text", "text": " \n" }]), "must contain non-whitespace"),
        ("/messages/0/content", json!([]), "non-empty content"),
        ("/messages/0/content", json!([marked, marked, marked, marked, marked]), "A maximum of 4 blocks"),
    ];
    check(Shape::Anthropic, "/v1/messages", good, &cases).await;
}

#[tokio::test]
async fn openai_rejects_what_the_real_one_rejects() {
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "Read", "arguments": "{}" } });
    let good = json!({
        "model": "gpt-5.2",
        "messages": [
            { "role": "user", "content": "hello" },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "c1", "content": "x" },
        ],
    });
    let cases = [
        ("/messages/2/tool_call_id", json!("c2"), "must be a response to a preceding message"),
        ("/messages/2", json!({ "role": "user", "content": "never mind" }), "did not have response messages: c1"),
        ("/messages/1/tool_calls/0/function/arguments", json!("{"), "no JSON object"),
        ("/messages/0/role", json!("king"), "Invalid value: 'king'"),
        ("/messages", json!([]), "empty array"),
        ("/colour", json!("red"), "Unrecognized request argument supplied: colour"),
        ("/max_tokens", json!(10), "'max_tokens' is not supported with this model"),
        ("/temperature", json!(0.5), "'temperature' is not supported with this model"),
    ];
    check(Shape::Openai, "/v1/chat/completions", good, &cases).await;
}

#[tokio::test]
async fn deepseek_wants_its_own_reasoning_back_where_tools_were_called() {
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "Read", "arguments": "{}" } });
    let good = json!({
        "model": "deepseek-v4-pro",
        "messages": [
            { "role": "user", "content": "hello" },
            { "role": "assistant", "content": "plain talk needs none" },
            { "role": "user", "content": "read" },
            { "role": "assistant", "content": null, "tool_calls": [call], "reasoning_content": "" },
            { "role": "tool", "tool_call_id": "c1", "content": "x" },
            { "role": "assistant", "content": "so it is", "reasoning_content": "" },
            { "role": "user", "content": "thanks" },
        ],
    });
    let cases = [
        ("/messages/3/reasoning_content", Value::Null, "must be passed back to the API"),
        ("/messages/5/reasoning_content", Value::Null, "must be passed back to the API"),
        ("/messages/3/reasoning_content", json!("of another"), "is not of this model"),
        ("/messages/1/reasoning_content", json!("of another"), "is not of this model"),
        ("/seed", json!(1), "Unrecognized request argument supplied: seed"),
    ];
    check(Shape::Deepseek, "/chat/completions", good.clone(), &cases).await;
    let mut plain = good;
    plain["thinking"] = json!({ "type": "disabled" });
    plain["messages"][3]["reasoning_content"] = Value::Null;
    check(Shape::Deepseek, "/chat/completions", plain, &[]).await;
}
