//! Whole conversations with servers that are as strict as the real ones, and what those reject.

use std::sync::Arc;

use drawloom_contract::{
    choice::Effort,
    message::{Message, Part, Thought, ToolResult, ToolUse},
    model::{ListedModel, TurnRequest},
    record::StopReason,
};
use drawloom_testkit::providers::{Reply, RetryAfter, Settings, Shape, parrot};
use serde_json::json;

use crate::fixture::{Fixture, KEY, after, request, with_tools};

const SHAPES: [(Shape, &str); 6] = [
    (Shape::Anthropic, "claude-sonnet-4-5"),
    (Shape::Anthropic, "claude-opus-5-5"),
    (Shape::Openai, "gpt-4.1"),
    (Shape::Responses, "gpt-6-sol"),
    (Shape::Responses, "gpt-4.1"),
    (Shape::Deepseek, "deepseek-v4-pro"),
];

fn said(mut request: TurnRequest, text: &str) -> TurnRequest {
    request.messages.push(Arc::new(Message::user(text)));
    request
}

fn asking(model: &str) -> TurnRequest {
    let mut request = with_tools(request(model));
    request.messages = vec![Arc::new(Message::user("call Read {\"path\":\"a\"}\ncall Read {\"path\":\"b\"}"))];
    request.effort = Some(Effort::High);
    request
}

#[tokio::test]
async fn a_tool_loop_that_thinks_goes_on_over_many_turns() {
    for (shape, model) in SHAPES {
        let fixture = Fixture::new(shape, parrot).await;
        let mut next = asking(model);
        for round in 0..3 {
            let turn = fixture.ask(next.clone()).await.expect("calls");
            assert_eq!((turn.stop_reason, turn.calls.len()), (StopReason::ToolUse, 2), "{model} {round}");
            assert_eq!(turn.thoughts.is_empty(), model == "gpt-4.1", "{model} {round}");
            next = after(next, turn, &[("one", false), ("two", true)]);
            let turn = fixture.ask(next.clone()).await.expect("an answer");
            assert!(turn.text.starts_with("It came to: one / ") && turn.text.ends_with("two"), "{}", turn.text);
            next = said(after(next, turn, &[]), "call Read {\"path\":\"c\"}\ncall Write {\"path\":\"d\"}");
        }
    }
}

#[tokio::test]
async fn a_loop_that_another_model_began_is_gone_on_with() {
    for (shape, model) in SHAPES {
        let fixture = Fixture::new(shape, parrot).await;
        let mut request = asking(model);
        let call = |id: &str, input| ToolUse { id: id.into(), name: "Read".into(), input };
        // The engine has left out the thoughts of the other model; its ids and its mistakes are still there.
        let calls = vec![call("functions.Read:0", json!({})), call("1", json!("{\"path\": "))];
        let results =
            ["functions.Read:0", "1"].map(|id| ToolResult { id: id.into(), text: "x".into(), is_error: false });
        request.messages.push(Arc::new(Message::Assistant { text: String::new(), thoughts: vec![], calls }));
        request.messages.push(Arc::new(Message::Results(results.into())));
        let turn = fixture.ask(request).await.expect("the server takes it");
        assert_eq!(turn.text, "It came to: x / x");
        let thinks = model == "claude-opus-5-5" || model == "gpt-6-sol";
        assert_eq!(!turn.thoughts.is_empty(), thinks, "{model} thinks only if it may begin to in the middle");
    }
}

#[tokio::test]
async fn a_model_that_thought_nothing_is_told_so() {
    let fixture = Fixture::new(Shape::Deepseek, |asked| match asked.results().is_empty() {
        true => Reply::text("").call("Read", &json!({ "path": "a" })).into(),
        false => Reply::text("Done.").into(),
    })
    .await;
    let request = asking("deepseek-v4-pro");
    let turn = fixture.ask(request.clone()).await.expect("a call");
    assert_eq!(turn.thoughts, [Thought::default()]);
    fixture.ask(after(request, turn, &[("x", false)])).await.expect("the server takes it");
    let body = &fixture.provider.asked()[1].body;
    assert_eq!(body["messages"][2]["reasoning_content"], "");
    assert_eq!(body["thinking"], json!({ "type": "enabled" }));
}

