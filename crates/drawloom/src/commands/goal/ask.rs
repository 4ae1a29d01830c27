//! Questions of goals to the person at the terminal.

use std::io::BufRead as _;

use drawloom_contract::money::Cost;
use drawloom_wire::goals::{GoalStatus, OrchestrateResume};
use serde_json::Value;

use crate::{
    commands::Session,
    exit::{CommandError, Exit},
    output::Style,
};

/// One line of standard input, without its end. A thread reads it, so that a signal can end the command meanwhile; the thread ends with
/// the process.
pub(super) async fn line(session: &Session, prompt: &str) -> Result<String, CommandError> {
    session.output.prompt(prompt);
    let (done, read) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::stdin().lock().read_line(&mut text);
        let _ = done.send(read.map(|bytes| (bytes, text)));
    });
    let failed =
        |error: &dyn std::fmt::Display| CommandError::failed("no_answer", format!("cannot read the answer: {error}"));
    let (bytes, text) = read.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    match bytes {
        0 => Err(CommandError {
            exit: Exit::NeedsInput,
            ..CommandError::usage("no_answer", "standard input ended before the answer")
        }),
        _ => Ok(text.trim().to_owned()),
    }
}

/// The limits of a goal, in words.
fn limits(budget: &Value) -> String {
    let known = [
        ("max_iterations", "iterations"),
        ("max_seconds", "seconds"),
        ("max_agent_calls", "calls"),
        ("max_tokens", "tokens"),
    ];
    let mut texts: Vec<String> =
        known.iter().filter_map(|(name, unit)| Some(format!("{} {unit}", budget[name].as_u64()?))).collect();
    match budget["max_cost"].as_u64() {
        Some(cost) => texts.push(format!("cost {}", Cost(cost).units())),
        None => texts.push("no limit of cost".into()),
    }
    texts.join(", ")
}

/// What a plan would be carried out with, in lines: who works, what they may do, what must hold, and the limits.
fn terms(plan: &Value) -> Vec<String> {
    let list = |name: &str| plan[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let backend = |role: &str| {
        let backend = &plan["roles"][role];
        let name = backend["name"].as_str()?;
        Some(match backend["model"].as_str() {
            Some(model) => format!("{name} ({model})"),
            None => name.to_owned(),
        })
    };
    let mut lines = Vec::new();
    if let (Some(planner), Some(worker), Some(reviewer)) = (backend("planner"), backend("worker"), backend("reviewer"))
    {
        lines.push(match planner == worker && worker == reviewer {
            true => format!("backend:     {worker}"),
            false => format!("backends:    planner {planner}, workers {worker}, reviewer {reviewer}"),
        });
        let may = match (plan["skip_permissions"] == true, plan["in_place"] == true) {
            (true, _) => "workers use all their tools without asking, in checkouts of their own",
            (false, true) => "workers edit files of your checkout itself",
            (false, false) => "workers edit files in checkouts of their own",
        };
        lines.push(format!("permissions: {may}"));
        let or_none = |names: Vec<&str>| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        lines.push(format!("verify:      {}", or_none(list("verify"))));
        lines.push(format!("protect:     {}", or_none(list("protect"))));
    }
    lines.push(format!("limits:      {}", limits(&plan["budget"])));
    lines
}

/// Asks what a goal wants to know, and makes the request that answers it.
pub(super) async fn answer(session: &Session, goal: &GoalStatus) -> Result<OrchestrateResume, CommandError> {
    let asked = ask(session, goal).await;
    if let (Err(_), Some(token)) = (&asked, &goal.token) {
        session.output.note(format!("the goal waits; answer it later with: drawloom goal resume {token}"));
    }
    asked
}

async fn ask(session: &Session, goal: &GoalStatus) -> Result<OrchestrateResume, CommandError> {
    let output = &session.output;
    let token = goal.token.clone().unwrap_or_default();
    if let Some(plan) = &goal.plan {
        for line in terms(plan) {
            output.note(output.beside(Style::Dim, &line));
        }
        let answer = line(session, "Start the workers? [Y/n] ").await?;
        let approved = !matches!(answer.to_lowercase().as_str(), "n" | "no");
        return Ok(OrchestrateResume { token, approved: Some(approved), ..OrchestrateResume::default() });
    }
    let mut criteria = None;
    if let Some(proposed) = goal.success_criteria.as_deref().filter(|_| goal.confirms_criteria) {
        output.note(format!("{}\n{proposed}", output.beside(Style::Bold, "Proposed success criteria:")));
        if matches!(line(session, "Use them? [Y/n] ").await?.to_lowercase().as_str(), "n" | "no") {
            criteria = Some(line(session, "Success criteria> ").await?).filter(|text| !text.is_empty());
        }
    }
    let mut answers = Vec::new();
    for (index, question) in goal.questions.iter().enumerate() {
        output.note(format!("{}. {question}", index + 1));
        answers.push(line(session, "> ").await?);
    }
    Ok(OrchestrateResume { token, answers, success_criteria: criteria, ..OrchestrateResume::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_question_about_a_plan_names_who_works_and_what_must_hold() {
        let backend = |name: &str, model: Option<&str>| json!({ "name": name, "model": model });
        let mut plan = json!({
            "roles": {
                "planner": backend("codex", None),
                "worker": backend("claude_code", Some("opus")),
                "reviewer": backend("codex", None),
            },
            "skip_permissions": true,
            "in_place": false,
            "verify": ["npm test", "npm run lint"],
            "protect": ["test/**"],
            "budget": { "max_iterations": 4, "max_tokens": 1000 },
        });
        assert_eq!(
            terms(&plan),
            [
                "backends:    planner codex, workers claude_code (opus), reviewer codex",
                "permissions: workers use all their tools without asking, in checkouts of their own",
                "verify:      npm test, npm run lint",
                "protect:     test/**",
                "limits:      4 iterations, 1000 tokens, no limit of cost",
            ]
        );
        plan["roles"] = json!(null);
        assert_eq!(terms(&plan).len(), 1, "a goal of an earlier version tells only its limits");
    }
}
