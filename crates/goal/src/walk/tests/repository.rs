//! The loop with a repository: checkouts, checkpoints, merges, conflicts, verification, stagnation.

use std::collections::BTreeMap;

use drawloom_contract::record::Status;
use serde_json::{Value, json};

use super::simulation::{Answer, run};
use crate::{
    event::STAGNATED,
    request::{Cleanup, CommandLine, GoalInput, VerifyCommand, WorkspaceInput},
};

const ACCEPT: &str = r#"{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true}"#;

fn goal() -> GoalInput {
    let mut input = GoalInput { success_criteria: "It works.".into(), ..GoalInput::new("Mend it.", "claude_code") };
    input.workspace = Some(WorkspaceInput {
        directory: "/repo".into(),
        base: None,
        uncommitted: false,
        include: Vec::new(),
        cleanup: Cleanup::Auto,
        setup: None,
        isolate: true,
        continues: None,
    });
    let run = CommandLine::Shell("make test".into());
    input.verify.commands = vec![VerifyCommand { name: "make test".into(), run, timeout_seconds: None }];
    input
}

/// A repository whose commits are numbers and whose verification passes from the `green`th verification on.
#[derive(Default)]
struct Repository {
    commits: u32,
    verified: u32,
    green: u32,
    /// How often the merge of a checkout conflicts.
    conflicts: BTreeMap<String, u32>,
    /// Whether nothing ever changes.
    idle: bool,
    accepted: bool,
}

impl Repository {
    fn answer(&mut self, tool: &str, input: &Value) -> Answer {
        Answer::Text(match tool {
            "goal_prepare" => {
                json!({ "repository": "/repo", "base": "base", "branch": "drawloom/g", "path": "/checkouts/g" })
                    .to_string()
            }
            "goal_checkout" => {
                json!({ "directory": format!("/checkouts/g/{}", input["checkout"]["name"].as_str().expect("a name")) })
                    .to_string()
            }
            "goal_checkpoint" if self.idle => json!({ "commit": null }).to_string(),
            "goal_checkpoint" => {
                self.commits += 1;
                json!({ "commit": format!("c{}", self.commits), "changed": ["a.txt"] }).to_string()
            }
            "goal_merge" => {
                let message = input["merge"]["message"].as_str().expect("a message").to_owned();
                match self
                    .conflicts
                    .iter_mut()
                    .find(|(id, left)| message.contains(&format!("merge {id} ")) && **left > 0)
                {
                    Some((_, left)) => {
                        *left -= 1;
                        json!({ "merge": "conflict", "files": ["a.txt"], "output": "CONFLICT in a.txt" }).to_string()
                    }
                    None => {
                        self.commits += 1;
                        json!({ "merge": "merged", "commit": format!("m{}", self.commits) }).to_string()
                    }
                }
            }
            "goal_verify" => {
                self.verified += 1;
                let ok = self.verified >= self.green;
                let result = json!({ "name": "make test", "ok": ok, "exit_code": i32::from(!ok), "output": "test summary", "duration_ms": 1 });
                json!({ "tree": "t", "results": [result] }).to_string()
            }
            "goal_diff" => json!({
                "text": "+a line",
                "truncated": true,
                "files": ["a.txt", ".envrc"],
                "changes": [
                    { "path": "a.txt", "status": "type_changed", "bytes": 7 },
                    { "path": ".envrc", "status": "added", "bytes": 123_456 },
                ],
                "triggers": [{ "path": ".envrc", "why": "shells run it" }],
                "tree": input["diff"]["to"],
            })
            .to_string(),
            "goal_clean" => json!({ "kept": null }).to_string(),
            "goal_ask" => match input["role"].as_str().expect("a role") {
                "decomposer" => r#"[{"id":"a","description":"first"},{"id":"b","description":"second"}]"#.to_owned(),
                "subagent" => "done".to_owned(),
                _ if self.accepted => ACCEPT.to_owned(),
                _ => ACCEPT.replace("\"goal_complete\":true", "\"goal_complete\":false"),
            },
            other => panic!("unknown tool {other}"),
        })
    }
}

