//! `drawloom worktree` on a real repository. The mock team changes nothing, so the tests write into its checkouts.

use std::{fs, path::Path, path::PathBuf, process::Command};

use serde_json::{Value, json};

use crate::support::Home;

/// Runs git in the repository of a home, and returns what it prints.
fn git(home: &Home, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments);
    let ran = command.current_dir(home.path().join("repo")).env("HOME", home.path()).output().expect("git starts");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text").trim().to_owned()
}

/// A home with a repository of one commit.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir(home.path().join("repo")).expect("a directory");
    git(&home, &["init", "-q", "-b", "main"]);
    home.write("repo/README.md", "first\n");
    git(&home, &["add", "."]);
    git(&home, &["commit", "-qm", "first"]);
    home
}

/// A goal of the mock team whose checkouts are kept.
fn goal(home: &Home) -> String {
    let asked = ["goal", "run", "Write it", "--criteria", "It is there.", "--backend", "mock", "--cwd", "repo"];
    let ran = home.run(&[&asked[..], &["--cleanup", "never", "--json"]].concat()).exits(0).json();
    ran["run_id"].as_str().expect("an id").to_owned()
}

fn listed(home: &Home) -> Value {
    home.run(&["worktree", "list", "--json"]).exits(0).json()["worktrees"].take()
}

/// The first checkout that a worker can write to: its name and its path.
fn writer(home: &Home, worktree: &Value) -> (String, PathBuf) {
    let all = worktree["checkouts"].as_array().expect("a list");
    let writer = all.iter().find(|checkout| checkout.get("read_only").is_none()).expect("a checkout of a worker");
    let path = writer["path"].as_str().expect("a path").replace("<home>", &home.path().to_string_lossy());
    (writer["name"].as_str().expect("a name").to_owned(), PathBuf::from(path))
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).expect("a writable checkout");
}

#[test]
fn what_lies_in_a_checkout_is_listed_compared_committed_and_never_lost() {
    let home = home();
    assert_eq!(home.run(&["worktree", "list"]).exits(0).stdout, "no checkouts of goals\n");
    let id = goal(&home);
    let all = listed(&home);
    let worktree = &all[0];
    assert_eq!((&worktree["run_id"], &worktree["status"]), (&json!(id), &json!("completed")));
    assert_eq!(worktree["base"], json!(git(&home, &["rev-parse", "main"])));
    assert!(worktree["bytes"].as_u64() > Some(0), "{worktree}");
    let (name, path) = writer(&home, worktree);

    write(&path, "new.txt", "made by hand\n");
    let all = listed(&home);
    let all = all[0]["checkouts"].as_array().expect("a list").clone();
    let mine = all.iter().find(|checkout| checkout["name"] == name.as_str()).expect("the checkout");
    assert_eq!(mine["uncommitted"], json!(["new.txt"]));
    let shown = home.run(&["worktree", "list"]).exits(0).stdout;
    assert!(shown.contains("Write it (completed)") && shown.contains("1 file"), "{shown}");

    let branch = home.run(&["worktree", "diff", &id, "--json"]).exits(0).json();
    assert_eq!(branch["files"], json!([]), "the mock team changes nothing");
    let diff = home.run(&["worktree", "diff", &id, "--checkout", &name]).exits(0);
    assert!(diff.stdout.contains("+made by hand"), "{diff:?}");
    let place = format!("repository <home>/repo, branch drawloom/{id}");
    assert_eq!(diff.stderr, format!("{place}\n1 file changed, 1 lines added, 0 removed\n"));

    let made = home.run(&["worktree", "commit", &id, "--message", "by hand", "--json"]).exits(0).json();
    assert_eq!((&made["commits"][0]["checkout"], made["commits"].as_array().map(Vec::len)), (&json!(name), Some(1)));
    let reference = made["commits"][0]["reference"].as_str().expect("a ref");
    assert_eq!(git(&home, &["log", "-1", "--format=%s", reference]), "by hand");
    assert_eq!(git(&home, &["show", &format!("{reference}:new.txt")]), "made by hand");
    assert_eq!(home.run(&["worktree", "commit", &id]).exits(0).stdout, "nothing to commit\n");
    let rest = home.run(&["worktree", "diff", &id, "--checkout", &name, "--uncommitted", "--json"]).exits(0).json();
    assert_eq!(rest["files"], json!([]));

    write(&path, "new.txt", "and changed again\n");
    write(&path, ".env", "KEY=1\n");
    let unasked = home.run(&["worktree", "remove", &id]).exits(3);
    assert!(unasked.stderr.contains("pass --yes"), "{unasked:?}");
    let refused = home.run(&["worktree", "remove", &id, "--yes"]).exits(2);
    assert!(refused.stderr.contains(&format!("would be lost: {name}/.env (secret name)")), "{refused:?}");
    assert!(path.join(".env").is_file(), "nothing was removed");
    let removed = home.run(&["worktree", "remove", &id, "--yes", "--discard", "--json"]).exits(0).json();
    assert!(!path.exists() && removed["bytes"].as_u64() > Some(0), "{removed}");
    let saved = removed["saved"][0]["reference"].as_str().expect("a ref");
    assert_eq!(git(&home, &["show", &format!("{saved}:new.txt")]), "and changed again");

    assert_eq!(listed(&home), json!([]));
    let all = home.run(&["worktree", "list", "--all"]).exits(0).stdout;
    assert!(all.contains(&id) && all.contains("no checkouts"), "{all}");
    assert_eq!(git(&home, &["status", "--porcelain"]), "", "the user's checkout is untouched");
    assert_eq!(git(&home, &["log", "--format=%s", "main"]), "first");
}

#[test]
fn the_checkouts_of_a_goal_that_has_not_ended_are_neither_committed_nor_removed() {
    let home = home();
    let directory = home.path().join("repo").display().to_string();
    let ask = json!({
        "goal": "Write it", "success_criteria": "It is there.", "backend": "mock", "cwd": directory, "confirm_plan": true,
    });
    home.write("goal.json", &ask.to_string());
    let started = home.run(&["call", "orchestrate", "--input", "goal.json"]).exits(0).json();
    let id = started["run_id"].as_str().expect("an id");
    let asks = home.run(&["goal", "result", id, "--wait", "--json"]).exits(3).json();
    assert_eq!(asks["status"], "needs_input");
    for arguments in [["worktree", "commit", id, "--json"], ["worktree", "remove", id, "--yes"]] {
        let refused = home.run(&arguments).exits(2);
        assert!(format!("{refused:?}").contains("has not ended"), "{refused:?}");
    }
    let unknown = home.run(&["worktree", "diff", id, "--checkout", "nobody"]).exits(2);
    assert!(unknown.stderr.contains("unknown checkout \"nobody\""), "{unknown:?}");
}

#[test]
fn outside_of_a_project_worktrees_use_the_config_of_the_user() {
    let home = home();
    fs::remove_file(home.path().join("drawloom.yaml")).expect("a config");
    let listed = home.run(&["worktree", "list"]).exits(0);
    assert_eq!(listed.stdout, "no checkouts of goals\n");
    assert!(home.path().join(".local/share/drawloom/goals/drawloom.yaml").is_file());
}
