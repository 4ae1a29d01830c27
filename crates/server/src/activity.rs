//! What runs do now, for people and for the answers about goals.

use drawloom_contract::{
    activity::{Activity, RunActivity},
    ids::RunId,
    money::Amount,
};
use drawloom_goal::worker_of;
use drawloom_wire::goals::GoalWorker;

use crate::app::App;

/// Runs that one text names.
const NAMED: usize = 8;

/// What the workers of a goal do now.
pub(crate) fn workers(app: &App, goal: RunId) -> Vec<GoalWorker> {
    app.runs.activity(goal).iter().map(|now| worker(now)).collect()
}

fn worker(now: &RunActivity) -> GoalWorker {
    let Activity { tool, detail, tokens, cost } = now.activity.clone();
    let worker = now.context.as_ref().and_then(worker_of).unwrap_or_default().to_owned();
    GoalWorker { worker, run_id: now.run, tool, detail, tokens, cost: cost.map(Amount) }
}

/// What runs of a tree do now, as the end of a sentence: `; alpha: Edit src/lib.rs, 12400 tokens, cost 0.08`. Empty when no call reports it.
pub(crate) fn in_words(app: &App, root: RunId) -> String {
    let now = app.runs.activity(root);
    let mut text: String = now.iter().take(NAMED).map(|now| one_in_words(now, root)).collect();
    if now.len() > NAMED {
        text += &format!("; {} more", now.len() - NAMED);
    }
    text
}

fn one_in_words(now: &RunActivity, root: RunId) -> String {
    let name = match now.context.as_ref().and_then(worker_of) {
        Some(worker) => format!("{worker}: "),
        None if now.run == root => String::new(),
        None => format!("{}: ", now.run),
    };
    let Activity { tokens, cost, .. } = now.activity;
    let head = Some(now.activity.head()).filter(|head| !head.is_empty());
    let tokens = (tokens > 0).then(|| format!("{tokens} tokens"));
    let cost = cost.filter(|cost| cost.0 > 0).map(|cost| format!("cost {:.2}", cost.units()));
    let parts: Vec<String> = head.into_iter().chain(tokens).chain(cost).collect();
    if parts.is_empty() { String::new() } else { format!("; {name}{}", parts.join(", ")) }
}
