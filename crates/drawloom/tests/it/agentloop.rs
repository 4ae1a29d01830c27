//! The binary started as `agentloop` and `agentloop-mcp`, by a link, as scripts for them do.

use std::{fs, os::unix::fs::symlink, process::Command};

use serde_json::{Value, json};

use crate::{
    mcp_proxy::{Host, stateless},
    support::{Home, Ran},
};

/// A command of the binary under another name.
fn named(home: &Home, name: &str, arguments: &[&str]) -> Command {
    let (folder, ours) = (home.path().join("bin"), home.command(&[]));
    fs::create_dir_all(&folder).expect("a directory");
    let link = folder.join(name);
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_drawloom"), &link).expect("a link");
    }
    let mut command = Command::new(link);
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(arguments).current_dir(home.path()).stdin(std::process::Stdio::null());
    command
}

fn agentloop(home: &Home, arguments: &[&str]) -> Ran {
    home.finish(&mut named(home, "agentloop", arguments))
}

/// A home without any config.
fn bare() -> Home {
    let home = Home::new();
    fs::remove_file(home.path().join("drawloom.yaml")).expect("a config");
    home
}

const MOCK: [&str; 5] = ["run", "--goal", "Write it", "--backend", "mock"];

#[test]
fn a_run_prints_one_json_document_and_its_progress_beside_it() {
    let home = bare();
    let ran = agentloop(&home, &[&MOCK[..], &["--criteria", "It is there.", "--json", "--progress"]].concat()).exits(0);
    let result = ran.json();
    let names: Vec<&String> = result.as_object().expect("an object").keys().collect();
    assert_eq!(
        names,
        ["completed", "final_output", "history", "iterations", "run_dir", "run_id", "stop_reason", "summary"]
    );
    let said = (&result["completed"], &result["iterations"], &result["stop_reason"]);
    assert_eq!(said, (&json!(true), &json!(2), &json!("goal_complete")));
    let first = &result["history"][0];
    assert_eq!(first["results"].as_array().map(Vec::len), Some(3));
    assert!(first["subgoals"][0].is_string() && first["review"]["gates_passed"] == false, "{first}");
    let progress: Vec<Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let all_done = json!({
        "iteration": 2, "subgoals_ok": 3, "subgoals_total": 3, "verification_ok": 0, "verification_total": 0,
        "goal_complete": true,
    });
    assert_eq!((progress.len(), &progress[1]), (2, &all_done));
}

#[test]
fn people_get_a_line_of_facts_and_the_output_and_the_exit_code_says_how_it_ended() {
    let home = bare();
    let ran = agentloop(&home, &MOCK).exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..2], ["completed=True iterations=2 stop_reason=goal_complete", "---"]);
    assert!(lines.len() > 2, "{ran:?}");
    let stopped = agentloop(&home, &[&MOCK[..], &["--max-iterations", "1"]].concat()).exits(1);
    let first = stopped.stdout.lines().next();
    assert_eq!(first, Some("completed=False iterations=1 stop_reason=max_iterations (1) reached"));
    let missing = agentloop(&home, &["run", "--backend", "mock"]).exits(1);
    assert!(missing.stderr.contains("no goal was given"), "{missing:?}");
    let unknown = agentloop(&home, &["run", "--goal", "x", "--backend", "nobody", "--json"]).exits(2);
    assert_eq!(unknown.json()["error"]["code"], "unknown_backend");
    agentloop(&home, &["run", "--no-such-option"]).exits(2);
}

#[test]
fn a_run_without_cwd_has_no_repository_also_inside_of_one() {
    let home = bare();
    let init = Command::new("git").args(["init", "-q"]).current_dir(home.path()).status().expect("git starts");
    assert!(init.success());
    let ran = agentloop(&home, &[&MOCK[..], &["--json"]].concat()).exits(0);
    assert!(ran.json().get("worktree").is_none(), "{ran:?}");
}

#[test]
fn a_goal_that_asked_is_resumed_with_its_token_and_answers() {
    let home = bare();
    let asks = json!({ "goal": "Write it", "backend": "mock", "ask": true, "mock_questions": ["For whom?"] });
    home.write("goal.json", &asks.to_string());
    let config = home.path().join(".local/share/drawloom/goals/drawloom.yaml");
    agentloop(&home, &["backends"]).exits(0);
    let config = config.to_string_lossy();
    let started = home.run(&["call", "orchestrate", "--input", "goal.json", "--config", &config]).exits(0).json();
    let id = started["run_id"].as_str().expect("an id");
    let asked = home.run(&["goal", "result", id, "--wait", "--json"]).exits(3).json();
    let token = asked["token"].as_str().expect("a token");
    let ran = agentloop(&home, &["run", "--resume", token, "--answer", "For all.", "--json"]).exits(0);
    assert_eq!((&ran.json()["completed"], &ran.json()["run_id"]), (&json!(true), &json!(id)));
    let again = agentloop(&home, &["run", "--resume", token, "--answer", "For all.", "--json"]);
    assert_eq!(again.code, 2, "a token is valid once: {again:?}");
}

#[test]
fn backends_are_listed_by_name() {
    let home = bare();
    let names = agentloop(&home, &["backends"]).exits(0).stdout;
    assert!(names.lines().any(|name| name == "mock"), "{names}");
    let listed = agentloop(&home, &["backends", "--json"]).exits(0).json();
    let listed: Vec<&str> = listed["backends"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(listed, names.lines().collect::<Vec<_>>());
}

#[test]
fn agentloop_mcp_serves_the_tools_of_goals_without_a_project() {
    let home = bare();
    let mut host = Host::start(named(&home, "agentloop-mcp", &[]));
    host.request(1, "tools/list", json!({ "_meta": stateless() }));
    let listed = host.next();
    let tools: Vec<&str> =
        listed["result"]["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in [
        "orchestrate",
        "orchestrate_resume",
        "orchestrate_status",
        "orchestrate_tail",
        "orchestrate_result",
        "orchestrate_list",
        "list_backends",
        "doctor",
    ] {
        assert!(tools.contains(&name), "{name} is not in {tools:?}");
    }
    let ask = json!({ "goal": "Write it", "backend": "mock", "detach": false });
    host.call(2, "orchestrate", ask);
    let answer = host.next();
    assert!(answer["result"]["structuredContent"].to_string().contains("goal_complete"), "{answer}");
}
