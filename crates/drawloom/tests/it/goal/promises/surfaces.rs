//! Commands, MCP, questions, files.

use std::fs;

use serde_json::{Value, json};

use super::{Project, TWO};
use crate::{
    mcp_install::{CLIENTS, install},
    mcp_proxy::{Host, stateless},
    support::Home,
};

#[test]
fn p5_one_binary_serves_commands_mcp_and_rest_with_the_same_goals() {
    let home = Home::new();
    let server = home.serve();
    let arguments = ["goal", "run", "One", "--backend", "mock", "--criteria", "x", "--no-cwd", "--json"];
    let by_command = home.run(&arguments).exits(0).json();
    let mut host = Host::start(home.command(&["mcp", "--toolsets", "goal", "--upstream", &server.url]));
    host.call(1, "orchestrate", json!({ "goal": "Two", "backend": "mock", "detach": false }));
    let by_mcp = host.next()["result"]["structuredContent"].take();
    let ask = json!({ "goal": "Three", "backend": "mock", "detach": false }).to_string();
    let by_rest = home.run_with_input(&["--url", &server.url, "call", "orchestrate", "--input", "-"], &ask);
    let results = [by_command, by_mcp, by_rest.exits(0).json()];
    let mut expected: Vec<&Value> = results.iter().map(|result| &result["run_id"]).collect();
    assert!(results.iter().all(|result| result["stop_reason"] == "goal_complete"), "{results:#?}");
    expected.reverse();
    let listed = home.run(&["goal", "list", "--json"]).exits(0).json();
    let listed: Vec<&Value> = listed["runs"].as_array().expect("a list").iter().map(|goal| &goal["run_id"]).collect();
    assert_eq!(listed, expected, "newest first");
}

#[test]
fn p6_the_demo_needs_no_config_and_no_key() {
    let home = Home::new();
    fs::remove_file(home.path().join("drawloom.yaml")).expect("it was there");
    let ran = home.run(&["goal", "demo"]).exits(0);
    assert!(ran.stdout.contains("Completed s3") && ran.stderr.contains("iteration 2 of 4"), "{ran:#?}");
    assert!(ran.stderr.contains("review: rejected") && ran.stderr.contains("review: accepted"), "{ran:#?}");
    let result = home.run(&["goal", "demo", "--json"]).exits(0).json();
    assert_eq!(
        (&result["completed"], &result["iterations"], &result["agent_calls"]),
        (&json!(true), &json!(2), &json!(10))
    );
}