#[tokio::test]
async fn foreign_or_changed_thoughts_are_rejected_by_the_servers() {
    let thoughts = [
        (Shape::Anthropic, "claude-opus-5-5", "Invalid `signature` in `thinking` block"),
        (Shape::Deepseek, "deepseek-v4-pro", "The reasoning_content is not of this model"),
    ];
    for (shape, model, words) in thoughts {
        let fixture = Fixture::new(shape, parrot).await;
        let request = asking(model);
        let mut turn = fixture.ask(request.clone()).await.expect("calls");
        turn.thoughts[0].text.push('!');
        let error =
            fixture.ask(after(request, turn, &[("x", false), ("y", false)])).await.expect_err("a changed thought");
        assert_eq!(error.code(), "model_bad_request");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn calls_without_results_are_rejected_by_the_servers() {
    for (shape, model) in SHAPES {
        let fixture = Fixture::new(shape, parrot).await;
        let request = asking(model);
        let turn = fixture.ask(request.clone()).await.expect("calls");
        let unanswered = after(request.clone(), turn.clone(), &[("only one", false)]);
        assert_eq!(fixture.ask(unanswered).await.expect_err("an open call").code(), "model_bad_request", "{model}");
        let mut stray = after(request, turn, &[("one", false), ("two", false)]);
        let result = ToolResult { id: "stray".into(), text: "x".into(), is_error: false };
        stray.messages.push(Arc::new(Message::Results(vec![result])));
        assert_eq!(fixture.ask(stray).await.expect_err("a stray result").code(), "model_bad_request", "{model}");
    }
}

#[tokio::test]
async fn what_no_api_takes_is_left_out_or_said_otherwise() {
    for (shape, model) in SHAPES {
        let fixture = Fixture::new(shape, parrot).await;
        let mut request = request(model);
        request.system = "".into();
        let empty = Part::Text(String::new());
        let thought = Thought::plain("never signed");
        request.messages = vec![
            Arc::new(Message::User(vec![empty])),
            Arc::new(Message::Assistant { text: String::new(), thoughts: vec![thought], calls: vec![] }),
            Arc::new(Message::user("go on")),
        ];
        let turn = fixture.ask(request).await.expect("the server takes it");
        assert_eq!(turn.text, "You said: go on", "{model}");
    }
}

#[tokio::test]
async fn models_are_listed() {
    let listed = async |shape| Fixture::new(shape, parrot).await.model.list().await.expect("a list");
    let model = |id: &str, title: Option<&str>| ListedModel {
        id: id.into(),
        title: title.map(str::to_owned),
        ..ListedModel::default()
    };
    assert_eq!(
        listed(Shape::Anthropic).await,
        [model("claude-opus-5-5", Some("Claude Opus 5.5")), model("claude-sonnet-4-5", Some("Claude Sonnet 4.5"))]
    );
    assert_eq!(listed(Shape::Openai).await, [model("gpt-6-sol", None), model("gpt-4.1", None)]);
    assert_eq!(listed(Shape::Deepseek).await, [model("deepseek-flash", None), model("deepseek-v4-pro", None)]);
}

#[tokio::test]
async fn a_server_bears_so_many_and_refuses_the_rest_at_once() {
    let settings = Settings::new(Shape::Anthropic).key(KEY).max_concurrent(2, RetryAfter::Seconds(1));
    let fixture = Fixture::with(settings.delay(std::time::Duration::from_secs(1)), json!({}), parrot).await;
    let asks = (0..6).map(|_| fixture.ask(request("claude-sonnet-4-5")));
    let answers = futures::future::join_all(asks).await;
    let throttled = answers.iter().filter(|answer| matches!(answer, Err(error) if error.code() == "throttled"));
    assert_eq!((throttled.count(), answers.iter().filter(|answer| answer.is_ok()).count()), (4, 2));
    let calls = fixture.provider.calls();
    assert_eq!(calls.len(), 6);
    assert!(calls.iter().all(|call| call.in_flight <= 2), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call.status == 429).count(), 4);
}
