//! Goals without isolation (`--no-isolate`): workers change the user's checkout itself.

use std::fs;

use serde_json::{Value, json};

use super::{Project, TWO};

/// What git says of the checkout, in short.
fn status(project: &Project) -> Vec<String> {
    project.git(&["status", "--porcelain"]).lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn workers_change_the_checkout_itself_one_after_another_and_commit_nothing_there() {
    let project = Project::new();
    let before = project.git(&["rev-parse", "HEAD"]);
    let goal = "\
Write both lines.
PLAN: [{\"id\":\"alpha\",\"description\":\"first line\"},{\"id\":\"beta\",\"description\":\"second line\"}]
WORK alpha: test ! -e lines.txt && echo alpha > lines.txt
WORK beta: echo beta >> lines.txt
";
    let verify = ["--no-isolate", "--verify", "test \"$(cat lines.txt)\" = \"$(printf 'alpha\\nbeta')\""];
    let result = project.result(goal, &verify);
    assert_eq!(result["status"], "completed", "{result:#}");
    let (run, worktree) = (result["run_id"].as_str().expect("an id"), &result["worktree"]);
    assert_eq!(fs::read_to_string(project.repository().join("lines.txt")).expect("a file"), "alpha\nbeta\n");
    assert_eq!(status(&project), ["?? lines.txt"], "HEAD and index are as they were");
    assert_eq!(
        project.git(&["rev-parse", "HEAD", &format!("refs/drawloom/{run}/base")]),
        format!("{before}\n{before}")
    );
    assert_eq!((&worktree["in_place"], &worktree["changed_files"]), (&json!(true), &json!(["lines.txt"])));
    assert_eq!(worktree["checkpoints"].as_array().map(Vec::len), Some(2), "one for each worker: {result:#}");
    let branch = worktree["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:lines.txt")]), "alpha\nbeta");
    let warning = result["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("not isolated: workers change <home>/repository itself"), "{result:#}");
    let refused = project.run(&["goal", "land", run]).exits(2);
    assert!(refused.stderr.contains("is in <home>/repository already, not committed"), "{}", refused.stderr);
    assert!(!project.git(&["for-each-ref"]).contains("in-place"), "the checkout was given back");
    // The next goal begins with a clean checkout.
    let dirty = project.goal(TWO, &["--criteria", "x", "--no-isolate"]).exits(2);
    assert!(dirty.stderr.contains("has uncommitted changes: lines.txt"), "{}", dirty.stderr);
    project.commit("the work");
    assert_eq!(project.result(TWO, &["--no-isolate"])["status"], "completed");
}

#[test]
fn options_that_need_isolation_are_refused_before_anything_starts() {
    let project = Project::new();
    let before = project.fingerprint();
    for (option, name) in [
        (&["--skip-permissions"][..], "skip_permissions"),
        (&["--base", "main"], "base"),
        (&["--uncommitted"], "include_uncommitted"),
    ] {
        let refused = project.goal(TWO, &[&["--criteria", "x", "--no-isolate"], option].concat()).exits(2);
        assert!(refused.stderr.contains(&format!("{name} needs isolated checkouts")), "{}", refused.stderr);
    }
    assert_eq!(project.fingerprint(), before);
    assert!(project.run(&["goal", "list", "--json"]).exits(0).json()["runs"] == json!([]));
}

#[test]
fn a_worker_cannot_change_the_git_directory_of_the_user() {
    let project = Project::new();
    let config = fs::read(project.repository().join(".git/config")).expect("a config");
    let goal = "\
Plant something.
PLAN: [{\"id\":\"plant\",\"description\":\"plant it\"}]
WORK plant: git log --oneline > log.txt; for try in 'git config core.fsmonitor /bin/false' 'touch .git/hooks/pre-commit' 'mv .git git' 'git commit -qam x'; do $try && echo \"$try\" >> planted.txt; done; true
";
    let result = project.result(goal, &["--no-isolate"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    assert_eq!(status(&project), ["?? log.txt"], "git can be read, and nothing of it can be changed");
    assert!(!fs::read(project.repository().join("log.txt")).expect("a log").is_empty());
    assert_eq!(fs::read(project.repository().join(".git/config")).expect("a config"), config);
    assert!(!project.repository().join(".git/hooks/pre-commit").exists());
}

#[test]
fn a_failed_worker_of_two_iterations_continues_and_its_work_is_in_a_checkpoint() {
    let project = Project::new();
    let goal = "\
Mend it.
PLAN: [{\"id\":\"mend\",\"description\":\"mend it\"}]
WORK mend: echo wrong > answer.txt
WORK mend again: grep -q wrong answer.txt && echo right > answer.txt
";
    let result = project.result(goal, &["--no-isolate", "--verify", "grep -q right answer.txt"]);
    assert_eq!((&result["status"], &result["iterations"]), (&json!("completed"), &json!(2)), "{result:#}");
    assert_eq!(fs::read_to_string(project.repository().join("answer.txt")).expect("a file"), "right\n");
    let run = result["run_id"].as_str().expect("an id");
    let first = format!("refs/drawloom/{run}/i01-001-mend/1:answer.txt");
    assert_eq!(project.git(&["show", &first]), "wrong");
}

#[test]
fn a_cancelled_goal_leaves_its_files_keeps_them_as_a_commit_and_gives_the_checkout_back() {
    let project = Project::new();
    let goal = "\
Write a file.
PLAN: [{\"id\":\"half\",\"description\":\"write half.txt\"}]
WORK half: trap '' TERM; echo half > half.txt; touch ready; sleep 1000
";
    let started = project.goal(goal, &["--criteria", "x", "--no-isolate", "--detach", "--json"]).exits(0).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    while !project.repository().join("ready").is_file() {
        std::thread::yield_now();
    }
    let taken = project.goal(TWO, &["--criteria", "x", "--no-isolate"]).exits(2);
    assert!(taken.stderr.contains(&format!("goal {run} works in")), "{}", taken.stderr);
    assert_eq!(project.result(TWO, &[])["status"], "completed", "goals with checkouts of their own are not in its way");
    project.home.run(&["goal", "cancel", &run, "--json"]).exits(0);
    let result = project.home.run(&["goal", "result", &run, "--wait", "--json"]).exits(1).json();
    let left: &Value = &result["worktree"]["left"][0];
    assert_eq!(left["files"], json!(["half.txt", "ready"]), "{result:#}");
    assert_eq!(project.git(&["show", &format!("{}:half.txt", left["commit"].as_str().expect("a commit"))]), "half");
    assert!(project.repository().join("half.txt").is_file());
    project.git(&["clean", "-fdq"]);
    assert_eq!(project.result(TWO, &["--no-isolate"])["status"], "completed", "the checkout is free");
}