#[test]
fn p17_the_tools_of_goals_are_listed_over_mcp() {
    let home = Home::new();
    let mut host = Host::start(home.command(&["mcp", "--toolsets", "goal"]));
    host.request(1, "tools/list", json!({ "_meta": stateless() }));
    let listed = host.next();
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let mut names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    names.sort_unstable();
    let theirs = ["doctor", "list_backends", "orchestrate", "orchestrate_list", "orchestrate_result"];
    let mut expected = [&theirs[..], &["orchestrate_resume", "orchestrate_status", "orchestrate_tail"]].concat();
    expected.extend(["orchestrate_cancel", "orchestrate_land", "orchestrate_rm", "orchestrate_say"]);
    expected.extend(["commit_worktree", "diff_worktree", "list_worktrees", "remove_worktree"]);
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn p18_questions_have_a_token_that_is_stored_and_valid_once() {
    let project = Project::new();
    let goal = format!("{TWO}SAY clarifier: [\"Which colour?\"]\n");
    let asked = project.goal(&goal, &["--ask", "--criteria", "x", "--json"]).exits(3).json();
    let token = asked["token"].as_str().expect("a token").to_owned();
    assert_eq!(asked["questions"], json!(["Which colour?"]));
    let bad = project.home.run(&["goal", "resume", "ask_00", "--answer", "x", "--json"]);
    assert_eq!((bad.code, &bad.json()["error"]["code"]), (2, &json!("unknown_token")), "{bad:#?}");
    let done = project.home.run(&["goal", "resume", &token, "--answer", "blue", "--json"]).exits(0).json();
    assert_eq!((&done["run_id"], &done["completed"]), (&asked["run_id"], &json!(true)), "the same run went on");
    let again = project.home.run(&["goal", "resume", &token, "--answer", "red", "--json"]);
    assert_eq!((again.code, &again.json()["error"]["code"]), (2, &json!("unknown_token")), "{again:#?}");
    let answered = project.goal(&goal, &["--answer", "blue", "--criteria", "x", "--json"]).exits(0).json();
    assert_eq!(answered["completed"], true, "an answer that is given beforehand is used");
}

#[test]
fn p19_a_host_that_waits_for_a_goal_is_told_which_workers_are_at_work() {
    let home = Home::new();
    let mut host = Host::start(home.command(&["mcp", "--toolsets", "goal"]));
    let roles = json!({ "planner": "mock", "worker": "agent:echo", "reviewer": "mock" });
    // The model of the agent takes its time for a prompt with this word.
    let ask = json!({ "goal": "Take it slow", "success_criteria": "Done.", "roles": roles, "detach": false });
    let mut meta = stateless();
    meta["progressToken"] = "waits".into();
    host.request(1, "tools/call", json!({ "name": "orchestrate", "arguments": ask, "_meta": meta }));
    let told = loop {
        let message = host.next();
        assert_eq!(message["method"], "notifications/progress", "{message}");
        if message["params"]["message"].as_str().is_some_and(|text| text.contains("at work")) {
            break message;
        }
    };
    let text = told["params"]["message"].as_str().expect("a text");
    assert!(text.ends_with("iteration 1 of 4, execute: 3 workers at work (s1, s2, s3)"), "{text}");
    assert!(told["params"]["progress"].as_f64() > Some(3.0), "it grows with the events: {told}");
}

#[test]
fn p20_a_detached_goal_is_tailed_listed_and_has_a_folder_outside_of_the_repository() {
    let project = Project::new();
    let started = project.goal(TWO, &["--criteria", "x", "--detach", "--json"]).exits(0).json();
    assert!(["running", "completed"].contains(&started["status"].as_str().expect("a word")), "{started}");
    let run = started["run_id"].as_str().expect("an id");
    let result = project.home.run(&["goal", "result", run, "--wait", "--json"]).exits(0).json();
    assert_eq!(result["completed"], true);
    let tailed = project.home.run(&["goal", "tail", run, "--json"]).exits(0);
    let events: Vec<Value> = tailed.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().expect("an end")["kind"], "run_finished");
    let listed = project.home.run(&["goal", "list", "--json"]).exits(0).json();
    assert_eq!((&listed["runs"][0]["run_id"], &listed["runs"][0]["phase"]), (&json!(run), &json!("done")));
    let folder = started["run_dir"].as_str().expect("a folder");
    assert!(!folder.contains("repository"), "{folder}");
    // The folder is written beside the goal's end.
    let status = project.home.run(&["goal", "status", run, "--json"]).exits(0).json();
    assert_eq!((&status["running"], &status["events"]), (&json!(false), &json!(events.len())));
    let folder = folder.replace("<home>", &project.home.path().display().to_string());
    project.home.run(&["stop"]);
    let read =
        |name: &str| fs::read_to_string(format!("{folder}/{name}")).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read("events.jsonl").lines().count(), events.len());
    let status: Value = serde_json::from_str(&read("status.json")).expect("JSON");
    assert_eq!((&status["running"], &status["phase"]), (&json!(false), &json!("done")));
    let result: Value = serde_json::from_str(&read("result.json")).expect("JSON");
    assert_eq!(result["completed"], true);
    assert!(read("workers/i01-a1-001-alpha.out").contains("done with alpha"));
}

