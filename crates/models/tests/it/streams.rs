//! Answers as the APIs' documentation has them, over a socket, cut at every byte.

use drawloom_contract::{
    message::{Thought, ToolUse},
    model::{DeltaKind, Turn, TurnError},
    money::Cost,
    record::StopReason,
    usage::Usage,
};
use drawloom_testkit::providers::{Raw, Shape};
use serde_json::{Value, json};

use crate::fixture::{Fixture, RecordedDeltas, fixture, request};

/// What comes of a fixture that is sent in pieces of `size` bytes, and what was heard of it on the way.
async fn replay(shape: Shape, name: &str, size: usize) -> (Result<Turn, TurnError>, RecordedDeltas) {
    let pieces: Vec<Vec<u8>> = fixture(name).chunks(size).map(<[u8]>::to_vec).collect();
    let kind = if name.ends_with(".json") { "application/json" } else { "text/event-stream" };
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    let fixture =
        Fixture::new(shape, move |_| Raw { status: 200, headers: headers.clone(), pieces: pieces.clone() }.into());
    let heard = RecordedDeltas::default();
    let model = match shape {
        Shape::Anthropic => "claude-opus-5-5",
        Shape::Openai | Shape::Responses => "gpt-6-sol",
        Shape::Deepseek => "deepseek-v4-pro",
    };
    let turn = fixture.await.model.turn(request(model), &heard).await;
    (turn, heard)
}

/// The same turn, in whatever pieces it comes.
async fn whole(shape: Shape, name: &str) -> Turn {
    let (turn, heard) = replay(shape, name, 1).await;
    let turn = turn.expect("a turn");
    assert_eq!(heard.all(DeltaKind::Text), turn.text);
    let thought: String = turn.thoughts.iter().map(|thought| thought.text.as_str()).collect();
    assert_eq!(heard.all(DeltaKind::Thinking), thought);
    for size in [2, 3, 7, 1 << 20] {
        assert_eq!(replay(shape, name, size).await.0.expect("a turn"), turn, "{name} in pieces of {size}");
    }
    turn
}

fn tool_use(id: &str, name: &str, input: Value) -> ToolUse {
    ToolUse { id: id.into(), name: name.into(), input }
}

const TEXT: &str = "Grüße vom Webstuhl 🧵!";

#[tokio::test]
async fn plain_text_comes_whole_from_each_api() {
    let anthropic = whole(Shape::Anthropic, "anthropic/text.sse").await;
    let usage = Usage { input_tokens: 25, output_tokens: 15, ..Usage::default() };
    assert_eq!(anthropic, Turn { text: TEXT.into(), usage, ..Turn::default() });
    let openai = whole(Shape::Openai, "openai/text.sse").await;
    let usage = Usage {
        input_tokens: 156,
        output_tokens: 31,
        cache_creation_input_tokens: 100,
        cache_read_input_tokens: 1024,
        reasoning_tokens: 12,
    };
    assert_eq!(openai, Turn { text: TEXT.into(), usage, ..Turn::default() });
    let responses = whole(Shape::Responses, "responses/text.sse").await;
    let usage = Usage { reasoning_tokens: 0, ..usage };
    assert_eq!(responses, Turn { text: TEXT.into(), usage, ..Turn::default() });
}

#[tokio::test]
async fn reasoning_items_are_kept_whole_at_their_places() {
    let turn = whole(Shape::Responses, "responses/thinking_and_tools.sse").await;
    let items: Vec<Value> = turn
        .thoughts
        .iter()
        .map(|thought| serde_json::from_str(thought.sealed.as_ref().expect("sealed")).expect("JSON"))
        .collect();
    let shown: Vec<(&str, u32)> = turn.thoughts.iter().map(|thought| (thought.text.as_str(), thought.place)).collect();
    assert_eq!(shown, [("**Reading**\n\nTwo files.", 0), ("", 1), ("", 2)]);
    let summary = |text: &str| json!({ "type": "summary_text", "text": text });
    assert_eq!(
        items,
        [
            json!({
                "id": "rs_1", "type": "reasoning", "encrypted_content": "gAAAfirst==",
                "summary": [summary("**Reading**"), summary("Two files.")],
            }),
            json!({ "type": "message", "phase": "commentary" }),
            json!({ "id": "rs_2", "type": "reasoning", "encrypted_content": "gAAAsecond==", "summary": [] }),
        ]
    );
    let calls = [("call_a", "warp.md"), ("call_b", "weft.md")];
    assert_eq!(turn.calls, calls.map(|(id, path)| tool_use(id, "Read", json!({ "path": path }))));
    assert_eq!(
        (turn.text.as_str(), turn.usage.output_tokens, turn.usage.reasoning_tokens, turn.stop_reason),
        ("I read both.", 90, 64, StopReason::ToolUse)
    );
}

