//! Channels as agents, callers and commands use them: real processes, one store. Each failure of the refine loop that made agents look
//! silent is here, on every surface.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    mcp::client::{Client, Era},
    support::Home,
};

/// Two agents that talk over channels, one of which is made at runtime.
const CONFIG: &str = r#"
listen: 127.0.0.1:0
channels:
  questions: { description: What to answer. }
  notes: { scope: user }
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { agent: answerer, turn: 1 }, calls: [{ tool: Channel, input: { op: subscribe, channel: questions, wait_ms: 600000 } }] }
        - { when: { agent: answerer, turn: 2 }, calls: [{ tool: Channel, input: { op: publish, channel: answers, value: { to: "{{last}}" } } }] }
        - { when: { agent: answerer }, text: "{{last}}" }
        - { when: { agent: noter, turn: 1 }, calls: [{ tool: Channel, input: { op: subscribe, channel: notes, wait_ms: 600000 } }] }
        - { when: { agent: noter }, text: "{{last}}" }
        - { when: { agent: listener, turn: 1 }, calls: [{ tool: Channel, input: { op: subscribe, channel: answers, wait_ms: 600000 } }] }
        - { when: { agent: listener }, text: "{{last}}" }
        - { when: { agent: mute, turn: 1 }, calls: [{ tool: Channel, input: { op: publish, channel: questions, value: 1 } }] }
        - { text: "{{last}}" }
defaults: { provider: script, model: test }
agents:
  answerer: { description: Answers., tools: [Channel], agents: [], hosts: [], volumes: [], channels: { publish: ["ans*"], subscribe: [questions] } }
  listener: { description: Listens., tools: [Channel], agents: [], hosts: [], volumes: [], channels: { subscribe: ["ans*"] } }
  noter: { description: Notes., tools: [Channel, Context], agents: [], hosts: [], volumes: [], channels: { subscribe: [notes] } }
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

/// Calls a tool over MCP and returns its answer as JSON.
fn over_mcp(url: &str, tool: &str, arguments: Value) -> Value {
    let client = Client::new(url, Era::Stateless).at("/mcp?toolsets=channels");
    let result = client.call(tool, arguments);
    if result["structuredContent"].is_object() {
        return result["structuredContent"].clone();
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| result.clone())
}

