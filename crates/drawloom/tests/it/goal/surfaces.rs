//! Goals on their surfaces: exit codes, signals, servers without a token. Promises about surfaces are in `promises`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use super::{Project, TWO};

#[test]
fn exit_codes_tell_completed_stopped_error_and_needs_input_apart() {
    let project = Project::new();
    project.goal(TWO, &["--criteria", "x", "--no-cwd"]).exits(0);
    let stopped = project.goal(&format!("{TWO}SAY reviewer: {{\"quality_ok\":false,\"consistency_ok\":true,\"goal_aligned\":true,\"goal_complete\":false}}\n"), &["--max-iterations", "1", "--criteria", "x"]).exits(1);
    assert!(stopped.stderr.contains("max_iterations (1) reached"), "{stopped:#?}");
    let error = project.goal("No plan.\nPLAN: none\n", &["--criteria", "x"]).exits(2);
    assert!(error.stderr.contains("the decomposer gave no valid answer"), "{error:#?}");
    let unknown = project.goal(TWO, &["--backend", "scrpt"]);
    assert_eq!(unknown.code, 2, "{unknown:#?}");
    let asks =
        project.goal(&format!("{TWO}SAY clarifier: [\"Which colour?\"]\n"), &["--ask", "--criteria", "x"]).exits(3);
    assert!(asks.stdout.contains("1. Which colour?") && asks.stderr.contains("drawloom goal resume ask_"), "{asks:#?}");
}

#[test]
fn one_json_document_is_on_stdout_and_progress_is_on_stderr() {
    let project = Project::new();
    let ran = project.goal(TWO, &["--criteria", "x", "--json", "--progress", "--cleanup", "never"]).exits(0);
    assert_eq!(ran.json()["completed"], true);
    let lines: Vec<Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (&lines[0]["iteration"], &lines[0]["subgoals_ok"], &lines[0]["goal_complete"]),
        (&json!(1), &json!(2), &json!(true))
    );
}

#[test]
fn a_signal_stops_the_goal_writes_its_result_and_leaves_no_process() {
    for (signal, code) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let project = Project::new();
        let goal = "Wait.\nPLAN: [\"wait\"]\nWORK s1: echo begun > begun.txt; sleep 1000\n";
        let arguments = ["goal", "run", goal, "--backend", "script", "--criteria", "x", "--json", "--progress"];
        let mut command = project.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let run = until_worker(&project);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).expect("it runs");
        let mut out = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().expect("a pipe"), &mut out).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{out}");
        let result: Value = serde_json::from_str(&out).expect("one JSON document");
        assert_eq!((&result["status"], &result["run_id"]), (&json!("cancelled"), &json!(run)));
        let left = std::process::Command::new("pgrep").args(["-f", "^sleep 1000$"]).output().expect("pgrep starts");
        let mine = String::from_utf8_lossy(&left.stdout).lines().filter(|pid| is_of(pid, &project)).count();
        assert_eq!(mine, 0, "no process is left");
    }
}

/// Whether a process belongs to this test: its directory is below the test's home.
fn is_of(pid: &str, project: &Project) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(project.home.path()))
}

/// Follows the newest goal until a worker is at work; the goal's id.
fn until_worker(project: &Project) -> String {
    loop {
        let listed = project.home.run(&["goal", "list", "--json"]);
        let Some(run) =
            (listed.code == 0).then(|| listed.json()["runs"][0]["run_id"].as_str().map(str::to_owned)).flatten()
        else {
            continue;
        };
        let mut tail =
            project.home.command(&["goal", "tail", &run, "--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines();
        let begun = lines.map_while(Result::ok).any(|line| line.contains("subagent_started"));
        tail.kill().expect("it runs");
        tail.wait().expect("it ends");
        assert!(begun, "the goal ended before a worker started");
        return run;
    }
}

#[test]
fn a_server_without_a_token_runs_no_programs_for_goals() {
    let project = Project::new();
    let server = project.home.serve_with(project.command(&["serve", "--json", "--log", "warn"]));
    let url = server.url.clone();
    let ask = |body: Value| {
        project.home.run_with_input(&["--url", &url, "call", "orchestrate", "--input", "-"], &body.to_string())
    };
    let refused = ask(json!({ "goal": TWO, "backend": "script", "cwd": project.repository() }));
    assert_eq!(refused.json()["error"]["code"], "goals_need_token", "{refused:#?}");
    let allowed = ask(json!({ "goal": "x", "backend": "mock", "detach": false }));
    assert_eq!(allowed.exits(0).json()["completed"], true);
}
