//! What callers cannot do to goals beside their operations: start one as a plain run, delete one with things left behind, resume one twice,
//! or reach one from outside of their directories.

use std::{
    fs,
    fs::File,
    os::unix::fs::symlink,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{Project, TWO};
use crate::support::{Ran, Server};

/// The token of the principal `ann`.
const ANN: &str = "token-of-ann-0123456789abcdef";

const SHARED: &str = "token-of-all-0123456789abcdef";

/// A worker that does half of the work, so that the goal is stopped after one iteration.
const HALF: &str = "\
Write both halves.
PLAN: [{\"id\":\"alpha\",\"description\":\"write\"}]
WORK alpha: echo one > one.txt
";

const STOPS: [&str; 4] = ["--verify", "test -f two.txt", "--max-iterations", "1"];

fn id(result: &Value) -> &str {
    result["run_id"].as_str().expect("an id")
}

fn code(ran: &Ran) -> Value {
    ran.json()["error"]["code"].clone()
}

/// A server with a token, and the principal `ann` with these scopes.
fn serve(project: &Project, scopes: &str) -> Server {
    project.configure(|config| {
        format!("{config}principals: {{ ann: {{ subject: ann, scopes: [{scopes}], token_env: ANN }} }}\n")
    });
    project.run(&["trust", "--yes"]).exits(0);
    let mut command = project.command(&["serve", "--json", "--log", "error"]);
    command.env("DRAWLOOM_TOKEN", SHARED).env("ANN", ANN);
    project.home.serve_with(command)
}

/// A command that a server performs for the holder of a token.
fn as_holder(project: &Project, server: &Server, token: &str, arguments: &[&str]) -> Command {
    let mut command = project.home.command(&["--url", &server.url]);
    command.args(arguments).env("DRAWLOOM_TOKEN", token);
    command
}

fn ask(project: &Project, server: &Server, token: &str, arguments: &[&str]) -> Ran {
    project.home.finish(&mut as_holder(project, server, token, arguments))
}

#[test]
fn agents_of_drawloom_itself_start_only_through_their_operations() {
    let project = Project::new();
    project.configure(|config| {
        format!(
            "{config}providers:\n  fake:\n    driver: script\n    options:\n      rules:\n\
             \x20       - {{ when: {{ contains: many, turn: 1 }}, calls: [{{ tool: Agent, input: {{ op: parallel_spawn, spawns: [{{ name: drawloom/goal, prompt: x }}, {{ name: drawloom/mock, prompt: x }}] }} }}] }}\n\
             \x20       - {{ when: {{ turn: 1 }}, calls: [{{ tool: Agent, input: {{ name: drawloom/goal, prompt: x }} }}] }}\n\
             \x20       - text: \"{{{{last}}}}\"\n\
             defaults: {{ provider: fake, model: test }}\n\
             agents: {{ lead: {{ tools: [Agent], agents: [\"*\"], hosts: [] }} }}\n"
        )
    });
    let server = serve(&project, "\"runs:create\", \"runs:read\"");
    let call = |arguments: &[&str]| ask(&project, &server, ANN, &[&["call"], arguments].concat());
    for agent in ["drawloom/goal", "drawloom/mock", "drawloom/script", "drawloom/model", "drawloom/unknown"] {
        let spawned = call(&["spawn_run", &format!("agent={agent}"), "prompt=x"]);
        assert_eq!(code(&spawned), "reserved_agent", "{agent}: {spawned:?}");
    }
    for strict in ["false", "true"] {
        let spawns = "spawns=[{\"agent\":\"lead\",\"prompt\":\"x\"},{\"agent\":\"drawloom/goal\",\"prompt\":\"x\"}]";
        let spawned = call(&["spawn_runs", spawns, &format!("strict={strict}")]);
        assert_eq!(code(&spawned), "reserved_agent", "{spawned:?}");
    }
    for prompt in ["prompt=one", "prompt=many"] {
        let lead = call(&["spawn_run", "agent=lead", prompt]).exits(0).json();
        let text = lead["final_text"].as_str().unwrap_or_default();
        assert!(text.contains("not allowed to spawn"), "{lead:#}");
    }
    let listed = ask(&project, &server, SHARED, &["runs", "list", "--json"]).exits(0).json();
    let agents: Vec<&Value> = listed["runs"].as_array().expect("runs").iter().map(|run| &run["agent"]).collect();
    assert_eq!(agents, ["lead", "lead"], "{listed:#}");
    let goals = ask(&project, &server, SHARED, &["goal", "list", "--json"]).exits(0).json();
    assert_eq!(goals["runs"], json!([]));
}

#[test]
fn the_run_of_a_goal_is_deleted_only_after_everything_else_of_the_goal() {
    let project = Project::new();
    let before = project.git(&["for-each-ref"]);
    let goal = project.result(TWO, &["--cleanup", "never"]);
    let refused = project.run(&["runs", "rm", id(&goal), "--yes", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "run_of_goal", "{refused}");
    assert!(refused["error"]["hint"].as_str().is_some_and(|hint| hint.contains("drawloom goal rm")), "{refused}");
    let pruned = project.run(&["prune", "--older-than", "0m", "--yes", "--json"]).exits(0).json();
    assert_eq!(pruned["trees"], 0, "{pruned}");
    assert!(project.folder(&goal).is_dir());
    project.run(&["goal", "rm", id(&goal), "--yes"]).exits(0);
    assert_eq!(project.git(&["for-each-ref"]), before);
    // A removed goal is listed no more and is not `last`; its run tells its cost until it is deleted.
    assert_eq!(project.run(&["goal", "list", "--json"]).exits(0).json()["runs"], json!([]));
    let last = project.run(&["goal", "rm", "last", "--yes", "--json"]).exits(2);
    assert_eq!(last.json()["error"]["code"], "no_goals");
    assert_eq!(project.run(&["goal", "status", id(&goal), "--json"]).exits(0).json()["removed"], true);
    project.run(&["runs", "rm", id(&goal), "--yes", "--json"]).exits(0);
    let goals = project.run(&["goal", "list", "--json"]).exits(0).json();
    assert_eq!(goals["runs"], json!([]));
}

#[test]
fn an_ended_goal_is_resumed_once_however_many_ask_at_the_same_time() {
    let project = Project::new();
    // While `hold` exists, its workers wait until they are cancelled.
    let slow = project.add_cli("slow", "test ! -e STATE/hold || cat STATE/gate > /dev/null\nCLI");
    assert!(Command::new("mkfifo").arg(slow.join("gate")).status().expect("mkfifo").success());
    let first = project.result(HALF, &[&STOPS[..], &["--worker", "slow"]].concat());
    assert_eq!(first["status"], "stopped", "{first:#}");
    fs::write(slow.join("hold"), "").expect("a file");
    let resume = |more: &str| -> Child {
        let mut command = project.command(&["call", "orchestrate_resume", &format!("run_id={}", id(&first))]);
        command.arg(format!("max_iterations={more}")).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let asked: Vec<Child> = ["1", "2", "1", "3"].map(resume).into();
    let answers: Vec<Value> = asked
        .into_iter()
        .map(|child| Ran::of(child.wait_with_output().expect("it ends"), project.home.path()).exits(0).json())
        .collect();
    let second = id(&answers[0]);
    assert!(answers.iter().all(|answer| id(answer) == second), "{answers:#?}");
    let goals = || project.run(&["goal", "list", "--json"]).exits(0).json()["runs"].as_array().expect("goals").len();
    assert_eq!(goals(), 2);

    // After a restart it is known all the same.
    project.run(&["stop"]).exits(0);
    let again = project.run(&["goal", "resume", id(&first), "--max-iterations", "1", "--detach", "--json"]).exits(0);
    assert_eq!(id(&again.json()), second);
    project.run(&["goal", "cancel", second]).exits(0);
    let ended = project.run(&["goal", "resume", id(&first), "--max-iterations", "1", "--json"]).exits(2).json();
    assert_eq!(ended["error"]["code"], "goal_continued", "{ended}");
    assert!(ended["error"]["hint"].as_str().is_some_and(|hint| hint.contains(second)), "{ended}");
    assert_eq!(goals(), 2);
    // Once the successor is removed, the goal can go on again.
    project.run(&["goal", "rm", second, "--yes"]).exits(0);
    let more = ["goal", "resume", id(&first), "--max-iterations", "1", "--detach", "--json"];
    let third = project.run(&more).exits(0).json();
    assert_ne!(id(&third), second);
    project.run(&["goal", "cancel", id(&third)]).exits(0);
}

#[test]
fn a_resumed_goal_gets_no_limit_that_its_backends_do_not_report() {
    let project = Project::new();
    let first = project.result(HALF, &STOPS);
    assert_eq!(first["status"], "stopped", "{first:#}");
    for limit in ["--max-cost", "--max-tokens"] {
        let refused = project.run(&["goal", "resume", id(&first), "--max-iterations", "1", limit, "1", "--json"]);
        assert_eq!(code(&refused), "unmetered_backend", "{refused:?}");
    }
    let goals = project.run(&["goal", "list", "--json"]).exits(0).json();
    assert_eq!(goals["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_principal_reaches_no_goal_outside_of_the_listed_directories() {
    let project = Project::new();
    let slow = project.add_cli("slow", "cat STATE/gate > /dev/null\nCLI");
    let gate = slow.join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    let server = serve(&project, "\"runs:read\", \"runs:read:all\", \"runs:create\", \"goals:create\"");
    let repository = project.repository();
    let cwd = repository.to_str().expect("text");
    let run = |worker: &str, more: &[&str]| {
        let all = ["goal", "run", TWO, "--backend", "script", "--worker", worker, "--criteria", "Done.", "--cwd", cwd];
        ask(&project, &server, SHARED, &[&all[..], &["--json"], more].concat()).json()
    };
    let (ended, working) = (run("script", &[]), run("slow", &["--detach"]));
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let open = File::options().write(true).open(&gate).expect("the workers");
    let refs = project.git(&["for-each-ref"]);
    let of = |goal: &Value| format!("run_id={}", id(goal));
    for arguments in [
        ["orchestrate_land", &of(&ended), "into=landed"],
        ["orchestrate_rm", &of(&ended), ""],
        ["orchestrate_say", &of(&working), "text=Hello."],
        ["commit_worktree", &of(&ended), ""],
        ["remove_worktree", &of(&ended), ""],
    ] {
        let arguments: Vec<&str> = ["call"].into_iter().chain(arguments).filter(|word| !word.is_empty()).collect();
        let refused = ask(&project, &server, ANN, &arguments);
        assert_eq!(code(&refused), "cwd_denied", "{arguments:?}: {refused:?}");
    }
    assert_eq!(project.git(&["for-each-ref"]), refs);
    assert!(project.folder(&ended).is_dir());
    drop(open);
    ask(&project, &server, SHARED, &["goal", "cancel", id(&working)]).exits(0);
}

#[test]
fn a_goal_whose_repository_is_gone_or_replaced_hides_no_other_and_can_be_removed() {
    let project = Project::new();
    let other = project.home.path().join("other");
    let clone = |from: &str, to: &std::path::Path| {
        let cloned = Command::new("git").args(["clone", "-q", from]).arg(to).status().expect("git starts");
        assert!(cloned.success());
    };
    clone(project.repository().to_str().expect("text"), &other);
    let kept = project.result(TWO, &["--cleanup", "never"]);
    let lost = project.result(TWO, &["--cleanup", "never", "--cwd", other.to_str().expect("text")]);
    let listed = || project.run(&["worktree", "list", "--json"]).exits(0).json()["worktrees"].take();
    let aside = project.home.path().join("aside");
    let problem_of = |listed: &Value, goal: &Value| {
        let all = listed.as_array().expect("a list");
        let found = all.iter().find(|worktree| worktree["run_id"] == goal["run_id"]).expect("it is listed");
        found["problem"].clone()
    };

    // A link in its place.
    fs::rename(&other, &aside).expect("moved");
    symlink(&aside, &other).expect("a link");
    let refs = || {
        let git = Command::new("git").args(["for-each-ref"]).current_dir(&aside).output().expect("git starts");
        String::from_utf8(git.stdout).expect("text")
    };
    let before = refs();
    let all = listed();
    assert_eq!(problem_of(&all, &kept), Value::Null, "{all:#}");
    assert!(problem_of(&all, &lost).as_str().is_some_and(|problem| problem.contains("link")), "{all:#}");
    let shown = project.run(&["worktree", "list"]).exits(0).stdout;
    assert!(shown.contains(id(&kept)) && shown.contains("a part of its path is a link now"), "{shown}");

    // Nothing in its place.
    fs::remove_file(&other).expect("a link of ours");
    assert!(problem_of(&listed(), &lost).is_string());
    let removed = project.run(&["goal", "rm", id(&lost), "--yes", "--json"]).exits(0).json();
    let left = removed["left"].as_str().expect("what is left");
    let branch = lost["worktree"]["branch"].as_str().expect("a branch");
    assert!(left.contains(branch) && left.contains("may be left"), "{removed:#}");
    assert_eq!(refs(), before, "nothing of another directory was changed");
    assert!(!project.folder(&lost).exists());
    assert_eq!(listed().as_array().map(Vec::len), Some(1));
    project.run(&["runs", "rm", id(&lost), "--yes"]).exits(0);

    // The second repository is replaced by a symbolic link; its goal is removed while the link is there.
    fs::rename(project.repository(), project.home.path().join("moved")).expect("moved");
    fs::create_dir(project.repository()).expect("another directory");
    let removed = project.run(&["goal", "rm", id(&kept), "--yes", "--json"]).exits(0).json();
    assert!(removed["left"].is_string() && removed["refs"] == 0, "{removed:#}");
    assert!(!project.folder(&kept).exists());
}
