//! Hundreds of files in the shapes that people write them: nothing crashes, every field is reported, and every agent runs.

use std::{collections::BTreeMap, fs, path::Path};

use drawloom_testkit::claude::{self, ClaudeFolder};
use serde_json::{Value, json};

use super::{config, import, said};
use crate::support::Home;

/// How many agents the tree has; skills and commands come beside them.
const AGENTS: usize = 160;

/// The items of one kind, by their source.
fn by_source<'a>(report: &'a Value, kind: &str) -> BTreeMap<&'a str, &'a Value> {
    let items = report["items"].as_array().expect("items").iter().filter(|item| item["kind"] == kind);
    items.map(|item| (item["source"].as_str().expect("a source"), item)).collect()
}

/// Every file has its item, and every field of the file a note.
fn check_fields(report: &Value, kind: &str, files: &BTreeMap<String, Vec<String>>) {
    let items = by_source(report, kind);
    for (file, keys) in files {
        let item = items.get(file.as_str()).unwrap_or_else(|| panic!("{file} is not in the report"));
        assert_ne!(item["action"], "dropped", "{item:#}");
        let notes = item["notes"].as_array().expect("notes");
        for key in keys {
            let is_about = |note: &&Value| note["field"].as_str().is_some_and(|field| field == key);
            let note = notes.iter().find(is_about).unwrap_or_else(|| panic!("{file}: {key} is not reported: {item:#}"));
            assert!(note["outcome"] == "mapped" || note["reason"].is_string(), "{file}: {key} has no reason: {note}");
        }
    }
}

fn check_report(report: &Value, made: &ClaudeFolder) {
    check_fields(report, "agent", &made.agents);
    check_fields(report, "skill", &made.skills);
    check_fields(report, "prompt", &made.commands);
    let items = report["items"].as_array().expect("items");
    for file in &made.broken {
        let is_named = |item: &&Value| item["source"].as_str().is_some_and(|source| source.starts_with(file.as_str()));
        let item = items.iter().find(is_named).unwrap_or_else(|| panic!("{file} is not in the report"));
        assert_eq!(item["action"], "dropped", "{item:#}");
        assert!(item["reason"].is_string(), "{item:#}");
    }
    let kinds = |kind: &str| items.iter().filter(|item| item["kind"] == kind).count();
    assert_eq!(kinds("agent"), made.agents.len() + 6, "agents that came over, and those that could not");
    assert!(kinds("hook") == 2 && kinds("permission") == 4 && kinds("mcp_server") >= 5, "{:?}", said(report));
}

/// Runs every agent of the config once.
fn run_all(home: &Home) {
    let listed = home.run(&["agents", "list", "--json", "--config", "drawloom.yaml"]).exits(0).json();
    let names: Vec<&str> =
        listed["agents"].as_array().expect("agents").iter().filter_map(|agent| agent["name"].as_str()).collect();
    assert!(names.len() > AGENTS, "{}", names.len());
    for part in names.chunks(32) {
        let runs: Vec<Value> =
            part.iter().map(|name| json!({ "agent": name, "prompt": format!("hello {name}") })).collect();
        home.write("runs.json", &json!(runs).to_string());
        let ran =
            home.run(&["batch", "runs.json", "--embedded", "--json", "--config", "drawloom.yaml"]).exits(0).json();
        let results = ran["results"].as_array().unwrap_or_else(|| panic!("{ran:#}"));
        assert_eq!(results.len(), part.len());
        for (name, result) in part.iter().zip(results) {
            assert_eq!(result["final_text"], format!("hello {name}"), "{result:#}");
        }
    }
}

#[test]
fn a_tree_of_every_shape_comes_over_whole_and_every_agent_runs() {
    let home = Home::new();
    let made = claude::write(home.path(), AGENTS).expect("a tree");
    let mine = format!("# kept\n{}  # here\n", config(&home).trim_end());
    home.write("drawloom.yaml", &mine);
    let report = import(&home, &["--from", ".", "--write", "--json"]).exits(0).json();
    check_report(&report, &made);
    home.run(&["validate"]).exits(0);
    let text = config(&home);
    for line in mine.lines() {
        assert!(text.lines().any(|other| other == line), "{line:?} is gone");
    }
    check_prompts(&home, &made, &report);
    run_all(&home);
    let again = import(&home, &["--from", ".", "--write", "--json"]).exits(0).json();
    assert_eq!(
        again["written"],
        false,
        "{:?}",
        said(&again).into_iter().filter(|line| !line.ends_with("unchanged")).collect::<Vec<_>>()
    );
    assert_eq!(config(&home), text);
}

/// What an agent's file says below its frontmatter is what its model is told.
fn check_prompts(home: &Home, made: &ClaudeFolder, report: &Value) {
    let items = by_source(report, "agent");
    let schema = home.run(&["call", "list_agents", "--embedded", "--config", "drawloom.yaml"]);
    assert_eq!(schema.code, 0, "{schema:?}");
    let text = config(home);
    for file in made.agents.keys() {
        let body = body(&home.path().join(file));
        let name = items[file.as_str()]["name"].as_str().expect("a name");
        // A line of the body that needs no quoting must stand in the config.
        for line in body.lines().filter(|line| line.starts_with("1. Read") || line.starts_with("One line")) {
            assert!(text.contains(line), "{name}: {line}");
        }
    }
}

fn body(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("text");
    text.replace('\r', "").rsplit("---\n").next().unwrap_or_default().to_owned()
}