#[test]
fn workers_are_merged_in_the_order_of_the_plan_whatever_ends_first() {
    let heads = |next: fn(usize) -> usize| {
        let mut repository = Repository { green: 1, accepted: true, ..Repository::default() };
        let told = run(&goal(), 1, next, |tool, input| repository.answer(tool, input));
        assert_eq!(told.outcome.status, Status::Completed);
        let merges: Vec<Value> = told
            .calls
            .iter()
            .filter(|(tool, _)| tool == "goal_merge")
            .map(|(_, input)| input["merge"]["message"].clone())
            .collect();
        assert_eq!(merges, ["merge a of iteration 1", "merge b of iteration 1"]);
        let ask = |role: &str| told.calls.iter().find(|(_, input)| input["role"] == role).expect("a call").1.clone();
        assert_eq!(ask("decomposer")["mode"], "read_only");
        assert_eq!(
            (&ask("reviewer")["mode"], &ask("reviewer")["place"]["directory"]),
            (&json!("read_only"), &json!("/checkouts/g/view"))
        );
        let directory = ask("subagent")["place"]["directory"].as_str().expect("a directory").to_owned();
        assert!(["/checkouts/g/i01-001-a", "/checkouts/g/i01-002-b"].contains(&directory.as_str()), "{directory}");
        assert_eq!(ask("subagent")["mode"], "edit");
        told.kinds()
    };
    insta::assert_snapshot!(heads(|_| 0).join("\n"));
    heads(|open| open - 1);
}

#[test]
fn the_reviewer_sees_every_changed_file_with_its_size_and_the_result_what_must_be_accepted() {
    let mut repository = Repository { green: 1, accepted: true, ..Repository::default() };
    let told = run(&goal(), 1, |_| 0, |tool, input| repository.answer(tool, input));
    let prompt = told.prompts("reviewer")[0].to_owned();
    let list =
        "# Changed files since the beginning (2)\n\n- a.txt (type changed, 7 bytes)\n- .envrc (added, 123456 bytes)\n";
    assert!(prompt.contains(list), "{prompt}");
    assert!(prompt.contains("# Changed files that make tools of the user run something\n\n- .envrc: shells run it"));
    let result = told.story.result();
    assert_eq!(result["worktree"]["needs_acceptance"], json!([{ "path": ".envrc", "why": "shells run it" }]));
    assert!(!result["final_output"].as_str().expect("a text").contains("# Changed files"), "{result}");
}

#[test]
fn a_failing_verification_blocks_completion_and_its_output_is_feedback() {
    let mut repository = Repository { green: 2, accepted: true, ..Repository::default() };
    let told = run(&goal(), 1, |_| 0, |tool, input| repository.answer(tool, input));
    assert_eq!((told.outcome.status, told.story.iteration()), (Status::Completed, 2));
    assert!(told.prompts("decomposer")[1].contains("## Verification failures"), "{}", told.prompts("decomposer")[1]);
    assert!(told.prompts("subagent")[2].contains("test summary"));
    assert!(
        told.prompts("reviewer")[0].contains("`make test` FAILED (exit code 1)")
            && told.prompts("reviewer")[0].contains("+a line")
    );
    let head = told.story.head().expect("a head");
    assert!(head.0.starts_with('m') && head.1.expect("a verification").is_ok());
}

#[test]
fn a_conflict_goes_back_to_its_worker_and_then_it_is_a_failure() {
    let with = |times: u32| {
        let mut repository = Repository { green: 1, accepted: true, ..Repository::default() };
        repository.conflicts.insert("b".into(), times);
        run(&goal(), 1, |_| 0, |tool, input| repository.answer(tool, input))
    };
    let told = with(1);
    assert_eq!((told.outcome.status, told.story.iteration()), (Status::Completed, 1));
    let again = told.calls.iter().find(|(_, input)| input["label"] == "i01-c1-002-b").expect("a call");
    assert!(again.1["prompt"].as_str().expect("a prompt").contains("CONFLICT in a.txt"));
    let reset = told.calls.iter().find(|(_, input)| input["checkout"]["reset"] == true).expect("a reset");
    assert_eq!(reset.1["checkout"]["name"], "i01-002-b");
    let told = with(3);
    assert_eq!(told.story.iteration(), 2, "the first iteration is not done");
    assert!(told.prompts("decomposer")[1].contains("- b: its changes still conflict with those of others in a.txt"));
}

