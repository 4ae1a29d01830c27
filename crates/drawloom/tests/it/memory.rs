//! Memory as agents, callers and commands use it: real processes, one store.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::Home;

/// Two agents with memory, and a scripted model that uses it.
const CONFIG: &str = r#"
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: reviewer, turn: 1 }
          calls:
            - { tool: Memory, input: { op: set, scope: user, key: "review:{{prompt}}:findings", value: ["the lock is never released", "{{prompt}}"] } }
            - { tool: Memory, input: { op: incr, scope: agent, key: reviews } }
        - { when: { agent: reviewer }, text: "done" }
        - { when: { agent: consolidator, turn: 1 }, calls: [{ tool: Memory, input: { op: search, query: "lock released" } }] }
        - { when: { agent: consolidator, turn: 2 }, calls: [{ tool: Memory, input: { op: list, prefix: "review:", keys_only: true } }] }
        - { when: { agent: consolidator }, text: "{{last}}" }
        - { text: "{{prompt}}" }
defaults: { provider: script, model: test }
agents:
  reviewer: { description: Reviews., tools: [Memory], agents: [], hosts: [], volumes: [], memory_scopes: [agent, user] }
  consolidator: { description: Sums up., tools: [Memory], agents: [], hosts: [], volumes: [], memory_scopes: [user] }
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

#[test]
fn what_one_agent_keeps_another_finds_and_the_user_reads() {
    let home = home();
    for slice in ["core", "edge"] {
        home.run(&["run", "reviewer", slice]).exits(0);
    }
    let summed = home.run(&["run", "consolidator", "go"]).exits(0).stdout;
    assert!(summed.contains("review:core:findings") && summed.contains("review:edge:findings"), "{summed}");
    let run = home.run(&["runs", "list", "--agent", "consolidator", "--json"]).exits(0).json();
    let run = run["runs"][0]["run_id"].as_str().expect("a run").to_owned();
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    assert!(events.contains("the lock is never released"), "the search found nothing: {events}");
    let got = home.run(&["memory", "get", "review:core:findings", "--json"]).exits(0).json();
    assert_eq!(got["value"], json!(["the lock is never released", "core"]));
    assert_eq!(got["provenance"]["agent"], "reviewer");
    assert_eq!(home.run(&["memory", "get", "reviews", "--agent", "reviewer"]).exits(0).stdout, "2\n");
    home.run(&["memory", "get", "reviews", "--agent", "consolidator"]).exits(1);
    let found = home.run(&["memory", "search", "lock edge"]).exits(0).stdout;
    assert!(found.contains("review:edge:findings") && !found.contains("review:core"), "{found}");
    // Without a server the store is read.
    home.run(&["stop"]).exits(0);
    assert_eq!(home.run(&["memory", "get", "reviews", "--agent", "reviewer"]).exits(0).stdout, "2\n");
    assert!(home.run(&["memory", "search", "lock"]).exits(0).stdout.contains("review:core:findings"));
}

#[test]
fn keys_are_set_listed_and_removed_by_commands() {
    let home = home();
    assert_eq!(home.run(&["memory", "ls"]).exits(0).stdout, "no keys\n");
    home.run(&["memory", "set", "style", "short", "--ttl", "1h"]).exits(0);
    home.run(&["memory", "set", "numbers", "[1, 2]"]).exits(0);
    home.run(&["memory", "set", "digits", "12", "--text"]).exits(0);
    home.run_with_input(&["memory", "set", "piped", "-", "--tenant"], "{\"a\": 1}").exits(0);
    let listed = home.run(&["memory", "ls", "--json"]).exits(0).json();
    let keys: Vec<&Value> = listed["entries"].as_array().expect("entries").iter().map(|entry| &entry["key"]).collect();
    assert_eq!(keys, ["digits", "numbers", "style"]);
    assert_eq!((&listed["entries"][0]["value"], &listed["entries"][1]["value"]), (&json!("12"), &json!([1, 2])));
    let table = home.run(&["memory", "ls"]).exits(0).stdout;
    assert!(table.starts_with("key") && table.contains("style") && table.contains("short"), "{table}");
    assert_eq!(home.run(&["memory", "get", "piped", "--global"]).exits(0).stdout, "{\"a\":1}\n");
    let stale = home.run(&["memory", "set", "style", "long", "--if-revision", "0", "--json"]).exits(2).json();
    assert_eq!(stale["error"]["code"], "stale");
    let shown = home.run(&["memory", "get", "style", "--provenance"]).exits(0);
    assert!(shown.stderr.contains("by user default with set_memory"), "{shown:?}");
    home.run(&["memory", "rm", "style", "numbers"]).exits(0);
    assert!(home.run(&["memory", "rm", "style"]).exits(1).stderr.contains("no such key: \"style\""));
    home.run(&["memory", "get", "a", "--agent", "reviewer", "--tenant"]).exits(2);
    let bad = home.run(&["memory", "set", "", "x"]).exits(2);
    assert!(bad.stderr.starts_with("error: "), "{bad:?}");
}