#[tokio::test]
async fn thoughts_keep_their_signatures_and_places_among_calls() {
    let turn = whole(Shape::Anthropic, "anthropic/thinking_and_tools.sse").await;
    let thought = |text: &str, signature: &str, place| Thought {
        text: text.into(),
        signature: Some(signature.into()),
        sealed: None,
        place,
    };
    let expected = Turn {
        text: "I'll read both files.".into(),
        thoughts: vec![
            thought("Two files must be read.", "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", 0),
            Thought { sealed: Some("EmwKAhgBEgy3va3pzix/LafPsn4a".into()), ..Thought::default() },
            thought("And the weft.", "EpYBCgIYAhIMother", 2),
        ],
        calls: vec![
            tool_use("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "Read", json!({ "path": "warp.md" })),
            tool_use("toolu_02B", "Read", json!({ "path": "weft.md" })),
        ],
        stop_reason: StopReason::ToolUse,
        usage: Usage {
            input_tokens: 472,
            output_tokens: 89,
            cache_creation_input_tokens: 248,
            cache_read_input_tokens: 1800,
            reasoning_tokens: 21,
        },
        ..Turn::default()
    };
    assert_eq!(turn, expected);
}

#[tokio::test]
async fn parallel_calls_are_told_apart_and_bad_arguments_stay_text() {
    let turn = whole(Shape::Openai, "openai/parallel_tools.sse").await;
    assert_eq!(turn.stop_reason, StopReason::ToolUse);
    assert_eq!(
        turn.calls,
        [
            tool_use("call_DdmO9pD3xa9XTPNJ32zg2hcA", "Read", json!({ "path": "warp.md" })),
            tool_use("call_Xe", "Read", json!({ "path": "weft.md" })),
            tool_use("", "Oops", json!("not json")),
        ]
    );
}

#[tokio::test]
async fn reasoning_of_deepseek_comes_before_its_text() {
    let turn = whole(Shape::Deepseek, "deepseek/thinking_and_tools.sse").await;
    let expected = Turn {
        text: "Reading.".into(),
        thoughts: vec![Thought::plain("我们需要 to read it.")],
        calls: vec![tool_use("call_00_5cCTwZqjjBqLhJNb3h7C2Zhi", "Read", json!({ "path": "warp.md" }))],
        stop_reason: StopReason::ToolUse,
        usage: Usage {
            input_tokens: 260,
            output_tokens: 77,
            cache_read_input_tokens: 640,
            reasoning_tokens: 40,
            ..Usage::default()
        },
        ..Turn::default()
    };
    assert_eq!(turn, expected);
}

#[tokio::test]
async fn a_call_that_the_limit_cut_is_dropped() {
    let turn = whole(Shape::Anthropic, "anthropic/clipped_call.sse").await;
    assert_eq!((turn.stop_reason, turn.calls.len()), (StopReason::MaxTokens, 1));
    let turn = whole(Shape::Openai, "openai/clipped_call.sse").await;
    assert_eq!((turn.stop_reason, turn.calls.len(), turn.text.as_str()), (StopReason::MaxTokens, 0, "Writing."));
    let turn = whole(Shape::Responses, "responses/clipped_call.sse").await;
    assert_eq!((turn.stop_reason, turn.calls.len(), turn.thoughts.len()), (StopReason::MaxTokens, 1, 1));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let turn = whole(Shape::Anthropic, "anthropic/whole.json").await;
    assert_eq!((turn.text.as_str(), turn.thoughts[0].signature.as_deref()), ("All at once.", Some("s1")));
    assert_eq!(turn.calls, [tool_use("t1", "Read", json!({ "path": "a" }))]);
    let turn = whole(Shape::Openai, "openai/whole.json").await;
    assert_eq!((turn.text.as_str(), turn.cost), ("All at once.", Some(Cost(1_250_000))));
    assert_eq!(turn.calls, [tool_use("", "Read", json!({ "path": "a" }))]);
    assert_eq!(whole(Shape::Responses, "responses/whole.json").await.text, TEXT);
}

#[tokio::test]
async fn refusals_and_errors_inside_a_stream_are_typed() {
    let cases = [
        (Shape::Anthropic, "anthropic/refusal.sse", "model_refused", "This request could enable harm."),
        (Shape::Anthropic, "anthropic/overloaded.sse", "model_overloaded", "Overloaded"),
        (Shape::Openai, "openai/refusal.sse", "model_refused", "I can't help with that."),
        (Shape::Responses, "responses/refusal.sse", "model_refused", "I cannot help with that."),
        (Shape::Responses, "responses/filtered.sse", "model_refused", "content filter"),
        (Shape::Responses, "responses/failed.sse", "throttled", "Rate limit reached"),
        (Shape::Responses, "responses/error.sse", "model_unavailable", "The server had an error"),
        (Shape::Deepseek, "deepseek/starved.sse", "model_overloaded", "ran out of capacity"),
    ];
    for (shape, name, code, words) in cases {
        let error = replay(shape, name, 1).await.0.expect_err("no turn");
        assert_eq!(error.code(), code, "{name}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn done_without_a_reason_is_an_end_if_anything_was_said() {
    let said = async |body: &'static str| {
        let raw = Raw { status: 200, headers: vec![], pieces: vec![body.into()] };
        Fixture::new(Shape::Openai, move |_| raw.clone().into()).await.ask(request("m")).await
    };
    let turn =
        said("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n").await.expect("a turn");
    assert_eq!((turn.text.as_str(), turn.stop_reason), ("Hi", StopReason::EndTurn));
    assert_eq!(said("data: [DONE]\n\n").await.expect_err("nothing").code(), "model_stream_cut");
    assert_eq!(said("").await.expect_err("nothing").code(), "model_stream_cut");
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_before_its_end_is_cut() {
    for (shape, name) in [
        (Shape::Anthropic, "anthropic/text.sse"),
        (Shape::Openai, "openai/text.sse"),
        (Shape::Responses, "responses/text.sse"),
        (Shape::Deepseek, "deepseek/thinking_and_tools.sse"),
    ] {
        let bytes = fixture(name);
        let whole = String::from_utf8(bytes.clone()).expect("text");
        // From here on nothing is missing: the end of Anthropic's last event, the `finish_reason` of the others.
        let enough = match shape {
            Shape::Anthropic => bytes.len() - 2,
            Shape::Openai => whole.find("\"finish_reason\":\"stop\"").expect("an end"),
            Shape::Responses => bytes.len() - 2,
            Shape::Deepseek => whole.find("\"finish_reason\":\"tool_calls\"").expect("an end"),
        };
        // All ends near the last events, and some before.
        let lengths: Vec<usize> = (0..enough).filter(|at| at % 37 == 0 || at + 250 > enough).collect();
        let fixture = Fixture::new(shape, move |asked| {
            let length: usize = asked.last_text().parse().expect("a length");
            Raw { status: 200, headers: vec![], pieces: vec![bytes[..length].to_vec()] }.into()
        })
        .await;
        for length in lengths {
            let mut request = request("m");
            request.messages = vec![std::sync::Arc::new(drawloom_contract::message::Message::user(length.to_string()))];
            let error = fixture.ask(request).await.expect_err("the end is missing");
            assert_eq!(error.code(), "model_stream_cut", "{name} up to {length}: {error}");
        }
    }
}
