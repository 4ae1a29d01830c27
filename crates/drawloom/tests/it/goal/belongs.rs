//! Goals belong to a repository, and files that make tools run something land only when they are accepted.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::{Project, TWO};
use crate::{mcp_proxy::Host, support::Ran, terminal::Terminal};

/// A goal whose work has two files that make tools run something.
const TOOLS: &str = "\
Add settings.
PLAN: [{\"id\":\"alpha\",\"description\":\"write the settings\"}]
WORK alpha: mkdir -p .vscode lib/__pycache__; echo '{}' > .vscode/tasks.json; echo '[env]' > mise.toml; echo x > ok.txt; echo x > lib/__pycache__/x.pyc
";

/// A command in a folder, with the config of a project.
fn run_in(project: &Project, folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = project.command(arguments);
    command.current_dir(folder);
    project.home.finish(&mut command)
}

fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let settings = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
    let ran = Command::new("git")
        .args(settings)
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git starts");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text").trim().to_owned()
}

fn id(result: &Value) -> &str {
    result["run_id"].as_str().expect("an id")
}

/// The path of JSON, without what the test's home is replaced by.
fn is_place(project: &Project, shown: &Value, folder: &Path) -> bool {
    let shown = shown.as_str().unwrap_or_default().replace("<home>", &project.home.path().to_string_lossy());
    Path::new(&shown) == folder
}

#[test]
fn last_is_the_newest_goal_of_the_repository_around_the_folder() {
    let project = Project::new();
    let (first, second) = (project.repository(), project.home.path().join("second"));
    project.git(&["branch", "other"]);
    git_in(project.home.path(), &["clone", "-q", "repository", "second"]);
    git_in(&second, &["branch", "other"]);
    let (sub, linked) = (first.join("sub"), project.home.path().join("linked"));
    fs::create_dir(&sub).expect("made");
    project.git(&["worktree", "add", "-q", "-b", "linked", linked.to_str().expect("text")]);
    let more = ["--criteria", "It is done.", "--json", "--backend", "script"];
    let goal = |folder: &Path| run_in(&project, folder, &[&["goal", "run", TWO], &more[..]].concat()).exits(0).json();
    let in_first = goal(&first);
    let in_second = goal(&second);
    for (folder, goal) in [(&first, &in_first), (&sub, &in_first), (&linked, &in_first), (&second, &in_second)] {
        let status = run_in(&project, folder, &["goal", "status", "last", "--json"]).exits(0).json();
        assert_eq!(status["run_id"], goal["run_id"], "{}", folder.display());
        assert_eq!(status["branch"], goal["worktree"]["branch"], "{status}");
        let diff = run_in(&project, folder, &["worktree", "diff", "--stat", "--json"]).exits(0).json();
        assert_eq!((&diff["run_id"], &diff["branch"]), (&goal["run_id"], &goal["worktree"]["branch"]));
    }
    let before = git_in(&second, &["rev-parse", "main", "other"]);
    let landed = run_in(&project, &sub, &["goal", "land", "--into", "other", "--json"]).exits(0).json();
    assert!(is_place(&project, &landed["repository"], &first), "{landed}");
    assert_eq!((&landed["branch"], &landed["moved"]), (&json!("other"), &json!(true)));
    assert_eq!(git_in(&second, &["rev-parse", "main", "other"]), before, "the other repository is not touched");
    assert_eq!(project.git(&["rev-parse", "other"]), in_first["worktree"]["head"].as_str().expect("a head"));
    // Outside of both it is the newest, and what changes a repository must name the goal.
    let outside = project.home.path();
    let status = run_in(&project, outside, &["goal", "status", "--json"]).exits(0).json();
    assert_eq!(status["run_id"], in_second["run_id"]);
    for command in [&["goal", "land"][..], &["worktree", "commit"], &["worktree", "diff"]] {
        let refused = run_in(&project, outside, command).exits(2);
        assert!(refused.stderr.contains("there are goals of several"), "{refused:#?}");
    }
    // Each says in words what it is about.
    let place = format!("branch {}", in_first["worktree"]["branch"].as_str().expect("a branch"));
    for command in [
        &["goal", "result"][..],
        &["worktree", "diff", "--stat"],
        &["worktree", "commit"],
        &["worktree", "remove", "last", "--yes"],
    ] {
        let said = run_in(&project, &first, command);
        assert!(format!("{}{}", said.stdout, said.stderr).contains(&place), "{command:?}: {said:#?}");
    }
    let said = run_in(&project, &first, &["goal", "cancel"]).exits(0);
    assert!(format!("{}{}", said.stdout, said.stderr).contains(&place), "{said:#?}");
    let said = run_in(&project, &first, &["goal", "cancel", "--json"]).exits(0).json();
    assert_eq!(said["branch"], in_first["worktree"]["branch"]);
}