#[test]
fn a_file_that_was_exported_can_be_imported_again_and_changes_only_what_differs() {
    let home = home();
    for number in 0..3 {
        home.run(&["memory", "set", &format!("k{number}"), &number.to_string()]).exits(0);
    }
    let exported = home.run(&["memory", "export"]).exits(0).stdout;
    assert_eq!(exported.lines().count(), 3);
    let first: Value = serde_json::from_str(exported.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["key"], &first["provenance"]["operation"]), (&json!("k0"), &json!("set_memory")));
    home.write("memory.jsonl", &exported);
    assert_eq!(home.run(&["memory", "import", "memory.jsonl", "--tenant"]).exits(0).stdout, "imported 3 entries\n");
    home.run(&["memory", "set", "k0", "changed", "--tenant"]).exits(0);
    home.run(&["memory", "import", "memory.jsonl", "--tenant"]).exits(0);
    let kept = home.run(&["memory", "get", "k0", "--tenant"]).exits(0).stdout;
    assert_eq!(kept, "0\n", "the file again restores what changed since");
    let revision =
        |home: &Home| home.run(&["memory", "get", "k0", "--tenant", "--json"]).exits(0).json()["revision"].clone();
    let before = revision(&home);
    home.run(&["memory", "import", "memory.jsonl", "--tenant"]).exits(0);
    assert_eq!(revision(&home), before, "what is there already is not written again");
    home.write("broken.jsonl", &format!("{exported}not json\n"));
    let broken = home.run(&["memory", "import", "broken.jsonl", "--agent", "reviewer"]).exits(2);
    assert!(broken.stderr.contains("line 4 is not an entry"), "{broken:?}");
    assert_eq!(home.run(&["memory", "ls", "--agent", "reviewer"]).exits(0).stdout, "no keys\n");
}

#[test]
fn changes_are_watched_as_they_happen() {
    let home = home();
    home.run(&["memory", "set", "p:a", "1"]).exits(0);
    let mut watch = home
        .command(&["memory", "watch", "p:", "--count", "3", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["data"]["key"], "p:a");
    assert_eq!(next()["type"], "caught_up");
    home.run(&["memory", "set", "other", "1"]).exits(0);
    home.run(&["memory", "set", "p:b", "\"two\""]).exits(0);
    assert_eq!(next()["data"]["entry"]["value"], "two");
    home.run(&["memory", "rm", "p:a"]).exits(0);
    let removed = next();
    assert_eq!((&removed["data"]["key"], &removed["data"]["removed"]), (&json!("p:a"), &json!(true)));
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_line_without_a_value_is_refused_with_its_number_and_nothing_is_written() {
    let home = home();
    home.write("kept.jsonl", "{\"key\": \"a\", \"value\": null}\n\n{\"key\": \"b\", \"revision\": 3}\n");
    let refused = home.run(&["memory", "import", "kept.jsonl", "--embedded"]).exits(2);
    assert!(refused.stderr.contains("line 3") && refused.stderr.contains("missing field `value`"), "{refused:?}");
    home.run(&["memory", "get", "a"]).exits(1);
    home.write("kept.jsonl", "{\"key\": \"a\", \"value\": null}\n");
    home.run(&["memory", "import", "kept.jsonl", "--embedded"]).exits(0);
    assert_eq!(home.run(&["memory", "get", "a"]).exits(0).stdout, "null\n", "null is a value");
    let unknown = home.run(&["memory", "set", "k", "1", "--agent", "reveiwer", "--embedded"]).exits(2);
    assert!(unknown.stderr.contains("error: unknown agent reveiwer"), "{unknown:?}");
}

#[test]
fn a_tree_that_has_ended_keeps_its_memory_and_a_repeat_still_gets_its_first_answer() {
    let home = home();
    let text = CONFIG.replace("- { text: \"{{prompt}}\" }", "- { text: \"{{prompt}}\", delay_ms: 600000 }")
        + "  sleeper: { tools: [], agents: [], hosts: [], volumes: [] }\n";
    home.write("drawloom.yaml", &text);
    let _server = home.serve();
    let run = home.run(&["run", "sleeper", "x", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let set = |value: &str, key: &str| {
        let (run, value, key) = (format!("run_id={run}"), format!("value={value}"), format!("idempotency_key={key}"));
        home.run(&["call", "set_memory", "scope=run", &run, "key=k", &value, &key])
    };
    let first = set("1", "one").exits(0).json();
    home.run(&["runs", "cancel", &run]).exits(0);
    home.run(&["runs", "show", &run, "--wait"]).exits(0);
    assert_eq!(set("1", "one").exits(0).json(), first, "it happened before");
    let refused = set("2", "two");
    assert!(refused.code != 0 && refused.stdout.contains("run_ended"), "{refused:?}");
    assert_eq!(home.run(&["memory", "get", "k", "--run", &run]).exits(0).stdout, "1\n");
}

#[test]
fn a_tool_without_its_gate_and_a_gate_without_its_tool_are_told() {
    let home = home();
    let config = CONFIG.replace("memory_scopes: [agent, user]", "memory_scopes: []").replace(
        "tools: [Memory], agents: [], hosts: [], volumes: [], memory_scopes: [user]",
        "tools: [], memory_scopes: [global]",
    );
    home.write("drawloom.yaml", &config);
    let said = home.run(&["validate", "drawloom.yaml", "--json"]).exits(0).stdout;
    assert!(said.contains("lists the tool Memory but `memory_scopes` is empty"), "{said}");
    assert!(said.contains("sets `memory_scopes` but does not list the tool Memory"), "{said}");
    let run = home.run(&["run", "reviewer", "x", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    assert!(events.contains("`memory_scopes` is empty (to allow it, write `memory_scopes: [user]`)"), "{events}");
    home.write("drawloom.yaml", &CONFIG.replace("memory_scopes: [user]", "memory_scopes: [usr]"));
    assert!(home.run(&["validate", "drawloom.yaml", "--json"]).exits(2).stdout.contains("usr"));
}
