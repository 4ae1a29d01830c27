//! Requests, compared whole: method, path, headers without the key, body.

use std::sync::Arc;

use drawloom_contract::{
    choice::{Effort, Sampling},
    ids::RunId,
    message::{Message, Part, Thought, ToolResult, ToolUse},
    model::TurnRequest,
};
use drawloom_testkit::providers::{Asked, Reply, Settings, Shape};
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, KEY, after, request, with_tools};

/// A request as it is compared; what differs from run to run is named, not shown.
fn shown(asked: &Asked) -> Value {
    let headers: Map<String, Value> = asked
        .headers
        .iter()
        .filter(|(name, _)| name != "host" && name != "content-length")
        .map(|(name, value)| {
            (name.clone(), value.replace(KEY, "***").replace(env!("CARGO_PKG_VERSION"), "VERSION").into())
        })
        .collect();
    json!({ "method": asked.method, "path": asked.path, "headers": headers, "body": asked.body })
}

/// What goes over the wire for `request`; the server takes it.
async fn sent(shape: Shape, request: TurnRequest) -> Value {
    let fixture = Fixture::new(shape, |_| Reply::text("Yes.").into()).await;
    fixture.ask(request).await.expect("the server takes it");
    shown(&fixture.provider.asked()[0])
}

/// What goes over the wire in the step after one that thinks and calls two tools, one of which fails.
async fn sent_after_calls(shape: Shape, request: TurnRequest) -> Value {
    let fixture = Fixture::new(shape, |asked| {
        if !asked.results().is_empty() {
            return Reply::text("Done.").into();
        }
        let reply = Reply::text("I read both.").thinking("Two files.").sealed("seed");
        reply.call("Read", &json!({ "path": "warp.md" })).raw_call("Read", "{\"path\": ").into()
    })
    .await;
    let turn = fixture.ask(request.clone()).await.expect("the server takes it");
    let next = after(request, turn, &[("# Warp", false), ("the input is no object", true)]);
    fixture.ask(next).await.expect("the server takes it");
    shown(&fixture.provider.asked()[1])
}

/// What goes over the wire in a last turn, which offers no tools any more.
async fn sent_at_last(shape: Shape, request: TurnRequest) -> Value {
    let fixture = Fixture::new(shape, |asked| match asked.tools().is_empty() || !asked.results().is_empty() {
        true => Reply::text("Done.").into(),
        false => Reply::text("").call("Read", &json!({ "path": "warp.md" })).into(),
    })
    .await;
    let turn = fixture.ask(request.clone()).await.expect("the server takes it");
    let mut last = after(request, turn, &[("# Warp", false)]);
    last.tools = Arc::new([]);
    fixture.ask(last).await.expect("the server takes it");
    shown(&fixture.provider.asked()[1])
}

fn thinking(mut request: TurnRequest, effort: Effort) -> TurnRequest {
    request.effort = Some(effort);
    request
}

fn seeing(mut request: TurnRequest) -> TurnRequest {
    let image = Part::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
    request.messages = vec![Arc::new(Message::User(vec![Part::Text("What is this?".into()), image]))];
    request
}

fn sampled(mut request: TurnRequest) -> TurnRequest {
    let sampling = json!({
        "temperature": 0.2, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.5, "presence_penalty": -0.5, "seed": 7,
        "stop": ["END"],
    });
    let sampling: Sampling = serde_json::from_value(sampling).expect("a sampling");
    request.sampling = Arc::new(sampling);
    request
}

macro_rules! compare {
    ($($name:ident: $sent:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            insta::assert_json_snapshot!($sent.await);
        })*
    };
}

mod anthropic {
    use super::*;

    const SHAPE: Shape = Shape::Anthropic;

