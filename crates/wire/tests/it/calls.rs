//! What passes between a host and a server that is well.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    host::Host,
    upstream::{Do, Event, Upstream},
};

fn echo(asked: &crate::upstream::Asked) -> Do {
    Do::json(&asked.result(json!({ "echo": asked.body["params"]["name"] })))
}

#[tokio::test]
async fn answers_come_back_for_string_and_integer_ids_and_calls_get_a_key() {
    let server = Upstream::start(echo).await;
    let mut host = Host::connect(&server.url());
    host.call("seven", "a").await;
    assert_eq!(host.next().await, json!({ "jsonrpc": "2.0", "id": "seven", "result": { "echo": "a" } }));
    host.call(7, "b").await;
    assert_eq!(host.next().await, json!({ "jsonrpc": "2.0", "id": 7, "result": { "echo": "b" } }));
    let arguments = json!({ "idempotency_key": "mine", "n": 12345678901234567890u64 });
    host.request(8, "tools/call", json!({ "name": "c", "arguments": arguments, "_meta": { "x": 1 } })).await;
    host.next().await;
    let asked = server.asked();
    let keys: Vec<&str> = asked.iter().filter_map(|asked| asked.key()).collect();
    assert_eq!(keys.len(), 3);
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2], "mine");
    assert_eq!(asked[2].body["params"]["_meta"]["x"], 1);
    assert_eq!(asked[2].body["params"]["arguments"], arguments);
    assert_eq!(asked[0].header("authorization"), Some("Bearer a token"));
    assert_eq!(asked[0].header("x-more"), Some("yes"));
    assert_eq!((asked[0].verb.as_str(), asked[0].target.as_str()), ("POST", "/mcp"));
    assert_eq!(asked[0].header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_slow_call_holds_up_no_other() {
    let gate = Arc::new(Semaphore::new(0));
    let slow = gate.clone();
    let server = Upstream::start(move |asked| match asked.body["params"]["name"].as_str() {
        Some("slow") => Do::After(slow.clone(), Box::new(echo(asked))),
        _ => echo(asked),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "slow").await;
    for id in 2..50 {
        host.call(id, "quick").await;
    }
    let mut answered: Vec<i64> = Vec::new();
    for _ in 2..50 {
        answered.push(host.next().await["id"].as_i64().expect("a number"));
    }
    answered.sort_unstable();
    assert_eq!(answered, (2..50).collect::<Vec<_>>());
    gate.add_permits(1);
    assert_eq!(host.next().await["id"], 1);
}

#[tokio::test]
async fn a_stream_brings_progress_and_questions_before_its_answer() {
    let gate = Arc::new(Semaphore::new(0));
    let answered = gate.clone();
    let server = Upstream::start(move |asked| match asked.method() {
        "tools/call" => {
            let progress = json!({ "progressToken": "p", "progress": 1 });
            let question = json!({ "jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {} });
            Do::Stream(vec![
                Event::Raw(": a comment\n\nid: 1\ndata:\n\n".into()),
                Event::Say(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress })),
                Event::Say(question),
                Event::Wait(answered.clone()),
                Event::Raw(format!("data: {{\ndata: \"jsonrpc\":\"2.0\",\"id\":{},\r\ndata: \"result\":{{}}}}\n\n", 1)),
                Event::Say(asked.result(json!("a second answer, which is one too many"))),
            ])
        }
        _ => {
            gate.add_permits(1);
            Do::accepted()
        }
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.request(1, "tools/call", json!({ "name": "a", "_meta": { "progressToken": "p" } })).await;
    assert_eq!(host.next().await["params"]["progress"], 1);
    assert_eq!(host.next().await["id"], "q1");
    host.send(&json!({ "jsonrpc": "2.0", "id": "q1", "result": { "action": "accept" } })).await;
    assert_eq!(host.next().await, json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(server.asked()[1].body, json!({ "jsonrpc": "2.0", "id": "q1", "result": { "action": "accept" } }));
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_is_no_message_is_told_so_and_the_next_one_is_served() {
    let server = Upstream::start(echo).await;
    let mut host = Host::connect(&server.url());
    for (line, code) in [
        ("{\"jsonrpc\": ", -32700),
        ("nonsense", -32700),
        ("[]", -32600),
        ("17", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
    ] {
        host.send_line(line).await;
        let answer = host.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{line}");
    }
    for (line, id) in [
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"a"}}"#, json!(1.0)),
        (r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#, json!(1e3)),
        (r#"{"id":12,"method":42}"#, json!(12)),
    ] {
        host.send_line(line).await;
        let answer = host.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32600)), "{line}");
    }
    host.send_line("").await;
    host.send_line(&format!("{{\"id\":5,\"x\":\"{}\"}}", "x".repeat(17 << 20))).await;
    let answer = host.next().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["code"]), (&json!(5), &json!("line_too_long")));
    host.send_line("[{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}]\r").await;
    assert_eq!(host.next().await["id"], 6);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_a_server_says_in_another_protocol_does_not_reach_the_host() {
    let server = Upstream::start(|asked| match asked.body["params"]["name"].as_str() {
        Some("streamed") => Do::Stream(vec![
            Event::Say(json!({ "method": "notifications/message", "params": {} })),
            Event::Say(json!({ "jsonrpc": "1.0", "id": 1, "result": "a" })),
            Event::Say(json!({ "id": 1, "result": "b" })),
            Event::Say(asked.result(json!("c"))),
        ]),
        _ => Do::json(&json!({ "id": 2, "result": "d" })),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "streamed").await;
    assert_eq!(host.next().await, json!({ "jsonrpc": "2.0", "id": 1, "result": "c" }));
    host.call(2, "whole").await;
    assert_eq!(host.next().await["error"]["data"]["code"], "not_drawloom");
}

#[tokio::test]
async fn a_stream_is_one_however_its_kind_is_written() {
    let server = Upstream::start(|asked| {
        let kind = ("content-type", "Text/Event-Stream; charset=utf-8".to_owned());
        Do::Answer(200, vec![kind], format!("data: {}\n\n", asked.result(json!(1))))
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    assert_eq!(host.next().await["result"], 1);
}

#[tokio::test]
async fn at_the_limit_further_calls_are_refused_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let slow = gate.clone();
    let server = Upstream::start(move |asked| match asked.method() {
        "tools/call" => Do::After(slow.clone(), Box::new(echo(asked))),
        _ => echo(asked),
    })
    .await;
    let mut host = Host::connect(&server.url());
    for id in 0..drawloom_wire::mcp::MOST_IN_FLIGHT {
        host.call(id, "slow").await;
    }
    host.request("alive", "ping", json!({})).await;
    assert!(host.next().await["result"].is_object(), "a ping finds room");
    host.call("over", "slow").await;
    let refused = host.next().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["code"]), (&json!("over"), &json!("too_many_calls")));
    assert_eq!(refused["error"]["data"]["retryable"], true);
    gate.add_permits(drawloom_wire::mcp::MOST_IN_FLIGHT);
    for _ in 0..drawloom_wire::mcp::MOST_IN_FLIGHT {
        assert!(host.next().await["result"].is_object());
    }
}

#[tokio::test]
async fn a_greeting_that_finds_no_room_holds_up_nobody() {
    let gate = Arc::new(Semaphore::new(0));
    let slow = gate.clone();
    let server = Upstream::start(move |asked| match asked.method() {
        "prompts/list" => Do::After(slow.clone(), Box::new(echo(asked))),
        _ => Do::json(&asked.result(json!({ "protocolVersion": "2025-06-18" }))),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.request("hello", "initialize", json!({ "protocolVersion": "2025-06-18" })).await;
    assert_eq!(host.next().await["id"], "hello");
    for id in 0..drawloom_wire::mcp::MOST_OTHERS {
        host.request(id, "prompts/list", json!({})).await;
    }
    host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    host.request("over", "prompts/list", json!({})).await;
    assert_eq!(host.next().await["id"], "over");
    host.call("call", "a").await;
    assert_eq!(host.next().await["id"], "call");
    gate.add_permits(drawloom_wire::mcp::MOST_OTHERS);
    for _ in 0..drawloom_wire::mcp::MOST_OTHERS {
        assert!(host.next().await["result"].is_object());
    }
    host.request("later", "ping", json!({})).await;
    assert_eq!(host.next().await["id"], "later");
}

#[tokio::test]
async fn stateless_messages_carry_their_headers() {
    let server = Upstream::start(|asked| match asked.method() {
        "tools/list" => {
            let schema = json!({ "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
            Do::json(&asked.result(json!({ "tools": [{ "name": "a", "inputSchema": schema }] })))
        }
        _ => echo(asked),
    })
    .await;
    let mut host = Host::connect(&server.url());
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    host.request("server-discover-probe-1", "server/discover", json!({ "_meta": meta })).await;
    host.next().await;
    host.request(1, "tools/list", json!({ "_meta": meta })).await;
    host.next().await;
    host.request(2, "tools/call", json!({ "name": "a", "arguments": { "region": "eu" }, "_meta": meta })).await;
    host.next().await;
    let asked = server.asked();
    let headers = |index: usize| {
        ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region", "mcp-session-id"]
            .map(|name| asked[index].header(name))
    };
    assert_eq!(headers(0), [Some("2026-07-28"), Some("server/discover"), None, None, None]);
    assert_eq!(headers(2), [Some("2026-07-28"), Some("tools/call"), Some("a"), Some("eu"), None]);
}

#[tokio::test]
async fn refusals_reach_the_host_in_words() {
    let server = Upstream::start(|asked| match asked.body["params"]["name"].as_str() {
        Some("unknown token") => {
            let body = json!({ "error": { "code": "unknown_token", "message": "nobody has this token" } });
            Do::Answer(401, Vec::new(), body.to_string())
        }
        Some("rpc") => {
            let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32602, "message": "no" } });
            Do::Answer(400, vec![("content-type", "application/json".into())], body.to_string())
        }
        _ => Do::Answer(418, Vec::new(), "<html>".into()),
    })
    .await;
    let mut host = Host::connect(&server.url());
    host.call(1, "unknown token").await;
    let denied = host.next().await;
    assert_eq!(denied["error"]["data"]["code"], "upstream_denied");
    let message = denied["error"]["message"].as_str().expect("text");
    assert!(message.contains("nobody has this token") && message.contains("DRAWLOOM_TOKEN"), "{message}");
    host.call(2, "rpc").await;
    let error = json!({ "code": -32602, "message": "no" });
    assert_eq!(host.next().await, json!({ "jsonrpc": "2.0", "id": 2, "error": error }));
    host.call(3, "html").await;
    assert_eq!(host.next().await["error"]["data"]["code"], "not_drawloom");
    assert_eq!(server.asked().len(), 3, "none of them is sent again");
}

#[tokio::test]
async fn answers_that_come_soon_after_the_end_of_the_input_are_still_written() {
    let gate = Arc::new(Semaphore::new(0));
    let slow = gate.clone();
    let mut server = Upstream::start(move |asked| Do::After(slow.clone(), Box::new(echo(asked)))).await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    server.hear("tools/call").await;
    let (rest, ()) = tokio::join!(host.close(), async { gate.add_permits(1) });
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["id"], 1);
}

#[tokio::test]
async fn a_signal_ends_it_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let mut server = Upstream::start(move |asked| Do::After(gate.clone(), Box::new(echo(asked)))).await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    server.hear("tools/call").await;
    assert_eq!(host.stop().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_host_that_does_not_read_does_not_keep_it_from_ending() {
    for by_signal in [false, true] {
        let large = "x".repeat(200 * 1024);
        let mut server = Upstream::start(move |asked| Do::json(&asked.result(json!(large)))).await;
        let mut host = Host::connect_at_speed(&server.url(), 20);
        for id in 0..3 {
            host.call(id, "a").await;
            server.hear("tools/call").await;
        }
        host.ends_unread(by_signal).await;
    }
}
