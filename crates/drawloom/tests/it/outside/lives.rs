//! Runs and servers over the ends of drawloom.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::house::{Play, Wire, program};

/// Longer than anything here takes.
const HANGS: Duration = Duration::from_secs(30);

/// Processes that carry the mark in their environment.
fn alive(mark: &str) -> Vec<String> {
    let wanted = format!("MARK={mark}");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
        .map(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " "))
        .collect()
}

/// Looks again and again until something is so.
#[track_caller]
fn until<T: std::fmt::Debug>(look: impl Fn() -> T, is_so: impl Fn(&T) -> bool) -> T {
    let began = Instant::now();
    loop {
        let seen = look();
        if is_so(&seen) {
            return seen;
        }
        assert!(began.elapsed() < HANGS, "still {seen:?}");
        std::thread::yield_now();
    }
}

#[test]
fn servers_and_all_that_they_start_end_with_drawloom_even_when_it_is_killed() {
    let mark = format!("outside-{}", std::process::id());
    let script = format!("trap '' TERM; sleep 1000 & {} stdio; sleep 1000", program().display());
    let play = Play::new(Wire::Stdio, &[])
        .set("command", json!(["/bin/sh", "-c", script]))
        .set("env", json!({"MARK": "THE_MARK"}))
        .variable("THE_MARK", &mark)
        .turn("hang", json!({}));
    play.write();
    let server = play.serve();
    // A server that agents use is started with drawloom.
    until(|| alive(&mark), |alive| alive.len() == 3);
    server.kill();
    until(|| alive(&mark), Vec::is_empty);
    let server = play.serve();
    until(|| alive(&mark), |alive| alive.len() == 3);
    assert_eq!(server.stop(), Some(0));
    until(|| alive(&mark), Vec::is_empty);
}

/// Starts a run in a server, waits until its first call is under way, and kills the server.
fn killed_in_a_call(play: &Play, is_under_way: impl Fn(&Value) -> bool) -> String {
    play.write();
    let server = play.serve();
    let started = play.finish(&["run", "a", "begin", "--detach", "--json"]).exits(0).json();
    let run = started["run_id"].as_str().or(started["runs"][0]["run_id"].as_str()).expect("an id").to_owned();
    until(|| play.finish(&["runs", "show", &run, "--json"]).json(), |seen| is_under_way(seen));
    server.kill();
    run
}

fn ended(play: &Play, run: &str) -> Value {
    let show = || play.finish(&["runs", "show", run, "--json"]).json();
    until(show, |view| ["completed", "failed"].contains(&view["status"].as_str().unwrap_or_default()))
}

#[test]
fn a_call_in_flight_at_a_crash_is_in_doubt_unless_the_server_says_it_can_be_repeated() {
    let play = Play::new(Wire::Stdio, &[]).turn("hang", json!({})).turn("echo", json!({"text": "on"}));
    // Accepted, admitted, turn, its end, usage, call.
    let run = killed_in_a_call(&play, |seen| seen["seq"].as_u64() >= Some(6));
    let _server = play.serve();
    let played = play.look(ended(&play, &run));
    assert!(played.failure(0).starts_with("in doubt: the server process ended"), "{played:#?}");
    assert_eq!(played.texts()[1], "on");
    let replay = play.finish(&["replay", &run]).exits(0);
    assert!(replay.stdout.contains("0 of them differ"), "{replay:#?}");

    let play = Play::new(Wire::Stdio, &[]);
    let file = play.home.path().join("marks");
    let play = play.turn("mark", json!({"text": file}));
    let run = killed_in_a_call(&play, |_| file.exists());
    let _server = play.serve();
    let played = play.look(ended(&play, &run));
    assert_eq!(played.texts(), ["marked"]);
    assert_eq!(calls(&file), 2);
}

#[test]
fn a_call_is_not_repeated_when_the_server_does_not_say_any_more_that_it_can_be() {
    let play = Play::new(Wire::Stdio, &[]);
    let file = play.home.path().join("marks");
    let mut play = play.turn("mark", json!({"text": file}));
    let run = killed_in_a_call(&play, |_| file.exists());
    play.config["mcp_servers"]["out"]["command"] = json!([program(), "stdio", "hints=none"]);
    play.write();
    let _server = play.serve();
    let played = play.look(ended(&play, &run));
    assert!(played.failure(0).starts_with("in doubt: the server process ended"), "{played:#?}");
    assert_eq!(calls(&file), 1);
}

fn calls(file: &Path) -> usize {
    fs::read_to_string(file).expect("the file").lines().count()
}

#[test]
fn a_run_that_is_taken_up_without_its_server_says_which_tools_are_gone() {
    let mut play = Play::new(Wire::Stdio, &[])
        .agent_tools(json!(["mcp__out__hang", "mcp__out__echo"]))
        .turn("hang", json!({}))
        .turn("echo", json!({}));
    let run = killed_in_a_call(&play, |seen| seen["seq"].as_u64() >= Some(6));
    play.config["mcp_servers"]["out"]["command"] = json!(["/no/such/program"]);
    play.write();
    let _server = play.serve();
    let played = play.look(ended(&play, &run));
    assert_eq!(played.result["final_text"], "the end");
    assert!(played.failure(1).starts_with("unknown tool \"mcp__out__echo\""), "{played:#?}");
    let notice = play.events(&run).into_iter().find(|event| event["type"] == "tools_missing").expect("a notice");
    let text = notice["text"].as_str().expect("a text");
    assert!(
        text.starts_with(
            "tools no longer available: mcp__out__echo, mcp__out__hang; tools: `mcp__out__*` not available"
        ),
        "{text}"
    );
}

#[test]
fn a_session_ends_with_drawloom() {
    let play = Play::new(Wire::Http, &["era=legacy"]).turn("ended", json!({}));
    assert_eq!(play.run().texts(), ["0"]);
    assert_eq!(play.run().texts(), ["1"]);
    play.finish(&["doctor"]).exits(0);
    let server = play.serve();
    let run = || play.look(play.finish(&["run", "a", "begin", "--json"]).exits(0).json());
    assert_eq!(run().texts(), ["3"]);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(run().texts(), ["4"]);
}
