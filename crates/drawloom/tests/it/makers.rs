//! A definition gives no more than its maker has: a maker of each single scope defines the widest agents that it may, whose runs then
//! try every capability of every tool. What happens, the maker's own token could have done directly.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use drawloom_contract::caller::Scope;
use drawloom_substrate::{STORE_TOOLS, SkillTool};
use serde_json::{Value, json};

use crate::support::Home;

const SHARED: &str = "a-long-shared-token-of-all";

/// Something that an agent can do with a tool, and the request that does the same.
struct Capability {
    name: &'static str,
    tool: &'static str,
    /// What the definition needs beside the tool.
    gates: Value,
    /// The call; RUN is a run of another user.
    call: Value,
    /// What the result has when it happened.
    mark: &'static str,
    direct: (&'static str, &'static str, Value),
}

fn capability(
    name: &'static str,
    tool: &'static str,
    gates: Value,
    call: Value,
    mark: &'static str,
    direct: (&'static str, &'static str, Value),
) -> Capability {
    Capability { name, tool, gates, call, mark, direct }
}

fn capabilities() -> Vec<Capability> {
    let scope = |scope: &str| json!({ "memory_scopes": [scope] });
    let evaluation = |scope: &str| json!({ "evaluation_scopes": [scope] });
    let defines = json!({ "definitions": ["agent", "channel", "skill"] });
    let canary = "CANARY";
    let none = Value::Null;
    vec![
        capability(
            "memory-get",
            "Memory",
            scope("tenant"),
            json!({ "op": "get", "key": "known" }),
            canary,
            ("GET", "/v1/memory/tenant/keys/known", none.clone()),
        ),
        capability(
            "memory-own",
            "Memory",
            scope("user"),
            json!({ "op": "get", "key": "known" }),
            canary,
            ("GET", "/v1/memory/user/keys/known", none.clone()),
        ),
        capability(
            "memory-list",
            "Memory",
            scope("tenant"),
            json!({ "op": "list" }),
            canary,
            ("GET", "/v1/memory/tenant/keys", none.clone()),
        ),
        capability(
            "memory-search",
            "Memory",
            scope("tenant"),
            json!({ "op": "search", "query": "canary" }),
            canary,
            ("GET", "/v1/memory/tenant/search?query=canary", none.clone()),
        ),
        capability(
            "memory-set",
            "Memory",
            scope("tenant"),
            json!({ "op": "set", "key": "written", "value": 1 }),
            "\"revision\":",
            ("PUT", "/v1/memory/tenant/keys/written", json!({ "value": 1 })),
        ),
        capability(
            "channel-publish",
            "Channel",
            json!({ "channels": { "publish": ["jobs"] } }),
            json!({ "op": "publish", "channel": "jobs", "value": 1 }),
            "message_id",
            ("POST", "/v1/channels/jobs/publish", json!({ "value": 1 })),
        ),
        capability(
            "channel-peek",
            "Channel",
            json!({ "channels": { "subscribe": ["kept"] } }),
            json!({ "op": "peek", "channel": "kept" }),
            canary,
            ("GET", "/v1/channels/kept/peek", none.clone()),
        ),
        capability(
            "channel-take",
            "Channel",
            json!({ "channels": { "subscribe": ["kept"] } }),
            json!({ "op": "subscribe", "channel": "kept" }),
            canary,
            ("POST", "/v1/channels/kept/subscribe", json!({})),
        ),
        capability(
            "evaluation-submit",
            "Evaluation",
            evaluation("submit_any"),
            json!({ "op": "submit", "run_id": "RUN", "score": 0.5 }),
            "eval_id",
            ("POST", "/v1/runs/RUN/evaluations", json!({ "score": 0.5 })),
        ),
        capability(
            "evaluation-read",
            "Evaluation",
            evaluation("read_any"),
            json!({ "op": "list_for_run", "run_id": "RUN" }),
            canary,
            ("GET", "/v1/runs/RUN/evaluations", none.clone()),
        ),
        capability(
            "spawn",
            "Agent",
            json!({ "agents": ["helper"] }),
            json!({ "name": "helper", "prompt": "CANARY of a child" }),
            canary,
            ("POST", "/v1/runs", json!({ "agent": "helper", "prompt": "CANARY of a child" })),
        ),
        capability(
            "define",
            "AgentDef",
            defines.clone(),
            json!({ "op": "create", "name": "made/by-an-agent", "source": { "tools": [] } }),
            "def_id",
            ("POST", "/v1/definitions", json!({ "kind": "agent", "name": "made/directly", "source": { "tools": [] } })),
        ),
        capability(
            "define-channel",
            "AgentDef",
            json!({ "definitions": ["channel"], "channels": { "publish": ["made"] } }),
            json!({ "op": "create", "kind": "channel", "name": "made", "source": {} }),
            "def_id",
            ("POST", "/v1/definitions", json!({ "kind": "channel", "name": "made-directly", "source": {} })),
        ),
        capability(
            "read-definition",
            "AgentDef",
            defines,
            json!({ "op": "get", "name": "secretive" }),
            canary,
            ("GET", "/v1/definitions/agent/secretive", none.clone()),
        ),
        capability(
            "skill",
            SkillTool::NAME,
            json!({ "skills": ["note"] }),
            json!({ "name": "note" }),
            canary,
            ("GET", "/v1/definitions/skill/note", none),
        ),
    ]
}

