//! Fields of runs that callers ask for by name: the prompt and the short id.

use drawloom_contract::{
    caller::Caller,
    failure::{Failure, FailureKind},
    view::RunView,
};
use drawloom_wire::runs::{Include, RunResult, short_id};

use crate::app::App;

/// The longest prompt in an answer, in bytes: more than a request can hold.
pub(crate) const WHOLE_PROMPT: usize = 16 * 1024 * 1024;

/// Adds which run retries each of `results`, which are those of `views` in the same order.
pub(crate) async fn add_retries(app: &App, views: &[RunView], results: &mut [RunResult]) -> Result<(), Failure> {
    // Only a run that has ended can be retried.
    if !views.iter().any(|view| view.status.is_terminal()) {
        return Ok(());
    }
    let retries = app.runs.retries(views).await?;
    for (view, result) in views.iter().zip(results) {
        result.retried_as = retries.get(&view.run).copied();
    }
    Ok(())
}

/// Adds what became of the run that each of `results` retries.
pub(crate) async fn add_notes(app: &App, caller: &Caller, result: &mut RunResult) -> Result<(), Failure> {
    let Some(first) = result.retry_of else { return Ok(()) };
    match app.runs.glance(caller, first).await {
        Ok(first) if first.parent.is_some() && result.parent_run_id.is_none() => result.notes.push(
            "the parent of the first attempt had gone on, so this retry has no parent, and the parent's answer stays as it is".to_owned(),
        ),
        Ok(_) => {}
        Err(failure) if failure.kind == FailureKind::NotFound => {
            result.notes.push(format!("the run that it retries, {first}, was deleted"));
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// Adds what `include` names to `results`, which are those of `views` in the same order.
pub(crate) async fn add(
    app: &App,
    views: &[RunView],
    results: &mut [RunResult],
    include: &[Include],
    prompt_bytes: usize,
) -> Result<(), Failure> {
    if include.is_empty() {
        return Ok(());
    }
    let now = app.clock.wall();
    let labels = app.runs.label(views, prompt_bytes).await?;
    for ((view, label), result) in views.iter().zip(labels).zip(results) {
        if include.contains(&Include::Prompt) {
            result.prompt = Some(label.prompt);
        }
        if include.contains(&Include::ShortId) {
            let age = u64::try_from(now.since(view.accepted_at).as_millis()).unwrap_or(u64::MAX);
            result.short_id = Some(short_id(&view.run.to_string(), label.digits, age));
        }
    }
    Ok(())
}