#[test]
fn messages_are_published_read_followed_and_purged_by_commands() {
    let home = home();
    let listed = home.run(&["channels", "ls"]).exits(0).stdout;
    assert!(listed.contains("questions") && listed.contains("What to answer."), "{listed}");
    assert!(home.run(&["channels", "create", "news", "--broadcast"]).exits(0).stdout.contains("made channel news"));
    home.run(&["channels", "publish", "questions", "{\"q\": 1}"]).exits(0);
    home.run_with_input(&["channels", "publish", "questions", "-", "--text"], "12").exits(0);
    let peeked = home.run(&["channels", "read", "questions", "--peek", "--json"]).exits(0).json();
    assert_eq!((&peeked["messages"][0]["value"], &peeked["messages"][1]["value"]), (&json!({"q": 1}), &json!("12")));
    home.run(&["channels", "ack", "questions", "cur_1"]).exits(0);
    let read = home.run(&["channels", "read", "questions"]).exits(0).stdout;
    assert!(read.contains("cur_2") && read.contains("12") && !read.contains("cur_1 "), "{read}");
    assert!(home.run(&["channels", "read", "questions"]).exits(1).stderr.contains("no messages"));
    let back = home.run(&["channels", "ack", "questions", "cur_1", "--json"]).exits(2).json();
    assert_eq!(back["error"]["code"], "channel_cursor_regression");
    let mut tail = home
        .command(&["channels", "tail", "questions", "--all", "--count", "3", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON") };
    assert_eq!(next()["data"]["value"], json!({"q": 1}));
    assert_eq!(next()["data"]["value"], "12");
    home.run(&["channels", "publish", "questions", "third"]).exits(0);
    assert_eq!(next()["data"]["value"], "third");
    assert!(tail.wait().expect("a child").success());
    assert!(home.run(&["channels", "purge", "questions"]).exits(0).stdout.starts_with("removed 3 messages"));
    assert!(home.run(&["channels", "rm", "questions"]).exits(2).stderr.contains("comes from the config file"));
    home.run(&["channels", "rm", "news"]).exits(0);
    let unknown = home.run(&["channels", "publish", "qestions", "1"]).exits(2);
    assert!(unknown.stderr.contains("did you mean \"questions\"?"), "{unknown:?}");
}

#[test]
fn a_run_waits_as_one_call_and_answers_over_a_channel_made_at_runtime() {
    let home = home();
    let server = home.serve();
    let run = home.run(&["run", "answerer", "go", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    // The channel that the agent publishes to is made while it runs, over MCP alone.
    let made = over_mcp(&server.url, "create_channel", json!({ "name": "answers" }));
    assert_eq!(made["source"], "runtime", "{made}");
    let sent =
        over_mcp(&server.url, "publish_channel", json!({ "channel": "questions", "payload": "what is recursion?" }));
    assert!(sent["message_id"].is_string(), "{sent}");
    let answer = over_mcp(&server.url, "subscribe_channel", json!({ "channel": "answers", "wait_ms": 30_000 }));
    let text = answer["messages"][0]["value"]["to"].as_str().expect("a text");
    assert!(text.contains("what is recursion?"), "{answer}");
    let shown = home.run(&["runs", "show", &run, "--wait", "--json"]).exits(0).json();
    assert_eq!(shown["status"], "completed");
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    assert!(events.contains("\\\"effective_wait_ms\\\":600000"), "the whole wait is one call: {events}");
    // It is still there after a restart, and purged over MCP as over REST.
    drop(server);
    let server = home.serve();
    home.run(&["call", "publish_channel", "channel=answers", "value=1"]).exits(0);
    assert_eq!(over_mcp(&server.url, "purge_channel", json!({ "name": "answers" }))["purged"], 2);
    assert_eq!(over_mcp(&server.url, "purge_channel", json!({ "name": "questions" }))["purged"], 1);
    // All four under one name, over MCP, `call` and thereby REST.
    let define = |op: &str, name: &str| over_mcp(&server.url, "channeldef", json!({ "op": op, "name": name }));
    assert_eq!(define("create", "desk")["source"], "runtime");
    home.run(&["call", "publish_channel", "channel=desk", "value=1"]).exits(0);
    let purged = home.run(&["call", "channeldef", "op=purge", "name=desk"]).exits(0).json();
    assert_eq!((&purged["purged"], purged.get("source")), (&json!(1), None), "{purged}");
    let changed = json!({ "op": "update", "name": "desk", "max_messages": 7 });
    assert_eq!(over_mcp(&server.url, "channeldef", changed)["max_messages"], 7);
    let moved = home.run(&["call", "channeldef", "op=update", "name=desk", "scope=user"]).exits(2);
    assert!(moved.stdout.contains("op=update does not take scope"), "{moved:?}");
    assert_eq!(define("delete", "desk"), json!({ "name": "desk", "deleted": true }));
    assert_eq!(define("purge", "questions")["purged"], 0, "a channel of the config can be purged too");
}

#[test]
fn a_deleted_channel_ends_the_wait_of_a_run_and_of_a_tail() {
    let home = home();
    let _server = home.serve();
    home.run(&["channels", "create", "answers"]).exits(0);
    let run = home.run(&["run", "listener", "go", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let mut tail = home.command(&["channels", "tail", "answers", "--all"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    home.run(&["channels", "publish", "answers", "begun"]).exits(0);
    let mut first = String::new();
    BufReader::new(tail.stdout.take().expect("an output")).read_line(&mut first).expect("a line");
    assert!(first.contains("begun"), "{first}");
    let shown = home.run(&["runs", "show", &run, "--wait", "--json"]).exits(0).json();
    assert!(shown["final_text"].as_str().is_some_and(|text| text.contains("begun")), "{shown}");
    // Nothing is left for the next run, so it waits.
    let run = home.run(&["run", "listener", "go", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let mut listed = std::iter::repeat_with(|| home.run(&["runs", "list", "--json"]).exits(0).stdout).take(500);
    assert!(listed.any(|runs| runs.contains("waiting")), "it never waits");
    home.run(&["channels", "rm", "answers"]).exits(0);
    let shown = home.run(&["runs", "show", &run, "--wait", "--json"]).exits(0).json();
    assert!(shown["final_text"].as_str().is_some_and(|text| text.contains("channel_not_declared")), "{shown}");
    let ended = tail.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("unknown channel \"answers\""), "{said}");
}

#[test]
fn a_wait_above_the_limit_says_how_long_it_was_on_every_surface() {
    let home = home();
    let server = home.serve();
    home.run(&["channels", "publish", "questions", "1"]).exits(0);
    let over = over_mcp(&server.url, "subscribe_channel", json!({ "channel": "questions", "wait_ms": 300_000 }));
    assert_eq!((&over["effective_wait_ms"], over["warnings"].as_array().map(Vec::len)), (&json!(60_000), Some(1)));
    home.run(&["channels", "publish", "questions", "2"]).exits(0);
    let called = home.run(&["call", "subscribe_channel", "channel=questions", "wait_ms=300000"]).exits(0).json();
    assert_eq!((&called["effective_wait_ms"], called["warnings"].as_array().map(Vec::len)), (&json!(60_000), Some(1)));
    home.run(&["channels", "publish", "questions", "3"]).exits(0);
    let read = home.run(&["channels", "read", "questions", "--wait", "5m"]).exits(0);
    assert!(read.stderr.contains("warning: wait_ms 300000 is above the limit of 60000"), "{read:?}");
}

#[test]
fn the_user_of_a_kickoff_reaches_the_run_of_that_user() {
    let home = home();
    let server = home.serve();
    let run =
        home.run(&["call", "spawn_run", "agent=noter", "prompt=go", "user_id=exp3", "mode=detach"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let sent =
        over_mcp(&server.url, "publish_channel", json!({ "channel": "notes", "value": "kickoff", "user_id": "exp3" }));
    assert!(sent["message_id"].is_string() && sent["warnings"].is_null(), "{sent}");
    let shown = home.run(&["runs", "show", &run, "--wait", "--json"]).exits(0).json();
    assert!(shown["final_text"].as_str().is_some_and(|text| text.contains("kickoff")), "{shown}");
    home.run(&["channels", "publish", "notes", "mine", "--user", "bob"]).exits(0);
    assert!(home.run(&["channels", "read", "notes", "--user", "bob"]).exits(0).stdout.contains("mine"));
    home.run(&["channels", "read", "notes"]).exits(1);
}

#[test]
fn a_user_id_is_obeyed_under_a_shared_token_and_told_to_be_ignored_under_a_bound_one_on_every_surface() {
    const SHARED: &str = "a-long-shared-token-of-all";
    const ANNS: &str = "the-token-of-ann-and-no-other";
    let home = home();
    let ann = "principals: { ann: { subject: ann, scopes: [\"channel:publish\", \"channel:read\"], token_env: ANN_TOKEN } }\n";
    home.write("drawloom.yaml", &format!("{CONFIG}{ann}"));
    home.run(&["trust", "--yes"]).exits(0);
    let mut command = home.command(&["serve", "--json", "--log", "error"]);
    command.env("DRAWLOOM_TOKEN", SHARED).env("ANN_TOKEN", ANNS);
    let server = home.serve_with(command);
    let run = |token: &str, arguments: &[&str]| home.finish(home.command(arguments).env("DRAWLOOM_TOKEN", token));
    // Each surface publishes a note for bob, and says what it was told.
    let publish = |token: &str, surface: &str| -> String {
        match surface {
            "mcp" => {
                let client = Client::new(&server.url, Era::Stateless).at("/mcp?toolsets=channels").with_token(token);
                let arguments = json!({ "channel": "notes", "value": surface, "user_id": "bob" });
                client.call("publish_channel", arguments).to_string()
            }
            "call" => {
                let arguments = ["call", "publish_channel", "channel=notes", "value=call", "user_id=bob"];
                run(token, &arguments).exits(0).stdout
            }
            _ => run(token, &["channels", "publish", "notes", "command", "--user", "bob"]).exits(0).stderr,
        }
    };
    let taken = |token: &str, user: &str| -> Vec<Value> {
        let user = format!("user_id={user}");
        let read = run(token, &["call", "subscribe_channel", "channel=notes", &user]).exits(0).json();
        read["messages"].as_array().expect("messages").iter().map(|message| message["value"].clone()).collect()
    };
    let surfaces = ["mcp", "call", "command"];
    for surface in surfaces {
        let said = publish(SHARED, surface);
        assert!(!said.contains("ignored"), "{surface}: {said}");
    }
    assert_eq!(taken(SHARED, "bob"), surfaces);
    assert_eq!(taken(SHARED, "ann"), Vec::<Value>::new());
    for surface in surfaces {
        let said = publish(ANNS, surface);
        assert!(said.contains("user_id bob ignored: the token belongs to ann"), "{surface}: {said}");
    }
    assert_eq!(taken(SHARED, "bob"), Vec::<Value>::new(), "nothing went to bob");
    assert_eq!(taken(SHARED, "ann"), surfaces, "all of it is ann's");
}

#[test]
fn a_tool_without_its_gate_a_gate_without_its_tool_and_an_unknown_channel_are_told() {
    let home = home();
    let more = "  mute: { tools: [Channel], agents: [], hosts: [], volumes: [] }\n  idle: { tools: [], agents: [], hosts: [], volumes: [], channels: { publish: [questions] } }\n  short: { tools: [Channel], agents: [], hosts: [], volumes: [], channels: { subscribe: [questions] }, system_prompt: \"Subscribe with wait_ms: 30000 and repeat.\" }\n";
    home.write("drawloom.yaml", &format!("{CONFIG}{more}"));
    let said = home.run(&["validate", "drawloom.yaml", "--json"]).exits(0).stdout;
    assert!(said.contains("agent mute lists the tool Channel but `channels` is empty"), "{said}");
    assert!(said.contains("agent idle sets `channels` but does not list the tool Channel"), "{said}");
    assert!(said.contains("names \\\"ans*\\\", but no such channel is known"), "{said}");
    assert!(said.contains("agent short asks for wait_ms 30000"), "{said}");
    let run = home.run(&["run", "mute", "x", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    assert!(events.contains("channels: {publish: [NAME], subscribe: [NAME]}"), "{events}");
    home.write("drawloom.yaml", &CONFIG.replace("questions: { description", "\"a b\": { description"));
    assert!(home.run(&["validate", "drawloom.yaml", "--json"]).exits(2).stdout.contains("invalid channel name"));
    home.write("drawloom.yaml", &CONFIG.replace("scope: user", "scope: usr"));
    assert!(home.run(&["validate", "drawloom.yaml", "--json"]).exits(2).stdout.contains("usr"));
}