/// Tools that reach nothing beside the run in which they are called, with what they reach.
const OWN_RUN: [(&str, &str); 2] = [("Context", "its own run"), ("Artifact", "the tree of its own run")];

fn token(user: &str) -> String {
    format!("the-token-of-{user}-0123456789")
}

fn user_of(scope: Scope) -> String {
    scope.as_str().replace([':', ' '], "-")
}

fn config(capabilities: &[Capability], run: &str) -> String {
    let mut text =
        String::from("listen: 127.0.0.1:0\nproviders:\n  script:\n    driver: script\n    options:\n      rules:\n");
    for Capability { name, tool, call, .. } in capabilities {
        let call = call.to_string().replace("RUN", run);
        text.push_str(&format!(
            "        - {{ when: {{ contains: do-{name}-now, turn: 1 }}, calls: [{{ tool: {tool}, input: {call} }}] }}\n"
        ));
    }
    text.push_str(
        "        - { when: { agent: helper }, text: \"{{prompt}}\" }\n        - text: \"{{last}}\"\n\
         defaults: { provider: script, model: test }\nagents:\n  helper: { tools: [], agents: [], hosts: [] }\n\
         \x20 secretive: { tools: [], agents: [], hosts: [], system_prompt: CANARY-PROMPT }\n\
         channels: { jobs: {}, kept: {} }\n\
         definitions:\n  grant: { tools: [\"*\"], agents: [\"*\"], definitions: [agent, channel, skill] }\nprincipals:\n",
    );
    for (number, scope) in Scope::ALL.iter().enumerate() {
        let user = user_of(*scope);
        text.push_str(&format!(
            "  {user}: {{ subject: {user}, scopes: [\"definitions:write\", \"{scope}\"], token_env: TOKEN_{number} }}\n"
        ));
    }
    text
}

struct Client {
    address: String,
}

impl Client {
    fn ask(&self, token: &str, (method, path, body): (&str, &str, &Value)) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        // An answer that takes a moment comes in chunks, whose lengths stand around it.
        let json = body.find('{').zip(body.rfind('}')).map(|(first, last)| body[first..=last].to_owned());
        (status, json.unwrap_or_default())
    }

    #[track_caller]
    fn operator(&self, method: &str, path: &str, body: Value) -> String {
        let (status, answer) = self.ask(SHARED, (method, path, &body));
        assert!(status < 300, "{path}: {answer}");
        answer
    }
}

