//! Every limit of outside MCP servers is crossed, and told as the list says.

use std::{io, sync::Arc, time::Duration};

use drawloom_contract::{
    limits::{Amount, Limit},
    redact::Redactor,
    tool::Offer,
};
use rmcp::transport::Transport as _;
use serde_json::{Map, Value, json};

use super::fixture::{Asked, answering, answering_later, server, told};
use crate::outside::{
    LIMITS, McpServerConfig,
    filter::{ConnectionState, Filter},
    probe::tests::probe_timeout,
    problems,
    stdio::Lines,
};

/// The number that a limit allows.
fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// What a run learns of a server that lists `tools`: its warnings must contain `says`.
async fn listing(tools: Value, says: &str) -> String {
    let url = answering(move |asked| asked.older("s", &tools)).await;
    warned(&*server(url, 30_000).offer().await, says)
}

fn warned(offer: &Offer, says: &str) -> String {
    let said: Vec<&str> =
        offer.remarks.iter().map(|remark| remark.text.as_str()).chain(offer.unavailable.as_deref()).collect();
    assert!(said.iter().any(|text| text.contains(says)), "no warning says {says:?}: {said:?}");
    "warnings".to_owned()
}

/// What a model learns of a call that the server answers with `answer`.
async fn calling(answer: impl Fn(&Asked) -> String + Send + Sync + 'static, says: &str) -> String {
    let url = answering(move |asked| match asked.method() {
        "tools/call" => answer(asked),
        _ => asked.older("s", &json!([{"name": "t", "inputSchema": {}}])),
    })
    .await;
    let called = server(url, 30_000).call("t", Map::new()).await;
    let code = if called.is_ok() { "truncated" } else { "tool_error" };
    let text = told(called);
    assert!(text.contains(says), "the result does not say {says:?}: {}", text.chars().take(500).collect::<String>());
    code.to_owned()
}

/// A program's output up to where its connection is closed.
async fn printing(output: String, says: &str) -> String {
    let state = Arc::<ConnectionState>::default();
    let redactor = Arc::new(Redactor::new([""; 0]));
    let filter = Filter::new(state.clone());
    let mut lines =
        Lines::new(io::Cursor::new(output.into_bytes()), tokio::io::sink(), filter, probe_timeout(), redactor);
    while lines.receive().await.is_some() {}
    let why = state.why().unwrap_or_default();
    assert!(state.is_by_us() && why.contains(says), "{why}");
    "closed".to_owned()
}

fn events(asked: &Asked, body: &str) -> String {
    asked.with(200, "Content-Type: text/event-stream\r\n", body)
}