    compare! {
        a_plain_question: sent(SHAPE, request("claude-sonnet-4-5"));
        tools_and_the_breakpoints_of_the_cache: sent(SHAPE, with_tools(request("claude-sonnet-4-5")));
        results_and_thoughts_go_back_as_they_were:
            sent_after_calls(SHAPE, thinking(with_tools(request("claude-sonnet-4-5")), Effort::High));
        without_thinking_no_thought_goes_back: sent_after_calls(SHAPE, with_tools(request("claude-sonnet-4-5")));
        a_last_turn_names_the_tools_of_before: sent_at_last(SHAPE, with_tools(request("claude-sonnet-4-5")));
        a_picture: sent(SHAPE, seeing(request("claude-opus-5-5")));
        medium_effort_is_a_small_budget: sent(SHAPE, thinking(request("claude-sonnet-4-5"), Effort::Medium));
        low_effort_is_no_thinking: sent(SHAPE, thinking(request("claude-sonnet-4-5"), Effort::Low));
        newer_models_get_an_effort: sent_after_calls(SHAPE, thinking(with_tools(request("claude-opus-5-5")), Effort::High));
        sampling_as_older_models_take_it: sent(SHAPE, sampled(request("claude-sonnet-4-5")));
        newer_models_take_no_sampling: sent(SHAPE, sampled(request("claude-opus-5-5")));
        thinking_takes_no_sampling: sent(SHAPE, sampled(thinking(request("claude-sonnet-4-5"), Effort::High)));
    }
}

mod openai {
    use super::*;

    const SHAPE: Shape = Shape::Openai;

    compare! {
        a_plain_question: sent(SHAPE, request("gpt-4.1"));
        tools: sent(SHAPE, with_tools(request("gpt-4.1")));
        results_go_back_in_the_order_of_calls: sent_after_calls(SHAPE, with_tools(request("gpt-4.1")));
        a_last_turn_has_no_tools: sent_at_last(SHAPE, with_tools(request("gpt-4.1")));
        a_picture: sent(SHAPE, seeing(request("gpt-4.1")));
        effort_of_a_model_that_reasons: sent(SHAPE, thinking(request("gpt-5.2"), Effort::Medium));
        newer_models_do_not_reason_with_tools: sent(SHAPE, thinking(with_tools(request("gpt-6-sol")), Effort::High));
        sampling: sent(SHAPE, sampled(request("gpt-4.1")));
        models_that_reason_take_no_sampling: sent(SHAPE, sampled(request("gpt-5.2")));
    }
}

mod responses {
    use super::*;

    const SHAPE: Shape = Shape::Responses;

    compare! {
        a_plain_question: sent(SHAPE, request("gpt-4.1"));
        a_model_that_reasons: sent(SHAPE, request("gpt-6-sol"));
        reasoning_goes_back_as_it_came: sent_after_calls(SHAPE, thinking(with_tools(request("gpt-6-sol")), Effort::High));
        a_last_turn_has_no_tools: sent_at_last(SHAPE, with_tools(request("gpt-6-sol")));
        a_picture: sent(SHAPE, seeing(request("gpt-6-sol")));
        sampling: sent(SHAPE, sampled(request("gpt-4.1")));
        models_that_reason_take_no_sampling: sent(SHAPE, sampled(request("gpt-6-sol")));
    }
}

mod deepseek {
    use super::*;

    const SHAPE: Shape = Shape::Deepseek;

    compare! {
        a_plain_question: sent(SHAPE, request("deepseek-v4-pro"));
        reasoning_goes_back_where_tools_were_called: sent_after_calls(SHAPE, with_tools(request("deepseek-v4-pro")));
        the_plain_sibling_is_told_not_to_think: sent_after_calls(SHAPE, with_tools(request("deepseek-v4-pro:plain")));
        effort: sent(SHAPE, thinking(request("deepseek-flash"), Effort::Medium));
        a_picture: sent(SHAPE, seeing(request("deepseek-flash")));
        sampling_of_the_plain_sibling: sent(SHAPE, sampled(request("deepseek-v4-pro:plain")));
        a_model_that_thinks_takes_no_sampling: sent(SHAPE, sampled(request("deepseek-v4-pro")));
    }
}

