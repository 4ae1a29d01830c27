//! Goals that go on after their end, that are told something while they work, and that are removed.

use std::{
    fs,
    fs::File,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::Project;

/// Its worker does the second half only when it is told that something is missing.
const HALVES: &str = "\
Write both halves.
PLAN: [{\"id\":\"alpha\",\"description\":\"write\"}]
WORK alpha: echo one > one.txt
WORK alpha again: echo two > two.txt
";

const VERIFY: [&str; 4] = ["--verify", "test -f one.txt && test -f two.txt", "--max-iterations", "1"];

fn id(result: &Value) -> &str {
    result["run_id"].as_str().expect("an id")
}

#[test]
fn a_stopped_goal_goes_on_from_its_branch_with_more_budget_and_a_word() {
    let project = Project::new();
    let state = project.add_cli("judge", "cat > STATE/prompt\nCLI < STATE/prompt");
    let first = project.result(HALVES, &[&VERIFY[..], &["--reviewer", "judge"]].concat());
    assert_eq!(first["status"], "stopped", "{first:#}");
    let refused = project.run(&["goal", "resume", id(&first), "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "budget_used_up", "{refused}");
    let more = ["goal", "resume", id(&first), "--max-iterations", "1", "--say", "Mind the second half.", "--json"];
    let second = project.run(&more).exits(0).json();
    assert_eq!((&second["status"], &second["continues"]), (&json!("completed"), &first["run_id"]), "{second:#}");
    assert_eq!(second["worktree"]["base"], first["worktree"]["base"], "all work since the base is judged and landed");
    assert_eq!(second["worktree"]["changed_files"], json!(["one.txt", "two.txt"]));
    assert_eq!(second["success_criteria"], first["success_criteria"]);
    let plan = project.events(id(&second));
    assert!(plan.iter().all(|event| event["kind"] != "needs_input"));
    let prompt = fs::read_to_string(state.join("prompt")).expect("the last prompt");
    assert!(prompt.contains("# Changed files since the beginning (2)"), "{prompt}");
    let status = project.run(&["goal", "status", id(&first), "--json"]).exits(0).json();
    assert_eq!(status["continued_by"], second["run_id"], "{status:#}");
    let listed = project.run(&["goal", "list", "--json"]).exits(0).json();
    assert_eq!(listed["runs"][0]["continues"], first["run_id"]);
    // The branch that it began at is the one to land on.
    let landed = project.run(&["goal", "land", id(&second), "--json"]).exits(1).json();
    assert!(landed["command"].as_str().is_some_and(|command| command.starts_with("git merge --ff-only ")), "{landed}");
    let done = project.run(&["goal", "resume", id(&second), "--json"]).exits(2).json();
    assert_eq!(done["error"]["code"], "goal_completed", "{done}");
}

#[test]
fn a_goal_at_work_is_told_what_the_user_says_and_cannot_be_removed() {
    let project = Project::new();
    let slow = project.add_cli("slow", "cat STATE/gate > /dev/null\nCLI");
    let judge = project.add_cli("judge", "cat > STATE/prompt\nCLI < STATE/prompt");
    let gate = slow.join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    let goal = "\
Write a file.
PLAN: [{\"id\":\"alpha\",\"description\":\"write\"}]
WORK alpha: echo one > one.txt
";
    let started = project.result(goal, &["--worker", "slow", "--reviewer", "judge", "--detach"]);
    // Opening it waits until the worker reads.
    let open = File::options().write(true).open(&gate).expect("the worker");
    let said = project.run(&["goal", "say", id(&started), "Keep the old API.", "--json"]).exits(0).json();
    assert_eq!(said["said"], json!(["Keep the old API."]), "{said}");
    let refused = project.run(&["goal", "rm", id(&started), "--yes", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "goal_running", "{refused}");
    let running = project.run(&["goal", "resume", id(&started), "--json"]).exits(2).json();
    assert_eq!(running["error"]["code"], "goal_running", "{running}");
    drop(open);
    let result = project.run(&["goal", "result", id(&started), "--wait", "--json"]).exits(0).json();
    assert_eq!(result["status"], "completed", "{result:#}");
    let prompt = fs::read_to_string(judge.join("prompt")).expect("the prompt of the reviewer");
    assert!(
        prompt.contains("# The user says since the goal began") && prompt.contains("- Keep the old API."),
        "{prompt}"
    );
    let ended = project.run(&["goal", "say", id(&started), "Too late.", "--json"]).exits(2).json();
    assert_eq!(ended["error"]["code"], "goal_ended", "{ended}");
}

#[test]
fn a_goal_goes_on_when_its_terminal_is_closed() {
    let project = Project::new();
    let slow = project.add_cli("slow", "cat STATE/gate > /dev/null\nCLI");
    let gate = slow.join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    let goal = "\
Write a file.
PLAN: [{\"id\":\"alpha\",\"description\":\"write\"}]
WORK alpha: echo one > one.txt
";
    let words = ["goal", "run", goal, "--backend", "script", "--worker", "slow", "--criteria", "It is done."];
    let goal = project.command(&words);
    // Tests that run under `nohup` hand on that the signal is ignored.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(goal.get_program()).args(goal.get_args());
    command.envs(goal.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(goal.get_current_dir().expect("a directory"));
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    // Opening it waits until the worker reads.
    let open = File::options().write(true).open(&gate).expect("the worker");
    kill_process(Pid::from_child(&child), Signal::HUP).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(129));
    drop(open);
    let result = project.run(&["goal", "result", "last", "--wait", "--json"]).exits(0).json();
    assert_eq!(result["status"], "completed", "{result:#}");
}

#[test]
fn a_removed_goal_leaves_no_branch_ref_or_folder() {
    let project = Project::new();
    let before = project.git(&["for-each-ref"]);
    let result = project.result(super::TWO, &["--cleanup", "never"]);
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    let head = project.git(&["rev-parse", branch]);
    let asked = project.run(&["goal", "rm", "last", "--json"]).exits(3).json();
    assert_eq!(asked["error"]["code"], "no_answer", "{asked}");
    project.git(&["checkout", "-q", branch]);
    let refused = project.run(&["goal", "rm", "last", "--yes", "--json"]);
    assert!(refused.code != 0 && refused.stdout.contains("checked out"), "{refused:#?}");
    project.git(&["checkout", "-q", "main"]);
    let removed = project.run(&["goal", "rm", "last", "--yes", "--json"]).exits(0).json();
    assert_eq!((&removed["branch"], &removed["commit"]), (&json!(branch), &json!(head)), "{removed}");
    assert_eq!(project.git(&["for-each-ref"]), before);
    assert!(!project.folder(&result).exists());
    // Removing the same goal again succeeds. `last` skips it, and this repository has no other goal.
    let goal = result["run_id"].as_str().expect("an id");
    project.run(&["goal", "rm", goal, "--yes", "--json"]).exits(0);
    project.run(&["goal", "rm", "last", "--yes", "--json"]).exits(2);
}