#[test]
fn land_exits_with_1_when_it_moves_nothing_and_says_when_the_work_is_there() {
    let project = Project::new();
    let result = project.result(TWO, &[]);
    project.git(&["branch", "other"]);
    let land = |code: i32, more: &[&str]| {
        let all: Vec<&str> = ["goal", "land", id(&result), "--json"].iter().chain(more).copied().collect();
        project.run(&all).exits(code).json()
    };
    let checked_out = land(1, &[]);
    assert_eq!((&checked_out["landed"], &checked_out["moved"]), (&json!(false), &json!(false)));
    assert_eq!(land(0, &["--into", "other"])["moved"], true);
    for _ in 0..2 {
        let again = land(1, &["--into", "other"]);
        assert_eq!(
            (&again["landed"], &again["already_landed"], &again["moved"]),
            (&json!(true), &json!(true), &json!(false))
        );
        assert!(again["message"].as_str().is_some_and(|text| text.starts_with("already landed: other")), "{again}");
    }
    project.git(&[
        "merge",
        "--ff-only",
        checked_out["command"].as_str().and_then(|it| it.rsplit(' ').next()).expect("it"),
    ]);
    fs::write(project.repository().join("more.txt"), "x").expect("a file");
    project.commit("work goes on");
    assert_eq!(land(1, &[])["already_landed"], true);
}

#[test]
fn files_that_make_tools_run_something_land_only_when_each_is_accepted() {
    let project = Project::new();
    project.git(&["branch", "other"]);
    let result = project.result(TOOLS, &[]);
    assert_eq!(result["worktree"]["changed_files"], json!([".vscode/tasks.json", "mise.toml", "ok.txt"]), "{result:#}");
    let asks = result["worktree"]["needs_acceptance"].as_array().expect("a list");
    let paths: Vec<&str> = asks.iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(paths, [".vscode/tasks.json", "mise.toml"]);
    assert!(asks.iter().all(|file| file["why"].as_str().is_some_and(|why| !why.is_empty())));
    let before = project.git(&["rev-parse", "other"]);
    let land = ["goal", "land", "last", "--into", "other", "--json"];
    let refused = project.run(&land).exits(3).json();
    assert_eq!(refused["error"]["code"], "needs_acceptance", "{refused}");
    assert_eq!(refused["error"]["details"].as_array().map(Vec::len), Some(2), "{refused}");
    // The same over the server's own surface.
    let call = ["call", "orchestrate_land", &format!("run_id={}", id(&result)), "into=other"];
    let refused = project.run(&call);
    assert!(
        refused.code != 0 && format!("{}{}", refused.stdout, refused.stderr).contains("needs_acceptance"),
        "{refused:#?}"
    );
    // And over MCP, in the answer to a host.
    let mut host = Host::start(project.command(&["mcp", "--toolsets", "goal"]));
    host.call(1, "orchestrate_land", json!({ "run_id": id(&result), "into": "other" }));
    let answer = host.next();
    let told = answer["result"].to_string();
    assert!(
        answer["result"]["isError"] == true && told.contains("needs_acceptance") && told.contains("mise.toml"),
        "{answer}"
    );
    drop(host);
    // One of them is not enough, and a branch that is checked out gets no command before.
    let refused = project.run(&[&land[..], &["--accept", ".vscode/"]].concat()).exits(3).json();
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("mise.toml") && !message.contains(".vscode"), "{message}");
    let details = refused["error"]["details"].as_array().expect("the files");
    assert_eq!(details.len(), 1, "what was accepted is not listed: {refused}");
    assert!(details[0].as_str().is_some_and(|line| line.starts_with("mise.toml: ")), "{refused}");
    assert_eq!(project.run(&["goal", "land", "--json"]).exits(3).json()["error"]["code"], "needs_acceptance");
    assert_eq!(project.git(&["rev-parse", "other"]), before);
    let accepted = [&land[..], &["--accept", ".vscode/tasks.json", "--accept", "mise.toml"]].concat();
    assert_eq!(project.run(&accepted).exits(0).json()["moved"], true);
    assert_eq!(project.run(&land).exits(1).json()["already_landed"], true);
}

