//! Promises of the reference that other tests do not show, each in a test that names it. `docs/goal-loop.md` lists all of them with
//! the test that shows each.

use std::fs;

use serde_json::{Value, json};

use super::{Project, TWO};

fn events(project: &Project, run: &str) -> Vec<Value> {
    let tailed = project.home.run(&["goal", "tail", run, "--no-follow", "--json"]).exits(0);
    tailed.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn p1_control_flow_is_code_and_role_prompts_are_files_that_a_project_replaces() {
    let project = Project::new();
    let config = fs::read_to_string(project.home.path().join("drawloom.yaml")).expect("a config");
    project.home.write("drawloom.yaml", &format!("{config}goals: {{ prompts: prompts }}\n"));
    fs::create_dir(project.home.path().join("prompts")).expect("a directory");
    // The script knows its role by the usual words; with others it answers as for criteria, which is not JSON.
    project.home.write("prompts/reviewer.md", "Say whether it is good.");
    let result = project.result(TWO, &[]);
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!("bad_answer")), "{result:#}");
}

#[test]
fn p13_every_iteration_leaves_commits_on_the_branch_also_when_a_later_one_fails() {
    let project = Project::new();
    let goal = format!(
        "{TWO}PLAN2: nonsense\nSAY reviewer: {{\"quality_ok\":false,\"consistency_ok\":true,\"goal_aligned\":true,\"goal_complete\":false}}\n"
    );
    let result = project.result(&goal, &[]);
    assert_eq!((&result["status"], &result["iterations"]), (&json!("failed"), &json!(2)), "{result:#}");
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:alpha.txt")]), "alpha");
    assert_eq!(result["worktree"]["checkpoints"].as_array().map(Vec::len), Some(2), "{result:#}");
    assert_eq!(result["history"].as_array().map(Vec::len), Some(2));
}

#[test]
fn p14_and_p16_a_worker_that_fails_is_tried_again_in_its_directory_and_told_why() {
    let project = Project::new();
    let goal = "Write.\nPLAN: [\"write\"]\nWORK s1: echo half > half.txt; echo broken >&2; exit 3\nWORK s1 again: cat half.txt > whole.txt\n";
    let result = project.result(goal, &["--verify", "grep -q half whole.txt"]);
    assert_eq!(
        (&result["status"], &result["history"][0]["results"][0]["attempts"]),
        (&json!("completed"), &json!(2)),
        "{result:#}"
    );
    let run = result["run_id"].as_str().expect("an id");
    let failed = events(&project, run).into_iter().find(|event| event["kind"] == "subagent_failed").expect("an event");
    assert!(failed["data"]["error"].as_str().is_some_and(|text| text.contains("broken")), "{failed}");
}

#[test]
fn p15_a_template_has_its_prompt_on_stdin_and_no_placeholder_in_a_goal_is_expanded() {
    let project = Project::new();
    let goal = "Write {system} and {prompt}.\nPLAN: [\"write\"]\nWORK s1: echo '{system} {combined}' > braces.txt\n";
    let result = project.result(goal, &["--verify", "grep -qF '{system} {combined}' braces.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
}

#[test]
fn p21_the_raw_output_of_every_call_of_every_role_is_kept() {
    let project = Project::new();
    let result = project.result(TWO, &[]);
    let folder =
        result["run_dir"].as_str().expect("a folder").replace("<home>", &project.home.path().display().to_string());
    let mut names: Vec<String> = fs::read_dir(format!("{folder}/workers"))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".out"))
        .collect();
    names.sort();
    assert_eq!(names, ["i01-a1-001-alpha.out", "i01-a1-002-beta.out", "i01-decomposer-a1.out", "i01-reviewer-a1.out"]);
}

#[test]
fn p24_the_goal_comes_from_a_file_or_stdin_and_errors_exit_with_2() {
    let project = Project::new();
    project.home.write("goal.md", TWO);
    let file = project.home.path().join("goal.md");
    let config = project.home.path().join("drawloom.yaml");
    let arguments = [
        "--config",
        config.to_str().expect("text"),
        "goal",
        "run",
        "--goal-file",
        file.to_str().expect("text"),
        "--backend",
        "script",
        "--criteria",
        "x",
        "--no-cwd",
        "--json",
    ];
    assert_eq!(project.home.run(&arguments).exits(0).json()["completed"], true);
    let arguments = [
        "--config",
        config.to_str().expect("text"),
        "goal",
        "run",
        "-",
        "--backend",
        "script",
        "--criteria",
        "x",
        "--no-cwd",
        "--json",
    ];
    assert_eq!(project.home.run_with_input(&arguments, TWO).exits(0).json()["completed"], true);
    let arguments = [
        "--config",
        config.to_str().expect("text"),
        "goal",
        "run",
        TWO,
        "--backend",
        "claude_code",
        "--criteria",
        "x",
        "--no-cwd",
        "--json",
    ];
    let mut missing = project.home.command(&arguments);
    let missing = project.home.finish(missing.env("PATH", "/usr/bin:/bin")).exits(2).json();
    assert_eq!(missing["error"]["code"], "not_installed", "the cause is named: {missing:#}");
}

#[test]
fn p26_budgets_are_checked_before_every_call() {
    let project = Project::new();
    let result = project.result(TWO, &["--max-agent-calls", "2", "--no-cwd"]);
    assert_eq!((&result["status"], &result["agent_calls"]), (&json!("stopped"), &json!(2)), "{result:#}");
    assert_eq!(result["stop_reason"], "max_agent_calls (2) reached");
    let slow = "Wait.\nPLAN: [\"wait\"]\nWORK s1: sleep 100\n";
    let result = project.result(slow, &["--max-seconds", "3", "--retries", "0", "--no-cwd"]);
    assert_eq!(result["status"], "stopped", "a deadline ends what runs: {result:#}");
}

#[test]
fn p27_a_prompt_of_300_kilobytes_reaches_every_role() {
    let project = Project::new();
    let goal = format!("{TWO}{}\n", "a long line of background. ".repeat(9_000));
    project.home.write("long.md", &goal);
    let file = project.home.path().join("long.md");
    let config = project.home.path().join("drawloom.yaml");
    let arguments = [
        "--config",
        config.to_str().expect("text"),
        "goal",
        "run",
        "--goal-file",
        file.to_str().expect("text"),
        "--backend",
        "script",
        "--criteria",
        "x",
        "--no-cwd",
        "--json",
    ];
    assert_eq!(project.home.run(&arguments).exits(0).json()["completed"], true);
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
    for file in ["one.txt", "two.txt", "from-setup.txt"] {
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
