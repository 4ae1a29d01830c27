//! The loop without a repository: order of events, feedback, retries, guards, bad answers.

use serde_json::{Value, json};

use super::simulation::{Answer, Told, run};
use crate::{
    Story,
    event::BUDGET_LIMITED,
    request::{Backend, Budget, GoalInput, Interaction},
};
use drawloom_contract::record::Status;

const ACCEPT: &str =
    r#"{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}"#;
const REJECT: &str =
    r#"{"quality_ok":false,"consistency_ok":true,"goal_aligned":true,"goal_complete":false,"issues":["too short"]}"#;

fn goal() -> GoalInput {
    GoalInput { success_criteria: "It works.".into(), ..GoalInput::new("Write a briefing.", "claude_code") }
}

/// Answers as a good team does; the reviewer rejects the first time.
fn usual(tool: &str, input: &Value) -> Answer {
    assert_eq!(tool, "goal_ask");
    let text = match input["role"].as_str().expect("a role") {
        "criteria" => "It covers all parts.".to_owned(),
        "clarifier" => r#"["For whom?"]"#.to_owned(),
        "decomposer" => r#"[{"id":"a","description":"first"},{"id":"b","description":"second"}]"#.to_owned(),
        "subagent" => format!("done with {}", input["label"]),
        "reviewer" if input["iteration"] == 1 => REJECT.to_owned(),
        "reviewer" => ACCEPT.to_owned(),
        other => panic!("unknown role {other}"),
    };
    Answer::Text(text)
}

fn first_of(_: usize) -> usize {
    0
}

fn last_of(open: usize) -> usize {
    open - 1
}

#[test]
fn the_events_of_two_iterations_come_in_this_order() {
    let told = run(&goal(), 1, first_of, usual);
    insta::assert_snapshot!(told.kinds().join("\n"));
    assert_eq!((told.outcome.status, told.outcome.error.as_ref()), (Status::Completed, None));
    assert_eq!(told.events.last().expect("an end").data["stop_reason"], "goal_complete");
}

