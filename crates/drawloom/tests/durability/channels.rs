//! The tool `Channel` in a run whose server is killed around every one of its commits: each message is published and taken once, and its
//! answer is the same as without a crash.

use serde_json::{Value, json};

use crate::{
    http::{get, post},
    process::Case,
};

const CONFIG: &str = r#"
channels: { in: {}, out: {}, copy: {}, work: {} }
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: Channel, input: { op: subscribe, channel: in, max_messages: 1 } }] }
        - { when: { turn: 2 }, calls: [{ tool: Channel, input: { op: publish, channel: out, value: { hop: 1 } } }] }
        - { when: { turn: 3 }, calls: [{ tool: Channel, input: { op: broadcast, channels: [out, copy], value: { hop: 2 } } }] }
        - { when: { turn: 4 }, calls: [{ tool: Channel, input: { op: subscribe, channel: work, group: g } }] }
        - { when: { turn: 5 }, calls: [{ tool: Channel, input: { op: publish, channel: out, value: later, deliver_after_ms: 1 } }] }
        - { when: { turn: 6 }, calls: [{ tool: Channel, input: { op: subscribe, channel: in, max_messages: 1 } }] }
        - { text: "read: {{last}}" }
defaults: { provider: script, model: m }
agents:
  talker: { tools: [Channel], agents: [], hosts: [], channels: { publish: [out, copy], subscribe: [in, work] } }
"#;

fn values(url: &str, channel: &str) -> Vec<Value> {
    let page = get(url, &format!("/v1/channels/{channel}/peek?from_cursor=cur_0&max_messages=100"));
    page["messages"].as_array().expect("messages").iter().map(|message| message["value"].clone()).collect()
}

/// What every channel has, and what the run said at its end.
fn outcome(url: &str) -> Value {
    let run = get(url, "/v1/agents/talker?wait_ms=60000");
    assert_eq!(run["status"], "completed", "{run}");
    let text = run["final_text"].as_str().expect("a text");
    let last: Value = serde_json::from_str(text.strip_prefix("read: ").expect("the last result")).expect("JSON");
    // The deferred message is published by the server, when it is due.
    let wait = json!({ "from_cursors": { "out": "cur_2" }, "channels": ["out"], "wait_ms": 30_000 });
    let awaited = post(url, "/v1/channels:await", &wait).and_then(|answer| answer.json()).expect("an answer");
    assert_eq!(awaited["satisfied"], true, "{awaited}");
    let second = last["messages"][0]["value"].clone();
    json!({ "out": values(url, "out"), "copy": values(url, "copy"), "second": second })
}

fn run(kill: Option<&str>) -> (Value, Vec<String>) {
    let case = Case::new(CONFIG);
    let mut server = case.start(&json!({}));
    for (channel, value) in [("in", "first"), ("in", "second"), ("in", "third"), ("work", "job")] {
        post(&server.url, &format!("/v1/channels/{channel}/publish"), &json!({ "value": value })).expect("published");
    }
    server.kill();
    let mut server = case.start(&json!({ "points": case.path("points"), "kill": kill }));
    let ask = json!({ "agent": "talker", "prompt": "go", "agent_id": "talker", "mode": "detach" });
    let answer = post(&server.url, "/v1/runs", &ask);
    assert!(answer.is_ok() || kill.is_some(), "{answer:?}");
    let seen = match kill {
        None => outcome(&server.url),
        Some(_) => {
            server.ended();
            let again = case.start(&json!({}));
            outcome(&again.url)
        }
    };
    (seen, case.lines("points"))
}

#[test]
fn killed_around_any_commit_of_a_channel_a_run_ends_as_if_nothing_had_happened() {
    let (seen, points) = run(None);
    let expected = json!({
        "out": [{ "hop": 1 }, { "hop": 2 }, "later"],
        "copy": [{ "hop": 2 }],
        "second": "second",
    });
    assert_eq!(seen, expected);
    // The name of a deferred message has its time, which is another one in each run.
    let is_effect = |point: &&String| point.contains("root#") && (point.contains(":value") || point.contains(":log"));
    let is_stable = |point: &&String| !point.contains("/msg_");
    let mut effects: Vec<&String> = points.iter().filter(is_effect).filter(is_stable).collect();
    assert_eq!(effects.len(), 12, "before and after each of six changes: {points:?}");
    effects.extend(points.iter().filter(|point| point.contains("deliver:log")));
    assert_eq!(effects.len(), 14, "before and after the deferred message is published: {points:?}");
    for point in effects {
        let (killed, _) = run(Some(point));
        assert_eq!(killed, expected, "killed {point}");
    }
}