#[tokio::test]
async fn at_most_four_breakpoints_and_the_last_two_are_on_our_newest_messages() {
    let fixture = Fixture::new(Shape::Anthropic, |_| Reply::text("Yes.").into()).await;
    let mut request = with_tools(request("claude-sonnet-4-5"));
    for step in 0..5 {
        let call = ToolUse { id: format!("call_{step}"), name: "Read".into(), input: json!({ "path": "a" }) };
        request.messages.push(Arc::new(Message::Assistant { text: "".into(), thoughts: vec![], calls: vec![call] }));
        let result = ToolResult { id: format!("call_{step}"), text: "b".into(), is_error: false };
        request.messages.push(Arc::new(Message::Results(vec![result])));
    }
    fixture.ask(request).await.expect("the server takes it");
    let body = &fixture.provider.asked()[0].body;
    let marked = |value: &Value| !value["cache_control"].is_null();
    assert!(marked(&body["system"][0]) && marked(&body["tools"][1]) && !marked(&body["tools"][0]));
    let messages = body["messages"].as_array().expect("messages");
    let marks: Vec<usize> = (0..messages.len()).filter(|at| marked(&messages[*at]["content"][0])).collect();
    assert_eq!((messages.len(), marks), (11, vec![8, 10]));
}

#[tokio::test]
async fn thoughts_between_calls_stay_between_them() {
    let fixture = Fixture::new(Shape::Anthropic, |asked| match asked.results().is_empty() {
        true => {
            let call = json!({ "path": "a" });
            Reply::text("Reading.").thinking("Hm.").call("Read", &call).call("Read", &call).into()
        }
        false => Reply::text("Done.").into(),
    })
    .await;
    let request = thinking(with_tools(request("claude-opus-5-5")), Effort::High);
    let mut turn = fixture.ask(request.clone()).await.expect("calls");
    // The same thought once before each call, and once before a call that is not there.
    let own = turn.thoughts[0].clone();
    turn.thoughts.extend((1..=3).map(|place| Thought { place, ..own.clone() }));
    fixture.ask(after(request, turn, &[("x", false), ("y", false)])).await.expect("the server takes it");
    let asked = fixture.provider.asked();
    let blocks = asked[1].body["messages"][1]["content"].as_array().expect("blocks");
    let kinds: Vec<&str> = blocks.iter().filter_map(|block| block["type"].as_str()).collect();
    assert_eq!(kinds, ["thinking", "thinking", "text", "thinking", "tool_use", "thinking", "tool_use"]);
}

#[tokio::test]
async fn runs_of_one_tree_share_the_key_of_the_prompt_cache() {
    let key = async |run, root| {
        let mut request = request("gpt-6-sol");
        (request.run.run, request.root) = (RunId::from_bytes([run; 16]), RunId::from_bytes([root; 16]));
        sent(Shape::Responses, request).await["body"]["prompt_cache_key"].clone()
    };
    assert_eq!(key(1, 7).await, key(2, 7).await);
    assert_ne!(key(1, 7).await, key(1, 8).await);
    assert_eq!(key(1, 7).await, RunId::from_bytes([7; 16]).to_string());
}

#[tokio::test]
async fn what_the_operator_says_of_the_models_changes_the_request() {
    let body = async |shape, model: &str| {
        let says = json!({ "capabilities": {
            "parallel_tool_calls": false, "supports_thinking": false, "native_prompt_cache": false,
        } });
        let fixture = Fixture::with(Settings::new(shape).key(KEY), says, |_| Reply::text("Yes.").into()).await;
        fixture.ask(thinking(with_tools(request(model)), Effort::High)).await.expect("the server takes it");
        fixture.provider.asked().remove(0).body
    };
    let anthropic = body(Shape::Anthropic, "claude-opus-5").await;
    assert_eq!(anthropic["tool_choice"], json!({ "type": "auto", "disable_parallel_tool_use": true }));
    assert_eq!(anthropic["thinking"], json!({ "type": "disabled" }));
    assert!(!anthropic.to_string().contains("cache_control"));
    let openai = body(Shape::Openai, "gpt-4.1").await;
    assert_eq!((&openai["parallel_tool_calls"], &openai["reasoning_effort"]), (&json!(false), &Value::Null));
    let deepseek = body(Shape::Deepseek, "deepseek-flash").await;
    assert_eq!(deepseek["thinking"], json!({ "type": "disabled" }));
}
