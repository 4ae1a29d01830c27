//! Work in a repository: merged on the goal's branch, verified, landed; the user's checkout is never touched.

use std::fs;

use serde_json::json;

use super::{Project, TWO};

const VERIFY: [&str; 2] = ["--verify", "test -f alpha.txt && test -f beta.txt"];

#[test]
fn a_branch_that_is_checked_out_is_never_moved_and_another_one_is_fast_forwarded() {
    let project = Project::new();
    let result = project.result(TWO, &VERIFY);
    let (run, branch) =
        (result["run_id"].as_str().expect("an id"), result["worktree"]["branch"].as_str().expect("a branch"));
    let land = |more: &[&str]| {
        let all: Vec<&str> = ["goal", "land", run, "--json"].iter().chain(more).copied().collect();
        project.home.run(&all)
    };
    let landed = land(&[]).exits(1).json();
    assert_eq!(
        (&landed["landed"], &landed["command"]),
        (&json!(false), &json!(format!("git merge --ff-only {branch}")))
    );
    project.git(&["branch", "release"]);
    let landed = land(&["--into", "release"]).exits(0).json();
    assert_eq!(landed["landed"], true, "{landed}");
    assert_eq!(project.git(&["rev-parse", "release"]), project.git(&["rev-parse", branch]));
    project.git(&["merge", "--ff-only", branch]);
    assert_eq!(fs::read_to_string(project.repository().join("alpha.txt")).expect("it is there"), "alpha\n");
    // A branch with other commits is not moved.
    project.git(&["checkout", "-q", "-b", "other", "main~1"]);
    fs::write(project.repository().join("other.txt"), "x").expect("a file");
    project.commit("other");
    project.git(&["checkout", "-q", "main"]);
    let refused = land(&["--into", "other"]).exits(1).json();
    assert_eq!(refused["landed"], false, "{refused}");
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("has commits that the work lacks")),
        "{refused}"
    );
}

