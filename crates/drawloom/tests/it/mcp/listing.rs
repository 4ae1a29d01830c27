//! What there is: tools by scope and toolset, resources, prompts; who is let in.

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    home, run, server,
};

/// The default toolset. It does not grow: every host pays for it in every conversation, so new operations join other toolsets.
const CORE: [&str; 8] =
    ["spawn_run", "get_run", "list_runs", "cancel_run", "read_artifact", "spawn_runs", "get_batch", "list_agents"];

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[test]
fn both_eras_and_every_version_list_the_same_tools_in_the_same_order() {
    let (_home, server) = server();
    for era in [Era::Sessions, Era::Stateless] {
        for path in ["/mcp", "/v1/_mcp"] {
            let client = Client::new(&server.url, era).at(path).opened();
            for _ in 0..3 {
                assert_eq!(names(&client.ask("tools/list", json!({}))), CORE);
            }
        }
    }
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::new(&server.url, Era::Sessions);
        let mut opened = client.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "old", "version": "1" },
        } }));
        client.session = opened.header("mcp-session-id").map(str::to_owned);
        assert_eq!(opened.answer()["result"]["protocolVersion"], version);
    }
}

/// Most bytes of the whole answer to `tools/list`, as sent: what a host's model pays before it has asked anything.
const LIST_BYTES: usize = 12_000;

#[test]
fn the_small_list_of_tools_is_this_and_stays_small() {
    let (_home, server) = server();
    for era in [Era::Sessions, Era::Stateless] {
        let list = Client::open(&server.url, era).ask("tools/list", json!({}));
        let bytes = list.to_string().len();
        assert!(bytes < LIST_BYTES, "tools/list has {bytes} bytes: shorten words, or move tools to another toolset");
        insta::assert_json_snapshot!("mcp_tools", list["result"]["tools"]);
    }
}

#[test]
fn a_model_is_told_of_parameters_that_exist_and_the_server_takes_the_others_too() {
    let (_home, server) = server();
    let listed = Client::open(&server.url, Era::Stateless).ask("tools/list", json!({}));
    let told = listed["result"]["tools"].as_array().expect("tools");
    for served in drawloom_server::Operations::builtin().iter().filter(|served| served.card().toolset == "core") {
        let card = served.card();
        assert!(!card.parameters.is_empty(), "{} has no words for a model", card.name());
        let tool = told.iter().find(|tool| tool["name"] == card.name()).expect("it is listed");
        for parameter in card.parameters {
            let pointer = parameter.path.replace("[].", "/items/properties/").replace('.', "/properties/");
            let found = tool["inputSchema"].pointer(&format!("/properties/{pointer}/description"));
            assert_eq!(found, Some(&json!(parameter.words)), "{} {}", card.name(), parameter.path);
        }
        let words = tool.to_string();
        for remark in ["GET /", "POST /", "/v1/", "REST", "header", "MCP"] {
            assert!(!words.contains(remark), "{} tells a model of {remark}", card.name());
        }
    }
    let client = Client::open(&server.url, Era::Sessions);
    let untold =
        json!({ "agent": "echo", "prompt": "x", "agent_id": "mine", "metadata": { "a": 1 }, "max_iterations": 3 });
    assert_eq!(client.call("spawn_run", untold)["isError"], false);
    let found = client.call("get_run", json!({ "agent_id": "mine" }));
    assert_eq!(found["structuredContent"]["final_text"], "you said x", "{found}");
}

#[test]
fn every_operation_is_a_tool_of_some_toolset() {
    let (_home, server) = server();
    let client = Client::new(&server.url, Era::Stateless).at("/mcp?toolsets=all");
    let list = client.ask("tools/list", json!({}));
    let builtin = drawloom_server::Operations::builtin();
    let mut operations: Vec<&str> = builtin.iter().map(|served| served.card().name()).collect();
    let mut tools = names(&list);
    operations.sort_unstable();
    tools.sort_unstable();
    assert_eq!(tools, operations);
    for tool in list["result"]["tools"].as_array().expect("tools") {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["outputSchema"].is_null(), "no model needs one, and every host pays for it: {tool}");
        assert!(!tool.to_string().contains("$ref"), "{tool}");
        let hints = &tool["annotations"];
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{tool}");
        }
    }
    let unknown = Client::new(&server.url, Era::Stateless).at("/mcp?toolsets=cor");
    let mut refused = unknown.send(&unknown.request(1, "tools/list", json!({})));
    assert_eq!(refused.status, 400);
    let body = refused.next().expect("an error");
    assert_eq!(body["error"]["code"], "unknown_toolset");
    assert!(body["error"]["hint"].as_str().is_some_and(|hint| hint.contains("did you mean core?")), "{body}");
}

