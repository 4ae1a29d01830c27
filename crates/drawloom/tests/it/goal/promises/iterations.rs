//! The loop: plan, work, verify, review, feedback; retries and budgets.

use std::fs;

use serde_json::{Value, json};

use super::{Project, TWO};

#[test]
fn p1_control_flow_is_code_and_role_prompts_are_files_that_a_project_replaces() {
    let project = Project::new();
    project.configure(|config| format!("{config}goals: {{ prompts: prompts }}\n"));
    fs::create_dir(project.home.path().join("prompts")).expect("a directory");
    // The script knows its role by the usual words; with others it answers as for criteria, which is not JSON.
    project.home.write("prompts/reviewer.md", "Say whether it is good.");
    let result = project.result(TWO, &[]);
    assert_eq!((&result["status"], &result["error"]["code"]), (&json!("failed"), &json!("bad_answer")), "{result:#}");
}

#[test]
fn p2_plan_work_review_and_feedback_repeat_until_the_goal_is_met_or_a_guard_trips() {
    let project = Project::new();
    let mock = |more: &[&str]| {
        let run = ["goal", "run", "Write it", "--backend", "mock", "--criteria", "x", "--no-cwd", "--json"];
        project.run(&[&run[..], more].concat())
    };
    let result = mock(&[]).exits(0).json();
    let events = project.events(result["run_id"].as_str().expect("an id"));
    let steps = ["decomposed", "subagent_finished", "aggregated", "review", "iteration_finished", "run_finished"];
    let mut kinds: Vec<&str> =
        events.iter().filter_map(|event| event["kind"].as_str()).filter(|kind| steps.contains(kind)).collect();
    kinds.dedup();
    assert_eq!(kinds, [&steps[..5], &steps[..]].concat(), "two rounds, then the end");
    let told: Vec<&Value> = events.iter().filter(|event| event["kind"] == "iteration_finished").collect();
    assert!(told[0]["data"]["feedback"].as_str().is_some_and(|text| text.contains("another pass")), "{}", told[0]);
    assert_eq!((&told[0]["data"]["done"], &told[1]["data"]["done"]), (&json!(false), &json!(true)));
    let stopped = mock(&["--max-iterations", "1"]).exits(1).json();
    assert_eq!(stopped["stop_reason"], "max_iterations (1) reached");
}

#[test]
fn p9_a_failing_verifier_blocks_completion_even_when_the_reviewer_accepts() {
    let project = Project::new();
    let goal = TWO.replace("WORK beta: echo beta > beta.txt", "WORK beta: true\nWORK beta again: echo beta > beta.txt");
    let result = project.result(&goal, &["--verify", "echo checking; cat beta.txt"]);
    assert_eq!((&result["status"], &result["iterations"]), (&json!("completed"), &json!(2)), "{result:#}");
    let first = &result["history"][0];
    assert_eq!((&first["verification"][0]["ok"], &first["review"]["goal_complete"]), (&json!(false), &json!(true)));
    let feedback = first["feedback"].as_str().expect("feedback");
    assert!(feedback.contains("## Verification failures") && feedback.contains("beta.txt"), "{feedback}");
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
fn p14_a_worker_that_failed_continues_in_its_directory_and_is_told_why() {
    let project = Project::new();
    let goal = "Write.\nPLAN: [\"write\"]\nWORK s1: echo half > half.txt; echo broken >&2; exit 3\nWORK s1 again: cat half.txt > whole.txt\n";
    let result = project.result(goal, &["--verify", "grep -q half whole.txt"]);
    assert_eq!(
        (&result["status"], &result["history"][0]["results"][0]["attempts"]),
        (&json!("completed"), &json!(2)),
        "{result:#}"
    );
    let run = result["run_id"].as_str().expect("an id");
    let failed = project.events(run).into_iter().find(|event| event["kind"] == "subagent_failed").expect("an event");
    assert!(failed["data"]["error"].as_str().is_some_and(|text| text.contains("broken")), "{failed}");
}

#[test]
fn p16_a_planner_or_reviewer_that_fails_once_is_asked_again() {
    let project = Project::new();
    let fails_once = "[ -e STATE/failed ] && exec CLI\ntouch STATE/failed\necho broken >&2\nexit 9";
    let planner = project.add_cli("planner", fails_once);
    let reviewer = project.add_cli("reviewer", fails_once);
    let result = project.result(TWO, &["--planner", "planner", "--reviewer", "reviewer", "--no-cwd"]);
    assert_eq!((&result["status"], &result["agent_calls"]), (&json!("completed"), &json!(6)), "{result:#}");
    assert!(planner.join("failed").exists() && reviewer.join("failed").exists());
    let state = project.add_cli("counted", "echo started >> STATE/starts\nexec CLI");
    project.run(&["stop"]).exits(0);
    let result = project.result(
        "Write.\nPLAN: [\"write\"]\nWORK s1: exit 3\n",
        &["--worker", "counted", "--retries", "0", "--max-iterations", "1", "--no-cwd"],
    );
    let worker = &result["history"][0]["results"][0];
    assert_eq!((&worker["ok"], &worker["attempts"]), (&json!(false), &json!(1)), "{result:#}");
    let starts = fs::read_to_string(state.join("starts")).expect("the worker was started");
    assert_eq!(starts.lines().count(), 1, "no try that nobody counts");
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
fn p27_a_worker_that_keeps_failing_is_a_failed_result_that_the_reviewer_sees() {
    let project = Project::new();
    let accepts = "{\"quality_ok\":true,\"consistency_ok\":true,\"goal_aligned\":true,\"goal_complete\":true}";
    let seen = project.add_cli("judge", &format!("cat > STATE/prompt\necho '{accepts}'"));
    let goal = TWO.replace("echo beta > beta.txt", "echo trouble with beta >&2; exit 7");
    let result = project.result(&goal, &["--reviewer", "judge", "--retries", "0", "--max-iterations", "1"]);
    assert_eq!(result["status"], "stopped", "a reviewer who accepts is not enough: {result:#}");
    let results = &result["history"][0]["results"];
    assert_eq!((&results[0]["ok"], &results[1]["ok"]), (&json!(true), &json!(false)), "{result:#}");
    let prompt = fs::read_to_string(seen.join("prompt")).expect("the reviewer was asked");
    assert!(prompt.contains("trouble with beta"), "{prompt}");
}
