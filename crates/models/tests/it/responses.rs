//! The strict server of the Responses API: each of its rules has a request that breaks only that rule.

use drawloom_testkit::providers::{Provider, Reply, Settings, Shape};
use serde_json::{Value, json};

/// A request that the server takes: a tool loop with reasoning, as a client sends it that keeps all items.
async fn whole(provider: &Provider) -> Value {
    let first = json!({
        "model": "gpt-6-sol", "store": false, "include": ["reasoning.encrypted_content"], "reasoning": { "summary": "auto" },
        "input": [{ "type": "message", "role": "user", "content": "Read a." }],
        "tools": [{ "type": "function", "name": "Read", "parameters": { "type": "object" }, "strict": false }],
    });
    let (status, answer) = post(provider, &first).await;
    assert_eq!(status, 200, "{answer}");
    let mut next = first;
    let items = next["input"].as_array_mut().expect("items");
    items.extend(answer["output"].as_array().expect("items").iter().cloned());
    let id = items.last().expect("a call")["call_id"].clone();
    items.push(json!({ "type": "function_call_output", "call_id": id, "output": "text" }));
    next
}

async fn post(provider: &Provider, body: &Value) -> (u16, Value) {
    let client = drawloom_net::Configured::new().expect("a client");
    let request = drawloom_net::Request {
        method: drawloom_net::Method::Post,
        url: format!("{}/v1/responses", provider.base_url()),
        bearer: None,
        headers: Vec::new(),
        json: Some(body.to_string().into_bytes()),
    };
    let response = client.send(request).await.expect("an answer");
    let status = response.status();
    let bytes = response.bytes(1 << 20).await.expect("a body");
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

/// What is changed in a request that the server takes, and a part of what it says then.
type Rule = (fn(&mut Value), &'static str);

/// The items are: the user's message, reasoning, a message, a call, its output.
const RULES: &[Rule] = &[
    (|body| body["top_k"] = 1.into(), "Unknown parameter: 'top_k'."),
    (|body| body["messages"] = json!([]), "Unknown parameter: 'messages'."),
    (|body| body["model"] = "".into(), "Missing required parameter: 'model'."),
    (|body| body["previous_response_id"] = "resp_1".into(), "Previous response"),
    (|body| body["temperature"] = json!(0.5), "Unsupported parameter: 'temperature'"),
    (|body| body["reasoning"]["effort"] = "most".into(), "Invalid value for 'reasoning.effort'"),
    (|body| body["reasoning"]["budget"] = 1.into(), "Unknown parameter: 'reasoning.budget'"),
    (|body| body["max_output_tokens"] = 15.into(), "integer below minimum value"),
    (|body| body["prompt_cache_key"] = "k".repeat(65).into(), "Invalid 'prompt_cache_key': string too long"),
    (|body| body["tools"][0] = json!({ "type": "function", "function": { "name": "Read" } }), "'tools[0].name'"),
    (|body| body["tools"][0]["inputs"] = json!({}), "Unknown parameter: 'tools[0].inputs'"),
    (|body| body["input"][0]["name"] = "user".into(), "Unknown parameter: 'input[0].name'"),
    (|body| body["input"][0]["type"] = "said".into(), "Invalid value: 'said'"),
    (|body| body["input"][0]["role"] = "tool".into(), "Invalid value: 'tool'"),
    (|body| body["input"][0]["content"] = Value::Null, "Missing required parameter: 'input[0].content'"),
    (|body| body["input"][0]["content"] = json!([{ "type": "text", "text": "x" }]), "Invalid value: 'text'"),
    (|body| body["input"][0]["content"] = json!([{ "type": "input_image", "image_url": "x" }]), "image_url"),
    (|body| body["input"][2]["content"][0]["type"] = "input_text".into(), "Invalid value: 'input_text'"),
    (|body| body["input"][1]["summary"] = Value::Null, "Missing required parameter: 'input[1].summary'"),
    (|body| body["input"][1]["encrypted_content"] = Value::Null, "Items are not persisted when `store`"),
    (|body| body["input"][1]["encrypted_content"] = "gAAA0==".into(), "could not be verified"),
    (|body| body["input"][1]["summary"][0]["text"] = "Otherwise.".into(), "could not be verified"),
    (|body| body["model"] = "gpt-5.2".into(), "could not be verified"),
    (|body| remove(body, &[1]), "was provided without its required 'reasoning' item"),
    (|body| remove(body, &[2, 3, 4]), "was provided without its required following item"),
    (
        |body| insert(body, 2, json!({ "role": "user", "content": "x" })),
        "was provided without its required following item",
    ),
    (|body| body["input"][3]["name"] = Value::Null, "Missing required parameter: 'input[3].name'"),
    (|body| body["input"][3]["arguments"] = json!({}), "Missing required parameter: 'input[3].arguments'"),
    (|body| body["input"][3]["arguments"] = "[".into(), "no JSON object"),
    (
        |body| {
            for at in [3, 4] {
                body["input"][at]["call_id"] = "c".repeat(65).into()
            }
        },
        "Invalid 'input[3].call_id': string too long",
    ),
    (|body| body["input"][4]["output"] = Value::Null, "Missing required parameter: 'input[4].output'"),
    (|body| remove(body, &[4]), "No tool output found for function call"),
    (|body| body["input"][4]["call_id"] = "call_x".into(), "No tool call found for function call output"),
    (|body| insert(body, 0, json!({ "type": "item_reference", "id": "rs_1" })), "Items are not persisted"),
];

fn remove(body: &mut Value, places: &[usize]) {
    let items = body["input"].as_array_mut().expect("items");
    for at in places.iter().rev() {
        items.remove(*at);
    }
}

fn insert(body: &mut Value, at: usize, item: Value) {
    body["input"].as_array_mut().expect("items").insert(at, item);
}

async fn provider() -> Provider {
    let script = |asked: &drawloom_testkit::providers::Asked| {
        let reply = Reply::text("I read it.").thinking("A file.");
        if asked.results().is_empty() { reply.call("Read", &json!({ "path": "a" })).into() } else { reply.into() }
    };
    Provider::start(Settings::new(Shape::Responses), script).await.expect("a port")
}

#[tokio::test]
async fn each_rule_of_the_server_rejects_what_breaks_only_that_rule() {
    let provider = provider().await;
    let taken = whole(&provider).await;
    let kinds: Vec<&str> =
        taken["input"].as_array().expect("items").iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(kinds, ["message", "reasoning", "message", "function_call", "function_call_output"]);
    let (status, answer) = post(&provider, &taken).await;
    assert_eq!(status, 200, "the request itself is taken: {answer}");
    for (number, (change, words)) in RULES.iter().enumerate() {
        let mut body = taken.clone();
        change(&mut body);
        let (status, answer) = post(&provider, &body).await;
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && said.contains(words), "rule {number}: {status} {answer}; wanted {words:?}");
    }
}

#[tokio::test]
async fn a_model_that_does_not_reason_takes_no_settings_of_reasoning() {
    let provider = provider().await;
    let plain = json!({ "model": "gpt-4.1", "input": "x", "temperature": 0.5 });
    assert_eq!(post(&provider, &plain).await.0, 200);
    for (key, value, words) in [
        ("reasoning", json!({ "effort": "high" }), "Unsupported parameter: 'reasoning.effort'"),
        ("include", json!(["reasoning.encrypted_content"]), "Encrypted content is not supported with this model."),
    ] {
        let mut body = plain.clone();
        body[key] = value;
        let (status, answer) = post(&provider, &body).await;
        assert!(status == 400 && answer.to_string().contains(words), "{answer}");
    }
}
