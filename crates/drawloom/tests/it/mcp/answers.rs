//! Answers: what tools give fits what they promise, and is not too long.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    client::{Client, Era},
    run, server,
};

/// The most bytes of an answer, where it can be cut.
const MOST: usize = 24 * 1024;

/// Which fields of an operation's answer must be there.
#[derive(Clone, Copy, PartialEq)]
enum Whole {
    /// All that its schema requires.
    All,
    /// Any of them: the answer is for a model.
    Any,
}

/// The schema of what an operation answers, and its definitions.
fn output(tool: &str) -> (Value, Map<String, Value>, Whole) {
    let operations = drawloom_server::Operations::builtin();
    let served = operations.find(tool).expect("an operation");
    let mut generator = schemars::SchemaGenerator::default();
    let schema = (served.entry().output)(&mut generator).to_value();
    let whole = if served.card().told == drawloom_server::Told::Json { Whole::All } else { Whole::Any };
    (schema, generator.take_definitions(true), whole)
}

/// What of `value` does not fit `schema`, with the place; a keyword that nobody looks at is a mistake of the test.
fn misfits(
    schema: &Map<String, Value>,
    parts: (&Map<String, Value>, Whole),
    value: &Value,
    place: &str,
    found: &mut Vec<String>,
) {
    let inner = |schema: &Value, value: &Value, place: &str, found: &mut Vec<String>| match schema {
        Value::Object(schema) => misfits(schema, parts, value, place, found),
        Value::Bool(true) => {}
        _ => found.push(format!("{place} must not be there")),
    };
    let empty = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (keyword, rule) in schema {
        let fits = match keyword.as_str() {
            "type" => {
                let kinds = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                kinds.iter().any(|kind| match kind.as_str().expect("a word") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "null" => value.is_null(),
                    kind => panic!("{place}: {kind}"),
                })
            }
            "enum" => rule.as_array().expect("a list").contains(value),
            "const" => rule == value,
            "minimum" => value.as_f64() >= rule.as_f64(),
            "maximum" => value.as_f64() <= rule.as_f64(),
            "$ref" => {
                let name = rule.as_str().and_then(|rule| rule.rsplit('/').next()).expect("a reference");
                inner(&parts.0[name], value, place, found);
                true
            }
            "required" if parts.1 == Whole::Any => true,
            "required" => rule
                .as_array()
                .expect("a list")
                .iter()
                .all(|field| value.get(field.as_str().expect("a name")).is_some()),
            "anyOf" | "oneOf" => {
                let fitting = rule.as_array().expect("a list").iter().filter(|one| {
                    let mut problems = Vec::new();
                    inner(one, value, place, &mut problems);
                    problems.is_empty()
                });
                let fitting = fitting.count();
                if keyword == "oneOf" { fitting == 1 } else { fitting > 0 }
            }
            "properties" => {
                for (name, one) in value.as_object().unwrap_or(&empty) {
                    match known.get(name) {
                        Some(rule) => inner(rule, one, &format!("{place}.{name}"), found),
                        // The sums over a batch are only there for models.
                        None if place.ends_with("_batch") || place.ends_with("spawn_runs") => assert_eq!(name, "tree"),
                        None if schema.contains_key("additionalProperties") => {}
                        None => found.push(format!("{place}.{name} is not in the schema")),
                    }
                }
                true
            }
            "additionalProperties" => {
                for (name, one) in value.as_object().unwrap_or(&empty) {
                    if !known.contains_key(name) {
                        inner(rule, one, &format!("{place}.{name}"), found);
                    }
                }
                true
            }
            "items" => {
                for (at, one) in value.as_array().into_iter().flatten().enumerate() {
                    inner(rule, one, &format!("{place}[{at}]"), found);
                }
                true
            }
            "pattern" | "format" | "minLength" | "maxLength" | "description" | "title" | "default" => true,
            _ => panic!("{place}: nobody looks at {keyword}"),
        };
        if !fits {
            found.push(format!("{place} does not fit {keyword} {rule}: {value}"));
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn id(answer: &Value, name: &str) -> String {
    answer["structuredContent"][name].as_str().unwrap_or_else(|| panic!("no {name}: {answer}")).to_owned()
}

#[test]
fn what_every_tool_answers_fits_its_schema_and_has_no_null() {
    let (_home, server) = server();
    let client = Client::new(&server.url, Era::Stateless).at("/mcp?toolsets=all");
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let mut called = BTreeSet::new();
    let mut check = |tool: &str, arguments: Value| {
        let (schema, definitions, whole) = output(tool);
        let answer = client.call(tool, arguments);
        assert_eq!(answer["isError"], false, "{tool}: {answer}");
        let content = &answer["structuredContent"];
        assert!(!has_null(content), "{tool}: {content}");
        let mut found = Vec::new();
        misfits(schema.as_object().expect("an object"), (&definitions, whole), content, tool, &mut found);
        assert!(found.is_empty(), "{found:#?}");
        called.insert(tool.to_owned());
        answer
    };
    let ended = id(&check("spawn_run", json!({ "agent": "echo", "prompt": "hello" })), "run_id");
    let going = id(&check("spawn_run", json!({ "agent": "never", "prompt": "x", "mode": "detach" })), "run_id");
    let spawns = json!([{ "agent": "echo", "prompt": "a" }, { "agent": "reader", "prompt": "not there" }]);
    let batch = id(&check("spawn_runs", json!({ "spawns": spawns, "mode": "detach" })), "batch_id");
    check("get_batch", json!({ "batch_id": batch, "wait_ms": 20_000 }));
    let batch = id(&check("spawn_runs", json!({ "spawns": spawns })), "batch_id");
    for run in [&ended, &going] {
        check("get_run", json!({ "run_id": run }));
        check("read_artifact", json!({ "run_id": run, "name": "journal" }));
        check("replay_run", json!({ "run_id": run }));
    }
    check("read_artifact", json!({ "run_id": ended, "grep": "(?i)HELLO" }));
    let wrote = id(&check("spawn_run", json!({ "agent": "writer", "prompt": "a note" })), "run_id");
    check("list_artifacts", json!({ "run_id": wrote }));
    check("list_artifacts", json!({ "run_id": ended }));
    check("get_artifact", json!({ "run_id": wrote, "name": "notes.md" }));
    check("read_artifact", json!({ "run_id": wrote, "name": "notes.md", "grep": "note" }));
    let long = id(&check("spawn_run", json!({ "agent": "writer", "prompt": "long ".repeat(6_000) })), "run_id");
    let refused = client.call("get_artifact", json!({ "run_id": long, "name": "notes.md" }));
    assert_eq!(refused["isError"], true, "30,000 bytes do not fit: {refused}");
    assert!(refused.to_string().contains("read it in parts with read_artifact"), "{refused}");
    check("follow_run", json!({ "run_id": ended }));
    check("list_runs", json!({}));
    for tool in ["list_agents", "list_models", "get_load", "whoami"] {
        check(tool, json!({}));
    }
    let key = json!({ "scope": "user", "key": "notes/one" });
    let with = |fields: Value| {
        let mut input = key.clone();
        input.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        input
    };
    check("get_memory", key.clone());
    check("set_memory", with(json!({ "value": "words to find", "ttl_seconds": 600 })));
    check("get_memory", key.clone());
    check("search_memory", json!({ "scope": "user", "query": "find" }));
    check("list_memory", json!({ "scope": "user", "include_provenance": true }));
    check("watch_memory", json!({ "scope": "user" }));
    check("delete_memory", key.clone());
    check("change_memory", with(json!({ "op": "incr" })));
    check("import_memory", json!({ "scope": "run", "run_id": going, "entries": [{ "key": "k", "value": 1 }] }));
    let evaluated = check(
        "submit_evaluation",
        json!({ "run_id": ended, "score": 0.9, "dimensions": { "tone": 0.8 }, "tag": "one" }),
    );
    let evaluation = evaluated["structuredContent"]["eval_id"].clone();
    check("get_evaluation", json!({ "eval_id": evaluation }));
    check("list_evaluations", json!({ "run_id": ended, "latest_per_tag": true }));
    let sums = check("aggregate_evaluations", json!({ "def_id": evaluated["structuredContent"]["def_id"] }));
    assert_eq!(sums["structuredContent"]["score"]["mean"], 0.9, "{sums}");
    channels(&mut check);
    goals(&mut check);
    check("cancel_batch", json!({ "batch_id": batch }));
    check("cancel_run", json!({ "run_id": going, "reason": "enough" }));
    assert_eq!(run(&server.url, &going)["status"], "cancelled");
    check("get_run", json!({ "run_id": going }));
    check("retry_run", json!({ "run_id": ended, "completed": true }));
    for by in ["agent", "day"] {
        check("get_costs", json!({ "by": by }));
    }
    check("delete_batch", json!({ "batch_id": batch }));
    check("delete_run", json!({ "run_id": wrote }));
    let pruned = check("prune_runs", json!({ "older_than_seconds": 0 }));
    // The runs of goals stay until `orchestrate_rm`.
    assert_eq!(pruned["structuredContent"]["runs"], 6, "{pruned}");
    check("list_runs", json!({}));
    let source = json!({ "system_prompt": "Say it.", "tools": [] });
    let made = check("create_definition", json!({ "kind": "agent", "name": "made", "source": source }));
    assert_eq!(made["structuredContent"]["def_id"], "made@1", "{made}");
    check("spawn_run", json!({ "agent": "made", "prompt": "usable at once" }));
    let changes = json!({ "system_prompt": "Say it again." });
    check("fork_definition", json!({ "kind": "agent", "from": "made", "changes": changes }));
    check("promote_definition", json!({ "kind": "agent", "name": "made", "version": 2 }));
    check("get_definition", json!({ "kind": "agent", "name": "made" }));
    check("get_definition", json!({ "kind": "agent", "name": "echo" }));
    check("list_definitions", json!({}));
    check("list_definitions", json!({ "name": "made" }));
    check("diff_definitions", json!({ "kind": "agent", "from": "made@1", "to": "made@2" }));
    check("verify_definition", json!({ "kind": "agent", "name": "other", "source": { "tools": ["Bash"] } }));
    check("retire_definition", json!({ "kind": "agent", "name": "made" }));
    for op in ["get", "list", "verify"] {
        check("agentdef", json!({ "op": op, "name": "made" }));
    }
    let refused = client.call("spawn_run", json!({ "agent": "made", "prompt": "x" }));
    assert!(refused["isError"] == true && refused.to_string().contains("no active version"), "{refused}");

    let other = id(&client.call("spawn_run", json!({ "agent": "echo", "prompt": "hello" })), "run_id");
    let refused = client.call("orchestrate_land", json!({ "run_id": other }));
    assert!(refused["isError"] == true && refused.to_string().contains("not_a_goal"), "{refused}");
    called.insert("orchestrate_land".to_owned());
    for (name, input) in [
        ("orchestrate_say", json!({ "run_id": other, "text": "faster" })),
        ("orchestrate_rm", json!({ "run_id": other })),
    ] {
        let refused = client.call(name, input);
        assert!(refused["isError"] == true && refused.to_string().contains("not_a_goal"), "{refused}");
        called.insert(name.to_owned());
    }
    // `worktree.rs` has them with a repository.
    for name in ["diff_worktree", "commit_worktree", "remove_worktree"] {
        let refused = client.call(name, json!({ "run_id": other }));
        assert!(refused["isError"] == true && refused.to_string().contains("not_a_goal"), "{refused}");
        called.insert(name.to_owned());
    }

    let operations = drawloom_server::Operations::builtin();
    let all: BTreeSet<String> = operations.iter().map(|served| served.card().name().to_owned()).collect();
    assert_eq!(called, all);
    let destructive = tools.iter().filter(|tool| tool["annotations"]["destructiveHint"] == true);
    let destructive: BTreeSet<&str> = destructive.filter_map(|tool| tool["name"].as_str()).collect();
    let expected = [
        "cancel_batch",
        "cancel_run",
        "channeldef",
        "delete_batch",
        "delete_channel",
        "delete_memory",
        "delete_run",
        "orchestrate_cancel",
        "orchestrate_land",
        "orchestrate_rm",
        "prune_runs",
        "purge_channel",
        "remove_worktree",
        "retire_definition",
    ];
    assert_eq!(destructive, BTreeSet::from(expected));
    let follow = tools.iter().find(|tool| tool["name"] == "follow_run").expect("it is listed");
    assert!(follow["description"].as_str().is_some_and(|words| words.contains("returns once")), "{follow}");
}

#[test]
fn an_answer_for_a_model_has_no_hash_and_no_field_that_it_does_not_need() {
    let (_home, server) = server();
    let client = Client::new(&server.url, Era::Stateless).at("/mcp?toolsets=all");
    let long = "long ".repeat(10_000);
    let answers = [
        client.call("spawn_run", json!({ "agent": "echo", "prompt": long })),
        client.call("spawn_runs", json!({ "spawns": [{ "agent": "echo", "prompt": long }] })),
        client.call("list_runs", json!({})),
        client.call("list_agents", json!({})),
    ];
    for answer in answers {
        let words = answer.to_string();
        for field in ["sha256", "\"definition\"", "started_at", "agent_id", "session_id", "root_run_id", "\"seq\""] {
            assert!(!words.contains(field), "{field}: {answer}");
        }
    }
}

#[test]
fn a_list_of_runs_is_cut_into_pages_that_fit() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let spawns: Vec<Value> = (0..32).map(|index| json!({ "agent": "echo", "prompt": format!("{index}") })).collect();
    for _ in 0..4 {
        client.call("spawn_runs", json!({ "spawns": spawns }));
    }
    let (mut seen, mut ask, mut pages) = (Vec::new(), json!({ "limit": 200 }), 0);
    loop {
        let answer = client.call("list_runs", ask);
        let page = &answer["structuredContent"];
        let rows = page["runs"].as_array().expect("runs");
        assert!(page.to_string().len() <= MOST, "{} bytes", page.to_string().len());
        assert!(!rows.is_empty());
        seen.extend(rows.iter().map(|row| row["run_id"].as_str().expect("an id").to_owned()));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        assert!(page.to_string().len() > MOST / 2, "a page is not shorter than it must be");
        ask = json!({ "limit": 200, "before": next });
    }
    assert!(pages > 1);
    assert!(seen.is_sorted_by(|newer, older| newer > older), "newest first, each once");
    assert_eq!(seen.len(), 128);
    // Elsewhere a page is as long as was asked.
    assert_eq!(super::runs(&server.url).len(), 128);
}

#[test]
fn the_journal_of_a_run_that_goes_on_comes_at_once() {
    let (_home, server) = server();
    let client = Client::open(&server.url, Era::Sessions);
    let going = id(&client.call("spawn_run", json!({ "agent": "never", "prompt": "x", "mode": "detach" })), "run_id");
    let journal = client.call("read_artifact", json!({ "run_id": going, "name": "journal" }));
    let text = journal["structuredContent"]["text"].as_str().expect("a text");
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    assert_eq!(records[0]["body"]["kind"], "accepted");
    assert_eq!(client.call("get_run", json!({ "run_id": going }))["structuredContent"]["status"], "running");
    let uris = client.ask("resources/list", json!({}))["result"]["resources"].to_string();
    assert!(uris.contains(&format!("{going}/journal")) && !uris.contains(&format!("{going}/final_text")), "{uris}");
}

/// A goal of the mock team, from its questions to its result.
fn goals(check: &mut impl FnMut(&str, Value) -> Value) {
    check("list_backends", json!({}));
    check("doctor", json!({}));
    let goal = json!({ "goal": "a briefing", "backend": "mock", "ask": true, "mock_questions": ["For whom?"], "detach": false });
    let asked = check("orchestrate", goal);
    assert_eq!(asked["structuredContent"]["status"], "needs_input", "{asked}");
    let run = asked["structuredContent"]["run_id"].clone();
    check("orchestrate_status", json!({ "run_id": run }));
    let token = asked["structuredContent"]["token"].clone();
    check("orchestrate_resume", json!({ "token": token, "answers": ["engineers"], "detach": false }));
    let result = check("orchestrate_result", json!({ "run_id": run, "wait": true }));
    assert_eq!(result["structuredContent"]["completed"], true, "{result}");
    check("orchestrate_tail", json!({ "run_id": run, "wait_ms": 10 }));
    check("orchestrate_list", json!({}));
    check("list_worktrees", json!({}));
    check("orchestrate_cancel", json!({ "run_id": run }));
}

/// Every operation of channels, on one that is made here.
fn channels(check: &mut dyn FnMut(&str, Value) -> Value) {
    check("channeldef", json!({ "op": "create", "name": "by-op", "description": "For this test." }));
    check("create_channel", json!({ "name": "made", "description": "For this test." }));
    check("update_channel", json!({ "name": "made", "max_messages": 50 }));
    check("list_channels", json!({}));
    for value in ["one", "two"] {
        check("publish_channel", json!({ "channel": "made", "value": value }));
    }
    check("publish_channel", json!({ "channel": "made", "value": "late", "deliver_after_ms": 600_000 }));
    check("broadcast_channels", json!({ "channels": ["made"], "value": "three" }));
    check("peek_channel", json!({ "channel": "made" }));
    check("await_channels", json!({ "channels": ["made"] }));
    check("follow_channel", json!({ "channel": "made", "after": 1 }));
    let group = json!({ "channel": "made", "group": "workers", "max_messages": 1 });
    let taken = check("subscribe_channel", group.clone());
    let leases = |answer: &Value, name: &str| match name {
        "lease" => json!([answer["structuredContent"]["messages"][0]["lease"]]),
        _ => answer["structuredContent"]["leases"].clone(),
    };
    let with = |leases: Value| json!({ "channel": "made", "group": "workers", "leases": leases });
    let extended = check("extend_channel", with(leases(&taken, "lease")));
    check("nak_channel", with(leases(&extended, "leases")));
    let again = check("subscribe_channel", group);
    check("ack_channel", with(leases(&again, "lease")));
    check("ack_channel", json!({ "channel": "made", "cursor": "cur_1" }));
    check("subscribe_channel", json!({ "channel": "made" }));
    check("purge_channel", json!({ "name": "made" }));
    check("delete_channel", json!({ "name": "made" }));
}