#[test]
fn a_token_decides_who_is_let_in_and_what_they_see() {
    let home = home();
    let mut config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    config.push_str(
        "principals:\n  looker: { tenant: default, subject: looker, scopes: [\"runs:read\"], token_env: LOOKER }\n",
    );
    home.write("drawloom.yaml", &config);
    home.run(&["trust", "--yes"]).exits(0);
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command.env("LOOKER", "a-token-to-look-at-things").env("DRAWLOOM_TOKEN", "a-token-for-all-purposes");
    let server = home.serve_with(command);

    let stranger = Client::new(&server.url, Era::Stateless);
    let mut refused = stranger.send(&stranger.request(1, "tools/list", json!({})));
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").is_some());
    assert_eq!(refused.next().expect("an error")["error"]["code"], "no_token");

    let looker = Client::new(&server.url, Era::Sessions).with_token("a-token-to-look-at-things").opened();
    let seen = looker.ask("tools/list", json!({}));
    assert_eq!(names(&seen), ["get_run", "list_runs", "read_artifact", "get_batch", "list_agents"]);
    let denied = looker.call("spawn_run", json!({ "agent": "echo", "prompt": "x" }));
    assert_eq!(denied["isError"], true);
    assert!(denied["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("insufficient_scope")));

    // A session belongs to whoever opened it.
    let mut thief = Client::new(&server.url, Era::Sessions).with_token("a-token-for-all-purposes");
    thief.session = looker.session.clone();
    assert_eq!(thief.send(&thief.request(1, "tools/list", json!({}))).status, 404);
}

#[test]
fn a_web_page_of_another_site_is_refused() {
    let (_home, server) = server();
    let client = Client::new(&server.url, Era::Stateless).at("/mcp HTTP/1.1\r\nOrigin: http://evil.example\r\nX: y");
    let mut refused = client.send(&client.request(1, "tools/list", json!({})));
    assert_eq!(refused.status, 403);
    assert_eq!(refused.next().expect("an error")["error"]["code"], "origin_denied");
}

#[test]
fn runs_are_resources_and_recipes_are_prompts() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let result = client.call("spawn_run", json!({ "agent": "echo", "prompt": "hello" }));
    let id = result["structuredContent"]["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(run(&server.url, &id)["status"], "completed");
    let listed = client.ask("resources/list", json!({}));
    let uri = format!("drawloom://runs/{id}/final_text");
    let uris: Vec<&Value> =
        listed["result"]["resources"].as_array().expect("a list").iter().map(|one| &one["uri"]).collect();
    assert!(uris.contains(&&json!(uri)), "{uris:?}");
    let text = client.ask("resources/read", json!({ "uri": uri }));
    assert_eq!(text["result"]["contents"][0]["text"], "you said hello");
    let journal = client.ask("resources/read", json!({ "uri": format!("drawloom://runs/{id}/journal") }));
    let journal = journal["result"]["contents"][0]["text"].as_str().expect("a text").to_owned();
    let records: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    assert_eq!(records.len() as u64, run(&server.url, &id)["seq"]);
    assert_eq!(records[0]["body"]["kind"], "accepted");

    let listed = client.ask("prompts/list", json!({}));
    let prompts: Vec<&str> =
        listed["result"]["prompts"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(prompts, ["fan_out", "review_in_slices", "second_opinion", "pick_up"]);
    let arguments = json!({ "agent": "echo", "job": "{parts} of it" });
    let filled = client.ask("prompts/get", json!({ "name": "fan_out", "arguments": arguments }));
    let text = filled["result"]["messages"][0]["content"]["text"].as_str().expect("a text").to_owned();
    assert!(text.contains("at most 10") && text.contains("{parts} of it") && text.contains("agent echo"), "{text}");
    let missing = client.ask("prompts/get", json!({ "name": "fan_out", "arguments": {} }));
    assert_eq!(missing["error"]["code"], -32602);
    let completed = client.ask(
        "completion/complete",
        json!({ "ref": { "type": "ref/prompt", "name": "fan_out" }, "argument": { "name": "agent", "value": "la" } }),
    );
    assert_eq!(completed["result"]["completion"]["values"], json!(["later"]));
}

#[test]
fn many_agents_come_in_pages_that_a_model_can_read() {
    let home = home();
    let mut config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let agents = config.find("volumes:").expect("a place");
    let many: String = (0..120)
        .map(|at| format!("  a{at:03}: {{ description: {}, tools: [], agents: [], hosts: [] }}\n", "word ".repeat(60)))
        .collect();
    config.insert_str(agents, &many);
    home.write("drawloom.yaml", &config);
    let server = home.serve();
    let client = Client::open(&server.url, Era::Stateless);
    let (mut names, mut after, mut pages) = (Vec::new(), json!({}), 0);
    loop {
        let page = client.call("list_agents", after)["structuredContent"].clone();
        assert!(page.to_string().len() <= 24 * 1024, "{}", page.to_string().len());
        pages += 1;
        names.extend(page["agents"].as_array().expect("agents").iter().map(|agent| agent["name"].to_string()));
        if page["next"].is_null() {
            break;
        }
        after = json!({ "after": page["next"] });
    }
    let all: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!((all.len(), names.len()), (126, 126), "each is there once");
    assert!(pages > 1);
}

#[test]
fn who_subscribes_to_a_text_of_a_run_hears_of_its_end() {
    let (_home, server) = server();
    let spawn = json!({ "agent": "later", "prompt": "x", "mode": "detach" });
    for era in [Era::Stateless, Era::Sessions] {
        let client = Client::open(&server.url, era);
        let id = client.call("spawn_run", spawn.clone())["structuredContent"]["run_id"].clone();
        let uri = format!("drawloom://runs/{}/final_text", id.as_str().expect("an id"));
        let mut events = match era {
            Era::Stateless => {
                let wanted = json!({ "notifications": { "resourceSubscriptions": [uri] } });
                let mut events = client.send(&client.request(3, "subscriptions/listen", wanted));
                let accepted = events.next().expect("an acknowledgement");
                assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!([uri]), "{accepted}");
                events
            }
            Era::Sessions => {
                assert_eq!(client.ask("resources/subscribe", json!({ "uri": uri }))["result"], json!({}));
                client.send_as("GET", None)
            }
        };
        let told = events.next().expect("word of it");
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
        assert_eq!(told["params"]["uri"], uri);
        let text = client.ask("resources/read", json!({ "uri": uri }));
        assert_eq!(text["result"]["contents"][0]["text"], "later: x");
    }
}

#[test]
fn prompts_of_the_config_are_offered_beside_the_recipes() {
    let home = home();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("the config");
    let prompt =
        "prompts:\n  front:fix: { description: Fix it, argument_hint: \"[issue]\", text: \"Fix $ARGUMENTS now\" }\n";
    home.write("drawloom.yaml", &format!("{config}{prompt}"));
    let server = home.serve();
    for era in [Era::Sessions, Era::Stateless] {
        let client = Client::open(&server.url, era);
        let listed = client.ask("prompts/list", json!({}));
        let last = listed["result"]["prompts"].as_array().and_then(|all| all.last()).expect("a prompt");
        assert_eq!((&last["name"], &last["arguments"][0]["description"]), (&json!("front:fix"), &json!("[issue]")));
        let filled = client.ask("prompts/get", json!({ "name": "front:fix", "arguments": { "arguments": "issue 7" } }));
        assert_eq!(filled["result"]["messages"][0]["content"]["text"], "Fix issue 7 now", "{filled}");
        let wrong = client.ask("prompts/get", json!({ "name": "front:fix", "arguments": { "issue": "7" } }));
        assert!(wrong["error"]["message"].as_str().is_some_and(|said| said.contains("has no argument")), "{wrong}");
    }
}
