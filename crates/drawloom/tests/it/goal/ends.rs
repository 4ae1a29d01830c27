//! How goals end, and what is told of them: guards, servers that are gone, answers that are not clear, people who leave.

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::{Project, TWO, kills::server};
use crate::terminal::Terminal;

const THREE: &str = "\
Write three files.
PLAN: [{\"id\":\"a\",\"description\":\"a\"},{\"id\":\"b\",\"description\":\"b\"},{\"id\":\"c\",\"description\":\"c\",\"depends_on\":[\"a\"]}]
WORK a: echo a > a.txt
WORK b: echo b > b.txt
WORK c: echo c > c.txt
";

/// The data of the events of a kind.
fn events(project: &Project, result: &Value, kind: &str) -> Vec<Value> {
    let all = project.events(result["run_id"].as_str().expect("an id"));
    all.into_iter().filter(|event| event["kind"] == kind).map(|event| event["data"].clone()).collect()
}

#[test]
fn what_was_done_before_a_guard_stopped_the_goal_is_on_the_branch_and_in_the_result() {
    // Of two workers that start together, either may be the first.
    for (calls, done) in [("2", 1), ("3", 2), ("4", 3)] {
        let project = Project::new();
        project.git(&["branch", "other"]);
        let result = project.result(THREE, &["--max-agent-calls", calls]);
        assert_eq!(result["stop_reason"], format!("max_agent_calls ({calls}) reached"));
        let files = result["worktree"]["changed_files"].as_array().expect("a list");
        assert_eq!(files.len(), done, "{result:#}");
        let said = result["final_output"].as_str().unwrap_or_default();
        assert_eq!(said.matches("done with").count(), done, "{result:#}");
        let land = ["goal", "land", "last", "--unverified", "--into", "other", "--json"];
        assert_eq!(project.run(&land).exits(0).json()["landed"], true);
        let landed = project.git(&["diff", "--name-only", "main", "other"]);
        assert_eq!(landed.lines().collect::<Vec<_>>(), *files);
    }
}

#[test]
fn work_that_changes_protected_files_is_refused_and_everyone_is_told() {
    let project = Project::new();
    fs::create_dir(project.repository().join("tests")).expect("a directory");
    fs::write(project.repository().join("tests/t.sh"), "true\n").expect("a file");
    project.commit("a test");
    let goal = "\
Mend it.
PLAN: [{\"id\":\"mend\",\"description\":\"mend it\"}]
WORK mend: echo '# weaker' >> tests/t.sh; echo x > x.txt
WORK mend again: git checkout -q drawloom/i02-001-mend~1 -- tests 2> /dev/null || printf 'true\\n' > tests/t.sh
";
    let check = ["--verify", "sh tests/t.sh", "--protect", "./tests/**"];
    let result = project.result(goal, &check);
    assert_eq!((&result["status"], &result["iterations"]), (&json!("completed"), &json!(2)), "{result:#}");
    let refusal = "the protected path tests/t.sh was changed";
    let refused = &events(&project, &result, "verification")[0]["refusals"][0];
    assert!(refused.as_str().is_some_and(|text| text.starts_with(refusal)), "{refused}");
    let feedback = result["history"][0]["feedback"].as_str().unwrap_or_default();
    assert!(feedback.contains(refusal), "workers are told: {feedback}");
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:tests/t.sh")]), "true");
    let bad = project.goal(goal, &["--criteria", "x", "--verify", "true", "--protect", "../x"]).exits(2);
    assert!(bad.stderr.contains("invalid glob \"../x\""), "{}", bad.stderr);
}

#[test]
fn a_reviewer_with_two_different_verdicts_is_not_believed() {
    let project = Project::new();
    let yes = r#"{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true}"#;
    let goal = format!("{TWO}SAY reviewer: The form is {yes}. My verdict: {}\n", yes.replace("true", "false"));
    let result = project.result(&goal, &[]);
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!("bad_answer")), "{result:#}");
}

#[test]
fn files_that_are_not_committed_are_listed_and_those_that_would_be_lost_are_kept() {
    let project = Project::new();
    fs::write(project.repository().join(".gitignore"), "out-*\n").expect("a file");
    project.commit("ignore");
    let goal = "\
Write it.
PLAN: [{\"id\":\"write\",\"description\":\"write it\"}]
WORK write: echo x > out-one.txt; echo KEY=1 > .env.local; echo y > y.txt
";
    let result = project.result(goal, &[]);
    let left = &events(&project, &result, "checkpoint")[0]["left_out"];
    let expected =
        json!([{ "path": ".env.local", "reason": "secret name" }, { "path": "out-one.txt", "reason": "ignored" }]);
    assert_eq!(*left, expected);
    let kept = &events(&project, &result, "worktree_finished")[0]["reasons"][0];
    let reason = "i01-001-write: it has files that checkpoints leave out, such as .env.local";
    assert_eq!(kept, reason, "{result:#}");
}

#[test]
fn outside_of_a_repository_a_goal_that_changes_files_is_refused() {
    let project = Project::new();
    fs::create_dir(project.home.path().join("plain")).expect("a directory");
    let config = project.home.path().join("drawloom.yaml");
    let run = |more: &[&str]| {
        let all =
            ["--config", config.to_str().expect("text"), "goal", "run", TWO, "--backend", "script", "--criteria", "x"];
        let all: Vec<&str> = all.iter().chain(more).copied().collect();
        project.home.finish(project.home.command(&all).current_dir(project.home.path().join("plain")))
    };
    let refused = run(&[]).exits(2);
    assert!(refused.stderr.contains("is not in a git repository"), "{}", refused.stderr);
    run(&["--no-cwd"]).exits(0);
}

#[test]
fn a_goal_whose_server_was_killed_is_told_as_interrupted_and_continued_by_who_waits_for_it() {
    let project = Project::new();
    let goal = "\
Write it slowly.
PLAN: [{\"id\":\"slow\",\"description\":\"slow\"}]
WORK slow: sleep 2; echo slow > slow.txt
";
    let started = project.goal(goal, &["--criteria", "x", "--detach", "--json"]).exits(0).json();
    let run = started["run_id"].as_str().expect("an id");
    let running = project.run(&["goal", "result", run]).exits(1);
    assert!(running.stderr.contains("running in"), "not completed is not success: {running:#?}");
    let pid = server(&project).expect("a server");
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill starts").success());
    let status = project.run(&["goal", "status", &run[..12], "--json"]).exits(0).json();
    assert_eq!((&status["status"], &status["interrupted"]), (&json!("running"), &json!(true)), "{status:#}");
    let told = project.run(&["goal", "list"]).exits(0);
    assert!(told.stdout.contains("interrupted"), "{told:#?}");
    let result = project.run(&["goal", "result", run, "--wait", "--json"]).exits(0).json();
    assert_eq!(result["status"], "completed", "{result:#}");
    let unknown = project.run(&["goal", "status", "nope"]).exits(2);
    assert!(unknown.stderr.contains("no goal matches \"nope\""), "{}", unknown.stderr);
}

#[test]
fn a_person_who_is_asked_can_leave_with_ctrl_c() {
    let project = Project::new();
    let goal = format!("{TWO}SAY clarifier: [\"Which colour?\"]\n");
    project.home.write("goal.txt", &goal);
    let terminal = Terminal::open(&project.home, "120");
    terminal.type_line("cd repository");
    terminal.type_line(
        "drawloom -c ../drawloom.yaml goal run --goal-file ../goal.txt --backend script --criteria x; echo \"exit $?\"",
    );
    terminal.wait_until("the question", |screen| screen.contains("1. Which colour?") && screen.ends_with('>'));
    terminal.tmux(&["send-keys", "C-c"]);
    let screen = terminal.wait_until("an end", |screen| screen.contains("exit 1"));
    assert!(screen.contains("exit 130"), "{screen}");
    let list = project.run(&["goal", "list", "--json"]).exits(0).json();
    assert_eq!(list["runs"][0]["status"], "cancelled", "{list:#}");
}

#[test]
fn escapes_of_a_worker_do_not_reach_the_terminal() {
    let project = Project::new();
    let goal = "\
Say it.
PLAN: [{\"id\":\"say\",\"description\":\"say\"}]
WORK say: true
SAY worker: \u{1b}[2J\u{1b}]0;title\u{7}plain
";
    let told = project.goal(goal, &["--criteria", "x"]).exits(0);
    assert!(!told.stdout.contains('\u{1b}') && told.stdout.contains("plain"), "{told:#?}");
}

#[test]
fn questions_that_are_not_answered_keep_their_token() {
    let project = Project::new();
    let goal = format!("{TWO}SAY clarifier: [\"Which colour?\", \"Which size?\"]\n");
    let asked = project.goal(&goal, &["--ask", "--criteria", "x", "--json"]).exits(3).json();
    let token = asked["token"].as_str().expect("a token");
    for answers in [&[][..], &["--answer", "red"]] {
        let refused = project.run(&[&["goal", "resume", token], answers].concat()).exits(2);
        assert!(refused.stderr.contains("not answered: ") && refused.stderr.contains("Which size?"), "{refused:#?}");
    }
    project.run(&["goal", "resume", token, "--answer", "red", "--answer", ""]).exits(0);
}

#[test]
fn a_limit_that_a_backend_does_not_report_is_refused_before_anything_starts() {
    let project = Project::new();
    let refused = |backend: &str, limit: &str| {
        let arguments = ["goal", "run", "x", "--no-cwd", "--backend", backend, limit, "1", "--json"];
        project.home.finish(&mut project.command(&arguments)).exits(2).json()["error"].clone()
    };
    for (backend, limit, name) in [
        ("script", "--max-cost", "max_cost"),
        ("script", "--max-tokens", "max_tokens"),
        ("codex", "--max-cost", "max_cost"),
    ] {
        let error = refused(backend, limit);
        assert_eq!(error["code"], "unmetered_backend", "{error}");
        assert_eq!(error["message"], format!("{name} is set, and {backend} does not report what that limits"));
    }
    let listed = project.home.finish(&mut project.command(&["goal", "list", "--json"])).exits(0).stdout;
    assert!(!listed.contains("run_id"), "no goal was started: {listed}");
}