#[test]
fn a_goal_that_a_guard_stopped_after_a_merge_lists_the_files_too() {
    let project = Project::new();
    let goal = "\
Add settings.
PLAN: [{\"id\":\"alpha\",\"description\":\"a\"},{\"id\":\"beta\",\"description\":\"b\",\"depends_on\":[\"alpha\"]}]
WORK alpha: echo '[env]' > mise.toml
WORK beta: true
";
    let result = project.result(goal, &["--max-agent-calls", "2"]);
    assert_eq!(result["status"], "stopped", "{result:#}");
    assert_eq!(result["worktree"]["needs_acceptance"][0]["path"], "mise.toml", "{result:#}");
}

#[test]
fn land_asks_on_a_terminal_about_files_that_make_tools_run_something() {
    let project = Project::new();
    project.git(&["branch", "other"]);
    project.result(TOOLS, &[]);
    let terminal = Terminal::open(&project.home, "160");
    terminal.type_line("cd repository; clear");
    let land = "drawloom --config ../drawloom.yaml goal land --into other";
    terminal.type_line(land);
    let screen = terminal.wait_until("the question", |screen| screen.contains("Land them? [y/N]"));
    assert!(screen.contains("mise.toml: ") && screen.contains(".vscode/tasks.json: "), "{screen}");
    terminal.type_line("n");
    terminal.wait_until("the end", |screen| screen.contains("nothing was landed"));
    terminal.type_line(&format!("clear; {land}"));
    terminal.wait_until("the question again", |screen| {
        screen.contains("Land them? [y/N]") && !screen.contains("nothing was landed")
    });
    terminal.type_line("y");
    terminal.wait_until("the landing", |screen| screen.contains("other moved from"));
}

#[test]
fn a_repository_that_leads_out_of_the_allowed_directories_is_refused() {
    let project = Project::new();
    let (allowed, outside) = (project.home.path().join("allowed"), project.repository());
    fs::create_dir_all(allowed.join("fake")).expect("made");
    fs::write(allowed.join("fake/.git"), format!("gitdir: {}\n", outside.join(".git").display())).expect("written");
    project.configure(|config| format!("{config}goals: {{ directories: [\"{}\"] }}\n", allowed.display()));
    let before = project.git(&["for-each-ref"]);
    let more = ["--criteria", "It is done.", "--json", "--backend", "script", "--cwd"];
    let cwd = allowed.join("fake");
    let all = [&["goal", "run", TWO], &more[..], &[cwd.to_str().expect("text")]].concat();
    let refused = project.run(&all).exits(2);
    assert!(
        format!("{}{}", refused.stdout, refused.stderr).contains("outside of the allowed directories"),
        "{refused:#?}"
    );
    assert_eq!(project.git(&["for-each-ref"]), before);
}