#[test]
fn p22_doctor_explains_three_limits_of_time_and_can_say_no() {
    let project = Project::new();
    let shown = project.run(&["goal", "doctor"]).exits(0).stdout;
    assert!(shown.contains("`--max-seconds` limits") && !shown.contains("orchestrate"), "{shown}");
    let good = project.run(&["goal", "doctor", "--json"]).exits(0).json();
    assert_eq!(good["ok"], true, "{good:#}");
    let limits = good["timeouts"].as_array().expect("a list");
    for (limit, says) in limits.iter().zip(["-32001", "`timeout`", "`max_seconds`"]) {
        assert!(limit.as_str().is_some_and(|text| text.contains(says)), "{says}: {limit}");
    }
    assert_eq!(limits.len(), 3);
    let plain = project.home.path().join("notes").display().to_string();
    let bad = project.run(&["goal", "doctor", "--cwd", &plain, "--json"]);
    assert_eq!((bad.code, &bad.json()["ok"]), (1, &json!(false)), "{bad:#?}");
    assert!(bad.stdout.contains("is not in a git repository"), "{bad:#?}");
}

#[test]
fn p23_nine_hosts_get_a_config_with_the_tools_of_goals() {
    let home = Home::new();
    for client in CLIENTS {
        let shown = install(&home, &["--client", client, "--toolsets", "core,goal"]).exits(0).stdout;
        assert!(shown.contains("core,goal"), "{client}: {shown}");
    }
    install(&home, &["--client", "claude", "--toolsets", "core,goal", "--write", "--yes"]).exits(0);
    let written = fs::read_to_string(home.path().join(".claude.json")).expect("a file");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    let entry = &written["mcpServers"]["drawloom"];
    let arguments = entry["args"].as_array().expect("a list");
    assert!(arguments.contains(&json!("core,goal")) && entry["timeout"].as_u64() > Some(600_000), "{entry}");
}

#[test]
fn p24_the_goal_comes_from_a_file_or_stdin_and_errors_exit_with_2() {
    let project = Project::new();
    project.home.write("goal.md", TWO);
    let file = project.home.path().join("goal.md").display().to_string();
    let config = project.home.path().join("drawloom.yaml").display().to_string();
    let more = ["--criteria", "x", "--no-cwd", "--json"];
    let from_file = [&["goal", "run", "--goal-file", &file, "--backend", "script"], &more[..]].concat();
    assert_eq!(project.run(&from_file).exits(0).json()["completed"], true);
    let from_stdin = [&["--config", &config, "goal", "run", "-", "--backend", "script"], &more[..]].concat();
    assert_eq!(project.home.run_with_input(&from_stdin, TWO).exits(0).json()["completed"], true);
    let mut missing = project.command(&[&["goal", "run", TWO, "--backend", "claude_code"], &more[..]].concat());
    let missing = project.home.finish(missing.env("PATH", "/usr/bin:/bin")).exits(2).json();
    assert_eq!(missing["error"]["code"], "not_installed", "the cause is named: {missing:#}");
}

#[test]
fn p25_the_intake_proposes_criteria_asks_four_questions_and_goes_on_with_the_answers() {
    let project = Project::new();
    let goal = format!("{TWO}SAY clarifier: [\"one?\",\"two?\",\"three?\",\"four?\",\"five?\"]\n");
    let asked = project.goal(&goal, &["--ask", "--no-cwd", "--json"]).exits(3).json();
    assert_eq!(asked["questions"], json!(["one?", "two?", "three?", "four?"]), "{asked:#}");
    let token = asked["token"].as_str().expect("a token");
    let answers = ["--answer", "red", "--answer", "green", "--answer", "blue", "--answer", "grey"];
    let done = project.run(&[&["goal", "resume", token, "--json"], &answers[..]].concat()).exits(0).json();
    assert_eq!(done["success_criteria"], "Every file of the goal exists.", "{done:#}");
    let events = project.events(done["run_id"].as_str().expect("an id"));
    let intake = events.iter().find(|event| event["kind"] == "intake_finished").expect("an event");
    let told = intake["data"]["clarifications"].to_string();
    assert!(told.contains("one?") && told.contains("red") && told.contains("grey"), "{intake}");
    let beforehand = [&["--no-cwd", "--json"], &answers[..]].concat();
    assert_eq!(project.goal(&goal, &beforehand).exits(0).json()["completed"], true);
}
