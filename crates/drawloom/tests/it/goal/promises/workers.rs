//! Backends, what they get, and the repository that they change.

use std::fs;

use drawloom_testkit::providers::{Asked, Provider, Reply, Settings, Shape};
use serde_json::json;

use super::{Project, TWO};

#[test]
fn p3_a_backend_is_an_entry_of_the_config_and_serves_any_role() {
    let project = Project::new();
    let state = project.add_cli("mine", "echo started >> STATE/starts\nexec CLI");
    let starts = || fs::read_to_string(state.join("starts")).unwrap_or_default().lines().count();
    let result = project.result(TWO, &["--planner", "mine", "--reviewer", "mine", "--no-cwd"]);
    assert_eq!((&result["status"], starts()), (&json!("completed"), 2), "{result:#}");
    let all = ["goal", "run", TWO, "--backend", "mine", "--criteria", "x", "--no-cwd", "--json"];
    let result = project.run(&all).json();
    assert_eq!((&result["status"], starts()), (&json!("completed"), 2 + 4), "{result:#}");
}

#[test]
fn p4_coding_clis_and_the_mock_are_backends_and_auto_is_the_cli_around() {
    let project = Project::new();
    let listed = project.run(&["goal", "backends", "--json"]).exits(0).json();
    let names: Vec<&str> =
        listed["backends"].as_array().expect("a list").iter().filter_map(|row| row["name"].as_str()).collect();
    for name in ["claude_code", "codex", "opencode", "aider", "mock", "script"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    // None of them is installed here, so the error says whom `auto` means.
    for (variable, program) in [("CLAUDECODE", "claude"), ("CODEX_RUN_ID", "codex")] {
        let mut command =
            project.command(&["goal", "run", TWO, "--backend", "auto", "--criteria", "x", "--no-cwd", "--json"]);
        for inherited in ["OPENCODE", "OPENCODE_RUN_ID", "CODEX_RUN_ID", "CODEX_SESSION_ID", "CLAUDECODE"] {
            command.env_remove(inherited);
        }
        let ran = project.home.finish(command.env(variable, "1").env("PATH", "/usr/bin:/bin")).exits(2).json();
        let told = (&ran["error"]["code"], ran["error"]["message"].as_str().unwrap_or_default());
        assert_eq!(told.0, "not_installed", "{ran:#}");
        assert!(told.1.contains(program), "{variable}: {ran:#}");
    }
}

/// What a model answers to each role.
fn answer(asked: &Asked) -> Reply {
    let text = asked.body.to_string();
    Reply::text(match () {
        () if text.contains("You are the planner") => "[\"write it\"]",
        () if text.contains("You are the reviewer") => {
            "{\"quality_ok\":true,\"consistency_ok\":true,\"goal_aligned\":true,\"goal_complete\":true}"
        }
        () => "It is written.",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn p7_an_agent_on_a_model_api_with_its_key_plans_works_and_reviews() {
    let settings = Settings::new(Shape::Anthropic).key("key-of-the-test");
    let provider = Provider::start(settings, |asked| answer(asked).into()).await.expect("a server on loopback");
    let project = Project::new();
    let url = provider.base_url();
    project.configure(|config| {
        format!(
            "{config}providers: {{ api: {{ driver: anthropic, api_key_env: ANTHROPIC_API_KEY, base_url: \"{url}\" }} }}\nagents: {{ writer: {{ provider: api, model: claude-test, tools: [], agents: [], hosts: [] }} }}\n"
        )
    });
    let arguments = ["goal", "run", "Write it", "--backend", "agent:writer", "--criteria", "x", "--no-cwd", "--json"];
    let mut command = project.command(&arguments);
    let result = project.home.finish(command.env("ANTHROPIC_API_KEY", "key-of-the-test")).json();
    assert_eq!((&result["status"], &result["agent_calls"]), (&json!("completed"), &json!(3)), "{result:#}");
    assert!(result["usage"]["output_tokens"].as_u64() > Some(0), "what the API counts is in the result: {result:#}");
    assert_eq!(provider.asked().len(), 3);
}

#[test]
fn p8_directory_permissions_timeout_and_verify_commands_reach_the_workers() {
    let project = Project::new();
    let goal = "Write.\nPLAN: [\"write\"]\nWORK s1: echo \"$ARGUMENTS\" > arguments.txt\n";
    let (repository, more) = (project.repository().display().to_string(), ["--skip-permissions", "--cwd"]);
    let arguments = [&more[..], &[&repository, "--verify", "grep -qx -- --bold arguments.txt"]].concat();
    let refused = project.result(goal, &arguments);
    assert_eq!(refused["error"]["code"], "no_such_mode", "{refused:#}");
    project.run(&["stop"]).exits(0);
    project.configure(|config| {
        config.replace("time_limit_seconds: 60", "time_limit_seconds: 60, skip_permissions_args: [--bold]")
    });
    assert_eq!(project.result(goal, &arguments)["status"], "completed");
    let slow = "Wait.\nPLAN: [\"wait\"]\nWORK s1: sleep 1000\n";
    let result = project.result(slow, &["--timeout", "1", "--retries", "0", "--max-iterations", "1"]);
    let error = result["history"][0]["results"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("had not finished after 1 s"), "{result:#}");
}

#[test]
fn p10_a_cli_gets_the_variables_of_its_own_login_and_none_of_others() {
    let project = Project::new();
    project.configure(|config| config.replace("time_limit_seconds: 60", "time_limit_seconds: 60, env: [SCRIPT_LOGIN]"));
    let goal = "Look.\nPLAN: [\"look\"]\nWORK s1: env | cut -d= -f1 > names.txt\n";
    let mut command = project.command(&["goal", "run", goal, "--backend", "script", "--criteria", "x", "--json"]);
    for name in ["SCRIPT_LOGIN", "CLAUDECODE", "MADE_UP_SECRET", "ANTHROPIC_API_KEY"] {
        command.env(name, format!("the value of {name}"));
    }
    let result = project.home.finish(&mut command).exits(0).json();
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    let names = project.git(&["show", &format!("{branch}:names.txt")]);
    let has = |name: &str| names.lines().any(|line| line == name);
    assert!(has("SCRIPT_LOGIN") && has("PATH") && has("DRAWLOOM_DEPTH"), "{names}");
    assert!(!has("CLAUDECODE") && !has("MADE_UP_SECRET") && !has("ANTHROPIC_API_KEY"), "{names}");
}

#[test]
fn p11_two_workers_are_merged_on_the_goals_branch_and_the_checkout_is_not_touched() {
    let project = Project::new();
    fs::write(project.repository().join("uncommitted.txt"), "mine").expect("a file");
    let before = project.fingerprint();
    let result = project.result(TWO, &["--verify", "test -f alpha.txt && test -f beta.txt"]);
    assert_eq!((&result["status"], &result["iterations"]), (&json!("completed"), &json!(1)), "{result:#}");
    assert_eq!(project.fingerprint(), before);
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:alpha.txt")]), "alpha");
    assert_eq!(project.git(&["show", &format!("{branch}:beta.txt")]), "beta");
    assert_eq!(result["worktree"]["changed_files"], json!(["alpha.txt", "beta.txt"]));
    assert_eq!(result["worktree"]["checkpoints"].as_array().map(Vec::len), Some(2), "{result:#}");
    let authors = project.git(&["log", "--format=%an", &format!("main..{branch}")]);
    assert!(authors.lines().all(|author| author == "drawloom"), "{authors}");
    // Only the branch and refs of ours are new.
    let refs = project.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(refs.lines().all(|name| name == "refs/heads/main" || name.contains("drawloom/")), "{refs}");
}

#[test]
fn p12_changes_are_listed_compared_committed_and_removed_and_no_work_makes_no_branch() {
    let project = Project::new();
    let result = project.result(TWO, &["--cleanup", "never"]);
    let run = result["run_id"].as_str().expect("an id");
    assert_eq!(result["worktree"]["changed_files"], json!(["alpha.txt", "beta.txt"]), "{result:#}");
    let diff = project.run(&["worktree", "diff", run]).exits(0).stdout;
    assert!(diff.contains("+alpha") && diff.contains("+beta"), "{diff}");
    let listed = || project.run(&["worktree", "list", "--json"]).exits(0).json()["worktrees"].take();
    let kept = listed();
    let mut checkouts = kept[0]["checkouts"].as_array().expect("a list").iter();
    let writer = checkouts.find(|checkout| checkout.get("read_only").is_none()).expect("a checkout of a worker");
    let home = project.home.path().display().to_string();
    let path = writer["path"].as_str().expect("a path").replace("<home>", &home);
    fs::write(format!("{path}/later.txt"), "by hand\n").expect("a writable checkout");
    let made = project.run(&["worktree", "commit", run, "--json"]).exits(0).json();
    let reference = made["commits"][0]["reference"].as_str().expect("a ref");
    assert_eq!(project.git(&["show", &format!("{reference}:later.txt")]), "by hand");
    project.run(&["worktree", "remove", run, "--yes"]).exits(0);
    assert_eq!(listed(), json!([]));
    let branches = || project.git(&["for-each-ref", "--format=%(refname)", "refs/heads/drawloom"]);
    let before = branches();
    assert_eq!(before.lines().count(), 1, "the branch stays");
    project.result("Nothing.\nPLAN: [\"nothing\"]\nWORK s1: true\n", &[]);
    assert_eq!(branches(), before, "no work, no branch");
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
fn w8_a_prompt_of_300_kilobytes_reaches_every_role() {
    let project = Project::new();
    project.home.write("long.md", &format!("{TWO}{}\n", "a long line of background. ".repeat(9_000)));
    let file = project.home.path().join("long.md").display().to_string();
    let arguments =
        ["goal", "run", "--goal-file", &file, "--backend", "script", "--criteria", "x", "--no-cwd", "--json"];
    assert_eq!(project.run(&arguments).exits(0).json()["completed"], true);
}