#[test]
fn a_maker_of_each_scope_gives_no_more_than_its_token_may_do() {
    let capabilities = capabilities();
    for tool in STORE_TOOLS.iter().map(|tool| tool.name).chain(["Agent", SkillTool::NAME]) {
        let is_tried = capabilities.iter().any(|capability| capability.tool == tool);
        assert!(
            is_tried || OWN_RUN.iter().any(|(own, _)| *own == tool),
            "{tool}: say here what an agent can do with it"
        );
    }
    let home = Home::new();
    // The run of another user, which the script names.
    let run = "00000000-0000-7000-8000-000000000000";
    home.write("drawloom.yaml", &config(&capabilities, run));
    home.run(&["trust", "--yes"]).exits(0);
    let serve = |home: &Home| {
        let mut command = home.command(&["serve", "--json", "--log", "error"]);
        command.env("DRAWLOOM_TOKEN", SHARED);
        for (number, scope) in Scope::ALL.iter().enumerate() {
            command.env(format!("TOKEN_{number}"), token(&user_of(*scope)));
        }
        home.serve_with(command)
    };
    let server = serve(&home);
    let client = Client { address: server.url.trim_start_matches("http://").to_owned() };
    let made = client.operator("POST", "/v1/runs", json!({ "agent": "helper", "prompt": "one", "user_id": "bob" }));
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let other = made["run_id"].as_str().expect("an id").to_owned();
    server.stop();
    home.write("drawloom.yaml", &config(&capabilities, &other));
    home.run(&["trust", "--yes"]).exits(0);
    let server = serve(&home);
    let client = Client { address: server.url.trim_start_matches("http://").to_owned() };
    client.operator("POST", &format!("/v1/runs/{other}/evaluations"), json!({ "score": 1.0, "tag": "CANARY" }));
    client.operator("PUT", "/v1/memory/tenant/keys/known", json!({ "value": "the CANARY of all" }));
    let note = json!({ "description": "Notes.", "instructions": "Note the CANARY." });
    client.operator("POST", "/v1/definitions", json!({ "kind": "skill", "name": "note", "source": note }));
    let (mut tried, mut happened) = (0, Vec::new());
    for scope in Scope::ALL {
        let user = user_of(*scope);
        let own = json!({ "value": "the CANARY of one", "user_id": user });
        client.operator("PUT", "/v1/memory/user/keys/known", own);
        for Capability { name, tool, gates, mark, direct, .. } in &capabilities {
            let agent = format!("of-{user}/{name}");
            let mut source = gates.clone();
            source["tools"] = json!([tool]);
            let define = json!({ "kind": "agent", "name": agent, "source": source });
            let (status, defined) = client.ask(&token(&user), ("POST", "/v1/definitions", &define));
            assert!(status < 300 || defined.contains("definition_exceeds_maker"), "{scope} {name}: {defined}");
            tried += 1;
            if status >= 300 {
                continue;
            }
            // What was taken is there again.
            client.operator("POST", "/v1/channels/kept/publish", json!({ "value": "CANARY" }));
            let start = json!({ "agent": agent, "prompt": format!("do-{name}-now"), "user_id": user });
            let ran = client.operator("POST", "/v1/runs", start);
            let ran: Value = serde_json::from_str(&ran).expect("JSON");
            let text = ran["final_text"].as_str().unwrap_or_default().to_owned();
            let is_done = text.contains(mark);
            // Other refusals come after the check of what the token may do.
            let (method, path, body) = direct;
            let (status, answer) = client.ask(&token(&user), (method, &path.replace("RUN", &other), body));
            assert!(!is_done || status != 403, "{scope} {name}: the agent did it: {text}\nits maker may not: {answer}");
            if is_done {
                happened.push((*scope, *name));
            } else if *scope == Scope::Admin {
                panic!("{name}: who may do all gives all: {text}\n{defined}");
            }
        }
    }
    assert_eq!(tried, Scope::ALL.len() * capabilities.len());
    // The walk is no walk of refusals alone.
    for needed in [
        (Scope::ChannelPublish, "channel-publish"),
        (Scope::ChannelRead, "channel-take"),
        (Scope::RunsCreate, "spawn"),
        (Scope::DefinitionsRead, "read-definition"),
        (Scope::Tenant, "evaluation-submit"),
    ] {
        assert!(happened.contains(&needed), "{needed:?} did not happen: {happened:?}");
    }
}

