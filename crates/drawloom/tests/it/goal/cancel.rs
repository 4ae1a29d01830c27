//! Goals that are cancelled: what their workers left is kept as commits in the user's repository.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use super::Project;

/// A worker that is in the middle of its work, and does not end when it is asked to.
const HALF: &str = "\
Write a file.
PLAN: [{\"id\":\"half\",\"description\":\"write half.txt\"}]
WORK half: trap '' TERM; echo half > half.txt; echo whole > readme.txt; touch ready; sleep 1000
";

/// A goal whose worker has written its files and goes on: its id and its folder.
fn begun(project: &Project) -> (String, PathBuf) {
    let started = project.goal(HALF, &["--criteria", "x", "--detach", "--json"]).exits(0).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    let folder = started["run_dir"].as_str().expect("a folder");
    let folder = PathBuf::from(folder.replace("<home>", &project.home.path().display().to_string()));
    while !folder.join("work/i01-001-half/ready").is_file() {
        std::thread::yield_now();
    }
    (run, folder)
}

/// That the worker's files are in the repository, below the goal's refs.
fn assert_kept(project: &Project, run: &str, result: &Value) {
    let left = &result["worktree"]["left"][0];
    let reference = left["reference"].as_str().unwrap_or_else(|| panic!("a ref: {result:#}"));
    assert_eq!(reference, format!("refs/drawloom/{run}/i01-001-half/1"));
    assert_eq!(left["files"], json!(["half.txt", "readme.txt", "ready"]));
    assert_eq!(project.git(&["rev-parse", reference]), left["commit"].as_str().expect("a commit"));
    assert_eq!(project.git(&["show", &format!("{reference}:half.txt")]), "half");
    assert_eq!(project.git(&["show", &format!("{reference}:readme.txt")]), "whole");
}

/// How many processes work below the test's home, the server apart.
fn workers(project: &Project) -> usize {
    let left = Command::new("pgrep").args(["-f", "^sleep 1000$"]).output().expect("pgrep starts");
    let is_ours =
        |pid: &&str| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(project.home.path()));
    String::from_utf8_lossy(&left.stdout).lines().filter(is_ours).count()
}

#[test]
fn what_a_worker_of_a_cancelled_goal_left_is_a_ref_and_the_checkout_is_not_touched() {
    let project = Project::new();
    let before = project.fingerprint();
    let (run, folder) = begun(&project);
    // The file is there a moment before `sleep` is.
    while workers(&project) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(workers(&project), 1);
    project.home.run(&["goal", "cancel", &run, "--json"]).exits(0);
    let result = project.home.run(&["goal", "result", &run, "--wait", "--json"]).exits(1).json();
    assert_eq!(result["status"], "cancelled");
    assert_kept(&project, &run, &result);
    assert_eq!(workers(&project), 0, "no process is left when the commit is made");
    assert_eq!(project.fingerprint(), before, "the user's checkout is as it was");
    let again = project.home.run(&["goal", "result", &run, "--json"]).exits(1).json();
    assert_eq!(again["worktree"]["left"], result["worktree"]["left"], "it is committed once");
    let told = project.home.run(&["goal", "result", &run]).exits(1);
    assert!(told.stderr.contains(&format!("git show refs/drawloom/{run}/i01-001-half/1")), "{told:#?}");
    project.home.run(&["stop"]).exits(0);
    let written: Value =
        serde_json::from_slice(&fs::read(folder.join("result.json")).expect("a result")).expect("JSON");
    assert_eq!(written["worktree"]["left"], result["worktree"]["left"]);
}

#[test]
fn a_server_that_is_killed_right_after_the_cancel_leaves_the_commit_to_the_next_one() {
    let project = Project::new();
    let (run, folder) = begun(&project);
    let announced = fs::read(project.home.data().join("server.json")).expect("a server");
    let announced: Value = serde_json::from_slice(&announced).expect("JSON");
    project.home.run(&["goal", "cancel", &run, "--json"]).exits(0);
    let killed = Command::new("kill").args(["-9", &announced["pid"].to_string()]).status().expect("kill starts");
    assert!(killed.success());
    project.home.run(&["restart"]).exits(0);
    // No one asks for the result: the start of the server finds what is to be done.
    while !folder.join("result.json").is_file() {
        std::thread::yield_now();
    }
    let written: Value =
        serde_json::from_slice(&fs::read(folder.join("result.json")).expect("a result")).expect("JSON");
    assert_eq!(written["cancelled"], true);
    assert_kept(&project, &run, &written);
    assert_eq!(workers(&project), 0);
}