#[test]
fn a_goal_that_changes_nothing_any_more_is_stopped() {
    let mut repository = Repository { green: 100, idle: true, ..Repository::default() };
    let mut input = goal();
    input.budget.max_iterations = 50;
    let told = run(&input, 1, |_| 0, |tool, input| repository.answer(tool, input));
    let error = told.outcome.error.expect("a guard");
    assert_eq!((error.code.as_str(), told.story.iteration()), (STAGNATED, 3), "{error:?}");
    assert_eq!(told.story.result()["worktree"]["branch"], "drawloom/g");
}

#[test]
fn an_error_of_a_role_keeps_history_branch_and_checkpoints() {
    let mut repository = Repository { green: 1, ..Repository::default() };
    let told = run(
        &goal(),
        1,
        |_| 0,
        |tool, input| match input["key"].as_str() {
            Some(key) if key.starts_with("i2/decompose") => Answer::Failed("crashed"),
            _ => repository.answer(tool, input),
        },
    );
    let result = told.story.result();
    assert_eq!(told.outcome.error.expect("an error").code, "crashed");
    assert_eq!(result["worktree"]["checkpoints"], json!(["m4 merge b of iteration 1", "m3 merge a of iteration 1"]));
    assert_eq!(result["history"].as_array().map(Vec::len), Some(2));
    assert_eq!(result["error"]["code"], "crashed");
}

#[test]
fn a_directory_that_is_no_repository_is_refused_before_anything_is_paid() {
    let told = run(
        &goal(),
        1,
        |_| 0,
        |tool, _| match tool {
            "goal_prepare" => Answer::Error("/repo is not a git repository".into()),
            other => panic!("{other} was called"),
        },
    );
    let error = told.outcome.error.expect("an error");
    assert_eq!((error.code.as_str(), error.message.as_str()), ("workspace_failed", "/repo is not a git repository"));
}

#[test]
fn a_limit_of_the_disk_stops_the_goal_as_a_budget_does() {
    let mut repository = Repository { green: 1, ..Repository::default() };
    let told = run(
        &goal(),
        1,
        |_| 0,
        |tool, input| match tool {
            "goal_checkout" if input["checkout"]["read_only"] == false => {
                Answer::Error("disk limit: goal g uses 2 bytes on the disk; the quota is 1".into())
            }
            _ => repository.answer(tool, input),
        },
    );
    let error = told.outcome.error.expect("a guard");
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("budget_limited", "goal g uses 2 bytes on the disk; the quota is 1")
    );
}

#[test]
fn workers_that_share_the_directory_work_one_after_another() {
    let mut repository = Repository { green: 1, accepted: true, ..Repository::default() };
    let mut input = goal();
    input.workspace.as_mut().expect("a workspace").isolate = false;
    let told = run(&input, 1, |_| 0, |tool, input| repository.answer(tool, input));
    assert_eq!(told.outcome.status, Status::Completed);
    let begins: Vec<&str> = told
        .calls
        .iter()
        .filter(|(tool, input)| tool == "goal_checkout" && input["checkout"]["read_only"] == false)
        .map(|(_, input)| input["checkout"]["commit"].as_str().expect("a commit"))
        .collect();
    assert_eq!(begins, ["base", "m2"], "the second begins with the work of the first");
    let kinds: Vec<&str> =
        told.events.iter().map(|event| event.kind.as_str()).filter(|kind| kind.starts_with("subagent")).collect();
    assert_eq!(kinds, ["subagent_started", "subagent_finished", "subagent_started", "subagent_finished"]);
}

#[test]
fn what_a_worker_left_is_kept_when_a_guard_stops_the_goal_before_its_next_try() {
    let mut repository = Repository { green: 1, ..Repository::default() };
    let mut input = goal();
    input.budget.max_agent_calls = Some(3);
    let told = run(
        &input,
        1,
        |_| 0,
        |tool, input| match input["role"].as_str() {
            Some("subagent") => Answer::Failed("crashed"),
            _ => repository.answer(tool, input),
        },
    );
    assert_eq!(told.outcome.error.expect("a guard").message, "max_agent_calls (3) reached");
    let kept = told.calls.iter().filter(|(tool, _)| tool == "goal_checkpoint").count();
    assert_eq!(kept, 2, "both workers had one try");
}