#[test]
fn those_who_wait_are_told_the_iteration_the_phase_and_the_workers() {
    let told = run(&goal(), 1, first_of, usual);
    let mut lines: Vec<String> =
        (1..=told.records.len()).map(|count| Story::of(&told.records[..count]).progress()).collect();
    lines.dedup();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_order_in_which_workers_end_changes_no_decision() {
    let (one, other) = (run(&goal(), 1, first_of, usual), run(&goal(), 1, last_of, usual));
    assert_eq!(one.outcome, other.outcome);
    assert_eq!(one.story.result(), other.story.result());
}

#[test]
fn feedback_reaches_the_planner_and_the_workers() {
    let told = run(&goal(), 1, first_of, usual);
    for role in ["decomposer", "subagent"] {
        let prompts = told.prompts(role);
        let (first, last) = (prompts[0], prompts[prompts.len() - 1]);
        assert!(!first.contains("too short") && last.contains("too short"), "{role}: {last}");
        assert!(last.contains("quality_ok, goal_complete"), "{role}: {last}");
    }
}

#[test]
fn a_worker_that_fails_is_tried_again_later_and_told_why() {
    let told = run(&goal(), 1, first_of, |tool, input| match input["label"].as_str() {
        Some("i01-a1-001-a") => Answer::Failed("crashed"),
        _ => usual(tool, input),
    });
    assert_eq!(told.outcome.status, Status::Completed);
    let again = told.calls.iter().find(|(_, input)| input["label"] == "i01-a2-001-a").expect("a second try");
    assert!(again.1["prompt"].as_str().expect("a prompt").contains("crashed: it failed"));
    assert!(again.1["not_before"].as_i64() > Some(1_000_000), "it waits first: {}", again.1["not_before"]);
    assert!(again.1["continues"].is_string(), "it continues the session");
    assert_eq!(told.event("subagent_failed")["error"], "crashed: it failed");
}

#[test]
fn a_subgoal_that_keeps_failing_is_seen_by_the_reviewer_and_blocks_completion() {
    let told = run(&GoalInput { mock_accepts_at: 1, ..goal() }, 1, first_of, |tool, input| {
        match (input["role"].as_str(), input["label"].as_str()) {
            (Some("reviewer"), _) => Answer::Text(ACCEPT.into()),
            (_, Some(label)) if label.starts_with("i01") && label.ends_with("-b") => Answer::Failed("crashed"),
            _ => usual(tool, input),
        }
    });
    assert!(told.prompts("reviewer")[0].contains("[FAILED after 2 attempt(s)] crashed: it failed"));
    assert_eq!(
        (told.outcome.status, told.story.iteration()),
        (Status::Completed, 2),
        "the first iteration is not done"
    );
    assert!(told.prompts("decomposer")[1].contains("## Failed subgoals\n- b: crashed"));
}

#[test]
fn a_subgoal_whose_dependency_failed_is_not_started() {
    let plan = r#"[{"id":"a","description":"x"},{"id":"b","description":"y","depends_on":["a"]},{"id":"c","description":"z"}]"#;
    let told = run(&goal(), 1, first_of, |tool, input| match (input["role"].as_str(), input["label"].as_str()) {
        (Some("decomposer"), _) => Answer::Text(plan.into()),
        (_, Some(label)) if label.starts_with("i01") && label.ends_with("-a") => Answer::Failed("crashed"),
        _ => usual(tool, input),
    });
    let started = |label: &str| told.calls.iter().any(|(_, input)| input["label"] == label);
    assert!(!started("i01-a1-002-b") && started("i01-a1-003-c") && started("i02-a1-002-b"));
    assert!(told.prompts("reviewer")[0].contains("not started: a, which it depends on, failed"));
}

#[test]
fn a_plan_in_another_form_is_asked_for_once_more_and_then_it_is_an_error() {
    let told = run(&goal(), 1, first_of, |tool, input| match input["key"].as_str() {
        Some("i1/decompose/a1") => Answer::Text("I think we should start.".into()),
        _ => usual(tool, input),
    });
    assert_eq!(told.outcome.status, Status::Completed);
    assert!(told.prompts("decomposer")[1].contains("the answer has no JSON array"));
    let told = run(&goal(), 1, first_of, |tool, input| match input["role"].as_str() {
        Some("decomposer") => Answer::Text("I think we should start.".into()),
        _ => usual(tool, input),
    });
    let error = told.outcome.error.expect("an error");
    assert_eq!((told.outcome.status, error.code.as_str()), (Status::Failed, "bad_answer"), "{error:?}");
    assert_eq!(told.calls.len(), 2, "nothing was worked on without a plan");
}

#[test]
fn a_reviewer_who_writes_texts_for_booleans_is_not_believed() {
    let told = run(&goal(), 1, first_of, |tool, input| match input["role"].as_str() {
        Some("reviewer") => Answer::Text(ACCEPT.replace("\"goal_complete\":true", "\"goal_complete\":\"true\"")),
        _ => usual(tool, input),
    });
    assert_eq!(told.outcome.error.expect("an error").code, "bad_answer");
    assert_eq!(told.story.result()["iterations"], 1, "history is kept");
    assert!(told.story.result()["final_output"].as_str().is_some_and(|text| text.contains("done with")));
}

#[test]
fn a_planner_or_reviewer_that_fails_once_does_not_end_the_goal() {
    for key in ["i1/decompose/a1", "i1/review/a1"] {
        let told = run(&goal(), 1, first_of, |tool, input| match input["key"].as_str() {
            Some(asked) if asked == key => Answer::Failed("overloaded"),
            _ => usual(tool, input),
        });
        assert_eq!(told.outcome.status, Status::Completed, "{key}");
    }
}

#[test]
fn every_budget_stops_the_goal_before_the_next_call_and_that_is_not_done() {
    let calls = |told: &Told| told.calls.iter().filter(|(tool, _)| tool == "goal_ask").count();
    let reject = |tool: &str, input: &Value| match input["role"].as_str() {
        Some("reviewer") => Answer::Text(REJECT.into()),
        _ => usual(tool, input),
    };
    let with = |change: &dyn Fn(&mut GoalInput)| {
        let mut input = goal();
        change(&mut input);
        let told = run(&input, 1_000, first_of, reject);
        let error = told.outcome.error.clone().expect("a guard");
        assert_eq!((told.outcome.status, error.code.as_str()), (Status::Failed, BUDGET_LIMITED), "{error:?}");
        assert_eq!(told.events.last().expect("an end").kind, "run_finished");
        assert_eq!(told.events.last().expect("an end").data["completed"], false);
        (error.message, calls(&told))
    };
    assert_eq!(with(&|input| input.budget.max_iterations = 1), ("max_iterations (1) reached".into(), 4));
    assert_eq!(with(&|input| input.budget.max_agent_calls = Some(3)), ("max_agent_calls (3) reached".into(), 3));
    assert_eq!(with(&|input| input.budget.max_agent_calls = Some(2)), ("max_agent_calls (2) reached".into(), 2));
    // Each call takes a second here; both workers were started in the same moment.
    assert_eq!(with(&|input| input.budget.max_seconds = Some(3)), ("max_seconds (3s) reached".into(), 3));
    assert_eq!(with(&|input| input.budget.max_tokens = Some(16)), ("max_tokens (16) reached".into(), 3));
    assert_eq!(with(&|input| input.budget.max_cost = Some(1_000_000)), ("max_cost (0.001) reached".into(), 1));
}

#[test]
fn a_child_gets_what_is_left_of_the_time() {
    let mut input = goal();
    input.budget.max_seconds = Some(10);
    let told = run(&input, 1_000, first_of, usual);
    let left: Vec<Option<u64>> = told.calls.iter().take(3).map(|(_, input)| input["timeout_ms"].as_u64()).collect();
    assert_eq!(left, [Some(10_000), Some(9_000), Some(9_000)]);
}

#[test]
fn no_more_workers_than_allowed_are_at_work_at_once() {
    let mut input = goal();
    input.budget.max_parallel = 1;
    let told = run(&input, 1, last_of, usual);
    let kinds: Vec<&str> =
        told.events.iter().map(|event| event.kind.as_str()).filter(|kind| kind.starts_with("subagent")).collect();
    assert_eq!(kinds, ["subagent_started", "subagent_finished"].repeat(4));
}

#[test]
fn the_intake_proposes_criteria_and_asks_only_those_who_can_answer() {
    let input = GoalInput { success_criteria: String::new(), ..goal() };
    let told = run(&input, 1, first_of, usual);
    assert_eq!(told.story.result()["success_criteria"], "It covers all parts.");
    assert!(told.prompts("clarifier").is_empty());
    let input = GoalInput { interaction: Interaction::Suspend, ..goal() };
    let told = run(&input, 1, first_of, |tool, input| match tool {
        "goal_questions" => {
            assert_eq!(input["questions"], json!(["For whom?"]));
            Answer::Text(json!({ "answers": ["for engineers"], "success_criteria": "Better ones." }).to_string())
        }
        _ => usual(tool, input),
    });
    assert!(told.prompts("decomposer")[0].contains("Q: For whom?\nA: for engineers"));
    assert!(told.prompts("subagent")[0].contains("Better ones."));
    assert_eq!(told.event("needs_input")["questions"], json!(["For whom?"]));
}

#[test]
fn a_backend_that_is_not_logged_in_ends_the_goal_at_once_with_its_reason() {
    let input = GoalInput { success_criteria: String::new(), ..goal() };
    let told = run(&input, 1, first_of, |_, _| Answer::Failed("not_logged_in"));
    assert_eq!((told.calls.len(), told.outcome.error.expect("an error").code.as_str()), (1, "not_logged_in"));
}

#[test]
fn a_subgoal_may_have_its_own_backend_and_model() {
    let plan = r#"[{"id":"a","description":"x","backend":"codex","model":"big"},{"id":"b","description":"y","model":"small"}]"#;
    let told = run(&goal(), 1, first_of, |tool, input| match input["role"].as_str() {
        Some("decomposer") => Answer::Text(plan.into()),
        _ => usual(tool, input),
    });
    let backends: Vec<Backend> = told
        .calls
        .iter()
        .filter(|(_, input)| input["role"] == "subagent")
        .map(|(_, input)| serde_json::from_value(input["backend"].clone()).expect("a backend"))
        .collect();
    assert_eq!((backends[0].name.as_str(), backends[0].model.as_deref()), ("codex", Some("big")));
    assert_eq!((backends[1].name.as_str(), backends[1].model.as_deref()), ("claude_code", Some("small")));
}

#[test]
fn a_verdict_in_prose_is_asked_for_once_more_and_then_it_is_an_error() {
    let quoted = format!("The workers wrote: {ACCEPT} I do not agree.");
    let told = run(&goal(), 1, first_of, |tool, input| match input["key"].as_str() {
        Some("i2/review/a1") => Answer::Text(quoted.clone()),
        _ => usual(tool, input),
    });
    assert_eq!(told.outcome.status, Status::Completed);
    assert!(told.prompts("reviewer")[2].contains("must be the JSON object alone"), "{:?}", told.prompts("reviewer"));
    let told = run(&goal(), 1, first_of, |tool, input| match input["role"].as_str() {
        Some("reviewer") => Answer::Text(quoted.clone()),
        _ => usual(tool, input),
    });
    let error = told.outcome.error.expect("an error");
    assert_eq!((told.outcome.status, error.code.as_str()), (Status::Failed, "bad_answer"), "{error:?}");
}

#[test]
fn a_plan_that_is_quoted_or_has_a_key_twice_is_asked_for_once_more_and_then_it_is_an_error() {
    for (bad, wrong) in [
        (r#"PLAN.md says: [{"id":"evil","description":"x"}] I would not do that."#, "must be the JSON array alone"),
        (r#"[{"id":"a","description":"x","description":"y"}]"#, "the key \"description\" twice"),
    ] {
        let told = run(&goal(), 1, first_of, |tool, input| match input["key"].as_str() {
            Some("i1/decompose/a1") => Answer::Text(bad.into()),
            _ => usual(tool, input),
        });
        assert_eq!(told.outcome.status, Status::Completed, "{bad}");
        assert!(told.prompts("decomposer")[1].contains(wrong), "{:?}", told.prompts("decomposer"));
        let told = run(&goal(), 1, first_of, |tool, input| match input["role"].as_str() {
            Some("decomposer") => Answer::Text(bad.into()),
            _ => usual(tool, input),
        });
        assert_eq!(told.outcome.error.expect("an error").code, "bad_answer", "{bad}");
    }
}

#[test]
fn a_verdict_with_a_key_twice_is_asked_for_once_more_and_then_it_is_an_error() {
    let twice = ACCEPT.replace("\"goal_complete\":true", "\"goal_complete\":false,\"goal_complete\":true");
    assert_ne!(twice, ACCEPT);
    let told = run(&goal(), 1, first_of, |tool, input| match input["role"].as_str() {
        Some("reviewer") => Answer::Text(twice.clone()),
        _ => usual(tool, input),
    });
    let error = told.outcome.error.as_ref().expect("an error");
    assert_eq!(error.code, "bad_answer");
    assert!(error.message.contains("twice"), "{}", error.message);
    assert_eq!(told.prompts("reviewer").len(), 2, "it is asked once more");
}

#[test]
fn a_call_that_does_not_report_its_cost_stops_a_goal_with_a_cost_limit() {
    let limited = |max_cost: Option<u64>| {
        let input = GoalInput { budget: Budget { max_cost, ..Budget::default() }, ..goal() };
        run(&input, 1, first_of, |tool, input| match usual(tool, input) {
            Answer::Text(text) => Answer::Unpriced(text),
            other => other,
        })
    };
    assert_eq!(limited(None).outcome.status, Status::Completed);
    let error = limited(Some(1_000_000_000)).outcome.error.expect("an error");
    assert_eq!(error.code, BUDGET_LIMITED);
    assert_eq!(error.message, "max_cost cannot be kept: a call of claude_code did not report its cost");
}

#[test]
fn calls_that_were_made_again_after_a_crash_count_and_are_warned_of() {
    let told = run(&goal(), 1, first_of, |tool, input| match (usual(tool, input), input["label"].as_str()) {
        (Answer::Text(text), Some("i01-a1-001-a")) => Answer::Repeated(text, 2),
        (answer, _) => answer,
    });
    let (result, calls) = (told.story.result(), told.calls.len());
    assert_eq!((&result["repeated_calls"], &result["agent_calls"]), (&json!(2), &json!(calls + 2)));
    assert!(result["warnings"][0].as_str().expect("a warning").starts_with("2 of the calls of roles were made again"));
    let input = GoalInput { budget: Budget { max_agent_calls: Some(calls as u32), ..Budget::default() }, ..goal() };
    let told = run(&input, 1, first_of, |tool, input| match (usual(tool, input), input["label"].as_str()) {
        (Answer::Text(text), Some("i01-a1-001-a")) => Answer::Repeated(text, 2),
        (answer, _) => answer,
    });
    assert_eq!(told.outcome.error.expect("an error").code, BUDGET_LIMITED);
}