#[test]
fn an_agent_of_one_user_has_nothing_of_another_user_who_runs_it() {
    let home = Home::new();
    let scopes = "[\"definitions:write\", \"memory:read\", \"memory:write\", \"channel:read\", \"channel:publish\"]";
    home.write(
        "drawloom.yaml",
        &format!(
            "listen: 127.0.0.1:0\nproviders:\n  script:\n    driver: script\n    options:\n      rules:\n\
             \x20       - {{ when: {{ contains: memory, turn: 1 }}, calls: [{{ tool: Memory, input: {{ op: get, scope: user, key: known }} }}] }}\n\
             \x20       - {{ when: {{ contains: search, turn: 1 }}, calls: [{{ tool: Memory, input: {{ op: search, query: canary }} }}] }}\n\
             \x20       - {{ when: {{ contains: inbox, turn: 1 }}, calls: [{{ tool: Channel, input: {{ op: peek, channel: inbox }} }}] }}\n\
             \x20       - {{ when: {{ contains: child, turn: 1 }}, calls: [{{ tool: Agent, input: {{ name: reader, prompt: memory }} }}] }}\n\
             \x20       - text: \"{{{{last}}}}\"\n\
             defaults: {{ provider: script, model: test }}\n\
             agents: {{ reader: {{ tools: [Memory], agents: [], hosts: [], memory_scopes: [user, tenant] }} }}\n\
             channels: {{ inbox: {{ scope: user }} }}\n\
             definitions: {{ grant: {{ tools: [Memory, Channel, Agent], agents: [reader] }} }}\n\
             principals: {{ ann: {{ subject: ann, scopes: {scopes}, token_env: ANN }} }}\n"
        )
        .replace("\"channel:publish\"]", "\"channel:publish\", \"runs:create\"]"),
    );
    home.run(&["trust", "--yes"]).exits(0);
    let mut command = home.command(&["serve", "--json", "--log", "error"]);
    command.env("DRAWLOOM_TOKEN", SHARED).env("ANN", token("ann"));
    let server = home.serve_with(command);
    let client = Client { address: server.url.trim_start_matches("http://").to_owned() };
    for user in ["ann", "bob"] {
        let own = json!({ "value": format!("the canary of {user}"), "user_id": user });
        client.operator("PUT", "/v1/memory/user/keys/known", own);
        let own = json!({ "value": format!("the canary of {user}"), "user_id": user });
        client.operator("POST", "/v1/channels/inbox/publish", own);
    }
    let source = json!({
        "tools": ["Memory", "Channel", "Agent"], "memory_scopes": ["user", "tenant"], "agents": ["reader"],
        "channels": { "subscribe": ["inbox"] },
    });
    let define = json!({ "kind": "agent", "name": "spy", "source": source });
    let (status, answer) = client.ask(&token("ann"), ("POST", "/v1/definitions", &define));
    assert_eq!(status, 200, "{answer}");
    let say = |agent: &str, user: &str, prompt: &str| {
        let ran = client.operator("POST", "/v1/runs", json!({ "agent": agent, "prompt": prompt, "user_id": user }));
        let ran: Value = serde_json::from_str(&ran).expect("JSON");
        ran["final_text"].as_str().unwrap_or_default().to_owned()
    };
    for prompt in ["memory", "search", "inbox", "child"] {
        assert!(say("spy", "ann", prompt).contains("the canary of ann"), "{prompt}: {}", say("spy", "ann", prompt));
        let told = say("spy", "bob", prompt);
        assert!(!told.contains("the canary"), "{prompt}: {told}");
    }
    assert!(say("spy", "bob", "memory").contains("was defined for user ann"), "{}", say("spy", "bob", "memory"));
    assert!(say("reader", "bob", "memory").contains("the canary of bob"), "an agent of the config is the operator's");
}