#[test]
fn a_test_that_is_red_before_and_green_after_is_a_witness() {
    let project = Project::new();
    let result = project.result(TWO, &["--verify", "test -f alpha.txt", "--witness"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    let result = project.result(TWO, &["--verify", "true", "--witness", "--max-iterations", "1"]);
    assert_eq!(result["status"], "stopped", "a command that succeeds on the base proves nothing: {result:#}");
}

#[test]
fn conflicting_workers_get_their_changes_back_and_both_end_on_the_branch() {
    let project = Project::new();
    let goal = "\
Add two lines.
PLAN: [{\"id\":\"alpha\",\"description\":\"first line\"},{\"id\":\"beta\",\"description\":\"second line\"}]
WORK alpha: echo alpha > lines.txt
WORK beta: echo beta > lines.txt
WORK beta again: echo beta >> lines.txt
";
    let result = project.result(goal, &["--verify", "grep -q alpha lines.txt && grep -q beta lines.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:lines.txt")]), "alpha\nbeta");
}

#[test]
fn a_subgoal_that_depends_on_another_begins_with_its_work() {
    let project = Project::new();
    let goal = "\
Copy a file.
PLAN: [{\"id\":\"copy\",\"description\":\"copy it\",\"depends_on\":[\"make\"]},{\"id\":\"make\",\"description\":\"make it\"}]
WORK make: echo made > one.txt
WORK copy: cp one.txt two.txt
";
    let result = project.result(goal, &["--verify", "cmp one.txt two.txt"]);
    assert_eq!((&result["status"], &result["iterations"]), (&json!("completed"), &json!(1)), "{result:#}");
}

#[test]
fn a_directory_without_a_repository_or_commit_is_refused_before_anything_is_paid() {
    let project = Project::new();
    let bare = project.home.path().join("plain");
    fs::create_dir(&bare).expect("a directory");
    let result = project.result(TWO, &["--cwd", bare.to_str().expect("text")]);
    assert_eq!((&result["status"], &result["agent_calls"]), (&json!("failed"), &json!(0)), "{result:#}");
    assert!(
        result["error"]["message"].as_str().is_some_and(|text| text.contains("is not in a git repository")),
        "{result:#}"
    );
}

#[test]
fn work_can_begin_with_changes_that_are_not_committed() {
    let project = Project::new();
    fs::write(project.repository().join("readme.txt"), "changed\n").expect("a file");
    let goal = "Copy.\nPLAN: [\"copy\"]\nWORK s1: cp readme.txt copy.txt\n";
    let result = project.result(goal, &["--uncommitted", "--verify", "grep -q changed copy.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    let result = project.result(goal, &["--verify", "grep -q 'a project' copy.txt"]);
    assert_eq!(result["status"], "completed", "without the option it begins at HEAD: {result:#}");
}

#[test]
fn a_worker_in_a_subdirectory_starts_there() {
    let project = Project::new();
    fs::create_dir(project.repository().join("sub")).expect("a directory");
    fs::write(project.repository().join("sub/here.txt"), "x\n").expect("a file");
    project.commit("sub");
    let sub = project.repository().join("sub");
    let goal = "Copy.\nPLAN: [\"copy\"]\nWORK s1: cp here.txt there.txt && cp ../readme.txt ../top.txt\n";
    let result =
        project.result(goal, &["--cwd", sub.to_str().expect("text"), "--verify", "test -f there.txt -a -f ../top.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    assert_eq!(result["worktree"]["changed_files"], json!(["sub/there.txt", "top.txt"]));
}

#[test]
fn a_setup_command_of_the_goal_prepares_each_checkout_and_a_failure_ends_the_goal_with_its_output() {
    let project = Project::new();
    let config = project.home.path().join("drawloom.yaml");
    let text = fs::read_to_string(&config).expect("a config");
    project.home.write("drawloom.yaml", &format!("{text}goals: {{ setup: 'echo config > from-setup.txt' }}\n"));
    let goal = "Use what setup made.\nPLAN: [\"one\",\"two\"]\nWORK s1: cat from-setup.txt > one.txt\nWORK s2: cat from-setup.txt > two.txt\n";
    let outside = project.repository().join("outside");
    let setup = format!("echo goal > from-setup.txt; touch ../outside {}; true", outside.display());
    let own = project.result(goal, &["--setup", &setup, "--cleanup", "never"]);
    assert_eq!(own["status"], "completed", "{own:#}");
    let branch = own["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(own["worktree"]["changed_files"], json!(["one.txt", "two.txt"]), "what setup made is not the work");
    for file in ["one.txt", "two.txt"] {
        assert_eq!(
            project.git(&["show", &format!("{branch}:{file}")]),
            "goal",
            "the goal's command replaces the config's"
        );
    }
    let folder =
        own["run_dir"].as_str().expect("a folder").replace("<home>", &project.home.path().display().to_string());
    let work = fs::read_dir(format!("{folder}/work")).expect("checkouts").flatten().map(|entry| entry.file_name());
    let work: Vec<_> = work.collect();
    assert!(!work.is_empty() && work.iter().all(|name| name != "outside"), "it runs in a sandbox: {work:?}");
    assert!(!outside.exists(), "it runs in a sandbox");
    let usual = project.result(goal, &[]);
    let branch = usual["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:one.txt")]), "config");
    let failed = project.result(goal, &["--setup", "echo the registry is down; exit 7"]);
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!("workspace_failed")),
        "{failed:#}"
    );
    let message = failed["error"]["message"].as_str().expect("a message");
    for part in ["exited with code 7", "the registry is down", "--setup"] {
        assert!(message.contains(part), "{message}");
    }
    let empty = project.goal(goal, &["--setup", " "]);
    assert!(empty.code == 2 && empty.stderr.contains("setup is empty"), "{empty:#?}");
}