/// Crosses a limit; returns the code by which it is told.
async fn cross(limit: &Limit) -> String {
    match limit.name {
        "outside_call_time" => {
            let url = answering_later(|asked| {
                let (said, is_call) =
                    (asked.older("s", &json!([{"name": "t", "inputSchema": {}}])), asked.method() == "tools/call");
                Box::pin(async move {
                    if is_call {
                        std::future::pending::<()>().await;
                    }
                    said
                })
            })
            .await;
            let config = McpServerConfig { timeout_ms: 200, ..McpServerConfig::default() };
            let error = super::fixture::server_of(url, config).call("t", Map::new()).await.expect_err("no answer");
            assert!(error.to_string().contains("200 ms"), "{error}");
            "tool_error".into()
        }
        "outside_start_time" => {
            let (url, _) = super::silence().await;
            warned(&*server(url, 200).offer().await, "timed out after 200 ms listing its tools")
        }
        "outside_result_bytes" => {
            let text = "x".repeat(most(limit) + 1);
            calling(
                move |asked| asked.result("", &json!({"content": [{"type": "text", "text": text}]})),
                "[truncated: ",
            )
            .await
        }
        "outside_server_name_bytes" => {
            let config = json!({"x".repeat(most(limit) + 1): {"command": ["x"]}});
            let wrong = problems(&serde_json::from_value(config).expect("the form is right"));
            (if wrong.len() == 1 { "bad_config" } else { "taken" }).into()
        }
        "outside_message_bytes" => {
            let length = most(limit);
            let printed = printing("x".repeat(length + 1), "a message of more than 8388608 bytes").await;
            assert_eq!(printed, "closed");
            calling(
                move |asked| asked.result("", &json!({"content": [{"type": "text", "text": "x".repeat(length)}]})),
                "8388608",
            )
            .await
        }
        "outside_stream_bytes" => {
            let comment = format!(": {}\n", "x".repeat(1 << 20)).repeat(most(limit) / (1 << 20) + 1);
            calling(move |asked| events(asked, &comment), "a stream of more than").await
        }
        "outside_unasked_bytes" => {
            printing(format!("{}\n", "x".repeat(1 << 20)).repeat((most(limit) >> 20) + 1), "unsolicited bytes").await
        }
        "outside_open_requests" => {
            printing((0..=most(limit)).map(ask).collect(), "requests without reading the responses").await
        }
        "outside_open_requests_per_stream" => {
            let asks: String = (0..=most(limit)).map(|id| format!("data: {}\n", ask(id))).collect();
            calling(move |asked| events(asked, &asks), "requests without reading the responses").await
        }
        "outside_tools" => {
            let tools: Vec<Value> = (0..=most(limit)).map(|number| tool(&format!("t{number}"), json!({}))).collect();
            listing(tools.into(), "1 tools of `mcp__out__*` omitted").await
        }
        "outside_list_pages" | "outside_listed_tools" | "outside_list_bytes" => pages(limit).await,
        "outside_tool_name_bytes" => {
            listing(json!([tool(&"x".repeat(most(limit)), json!({}))]), "its name is longer").await
        }
        "outside_description_bytes" => {
            let described = json!([{"name": "t", "description": "x".repeat(most(limit) + 1), "inputSchema": {}}]);
            let url = answering(move |asked| asked.older("s", &described)).await;
            let card = server(url, 30_000).offer().await.tools[0].card();
            (if card.description.contains("[truncated: ") { "truncated" } else { "whole" }).into()
        }
        "outside_schema_bytes" => {
            listing(json!([tool("t", json!({"description": "x".repeat(most(limit))}))]), "the limit is").await
        }
        "outside_schema_depth" => {
            let deep = (0..=most(limit)).fold(json!({}), |below, _| json!({"items": below}));
            listing(json!([tool("t", json!({"properties": {"a": deep}}))]), "nested more than 24 levels deep").await
        }
        "outside_property_name_bytes" => {
            let named = json!({"properties": {"x".repeat(most(limit) + 1): {}}});
            listing(json!([tool("t", named)]), "invalid input schema").await
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "inputSchema": schema})
}

fn ask(id: usize) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": format!("q{id}"), "method": "ping"}))
}

/// A list of tools without end. Which limit is crossed depends on what its pages hold.
async fn pages(limit: &Limit) -> String {
    let (tools, length) = match limit.name {
        "outside_list_pages" => (1, 0),
        "outside_listed_tools" => (most(limit) + 1, 0),
        _ => (100, 50_000),
    };
    let url = answering(move |asked| {
        if asked.method() != "tools/list" {
            return asked.older("s", &json!([]));
        }
        let schema = json!({"description": "x".repeat(length)});
        let tools: Vec<Value> = (0..tools).map(|number| tool(&format!("t{number}"), schema.clone())).collect();
        asked.result("", &json!({"tools": tools, "nextCursor": "on"}))
    })
    .await;
    warned(&*server(url, 60_000).offer().await, "is too long; the rest is omitted")
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        let crossed = tokio::time::timeout(Duration::from_secs(120), cross(limit)).await;
        assert_eq!(crossed.unwrap_or_else(|_| panic!("{} hangs", limit.name)), limit.code, "{}", limit.name);
    }
    io::Write::write_fmt(
        &mut io::stderr(),
        format_args!("limits: {} limits of outside MCP servers crossed\n", LIMITS.len()),
    )
    .expect("stderr");
}
