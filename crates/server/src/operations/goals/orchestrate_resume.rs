//! `orchestrate_resume`: answers what a goal asks, or goes on from one that has ended.

use std::sync::Arc;

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::{Digest, RunKey},
    runs::{Idempotency, Started},
};
use drawloom_goal::{Answers, CannotGoOn, More};
use drawloom_wire::{
    goals::{self, GoalResult},
    request::Request as _,
};

use crate::{
    goals::{Read, successor},
    operation::{Answer, Call, Card, Operation, Told},
    operations::goals::orchestrate::{answer, start},
};

pub(crate) struct OrchestrateResume;

impl Operation for OrchestrateResume {
    type Input = goals::OrchestrateResume;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Answer what a goal asks, or go on from one that has ended.", Scope::GoalsCreate)
            .toolset("goal")
            .told(Told::Goal)
            .advice(
                "Ask the user the questions first. A goal that asked goes on under the same run_id; one that had ended goes on as a new \
                 goal from its branch, with more budget (max_…) and what you say.",
            )
            .body_limit(512 * 1024)
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, mut input: Self::Input) -> Result<Answer<GoalResult>, Failure> {
        let detach = input.detach.take().unwrap_or(true);
        let idempotency = input.idempotency_key.take().map(|key| Idempotency {
            operation: Self::Input::NAME,
            key: successor::stored_key(&key),
            body: Digest::of(&serde_json::to_vec(&input).expect("requests have only text keys")),
        });
        let goals = &call.app.goals;
        let (token, run) = match (input.token.as_str(), input.run_id) {
            ("", Some(run)) => {
                let read = goals.read(call.app, call.caller, run).await?;
                match &read.asked {
                    Some(asked) => (asked.token.clone(), run),
                    None => {
                        let started = go_on(call, &read, &input, idempotency).await?;
                        return answer(call, started, detach).await;
                    }
                }
            }
            (token, None) if !token.is_empty() => {
                (token.to_owned(), goals.questions.goal_of(&call.caller.tenant, token).await?)
            }
            _ => {
                let message = "pass either the token of the questions or the run_id of the goal";
                return Err(Failure::new(FailureKind::Invalid, "bad_resume", message));
            }
        };
        // A token of another user's goal is as unknown as one that does not exist.
        let view = goals.find(call.app, call.caller, run).await?;
        let key = RunKey { tenant: view.tenant.clone(), run };
        let answers =
            Answers { answers: input.answers, success_criteria: input.success_criteria, approved: input.approved };
        goals.questions.answer(&key, &token, answers).await?;
        let started = Started { view: Arc::new(view), live: None };
        answer(call, started, detach).await
    }
}

/// The goal that goes on from one that has ended. There is one: a second request gets the same goal.
async fn go_on(
    call: &Call<'_>,
    read: &Read,
    input: &goals::OrchestrateResume,
    idempotency: Option<Idempotency>,
) -> Result<Started, Failure> {
    let run = read.view.run;
    let more = More {
        max_iterations: input.max_iterations,
        max_seconds: input.max_seconds,
        max_agent_calls: input.max_agent_calls,
        max_tokens: input.max_tokens,
        max_cost: input.max_cost.map(|amount| amount.0.0),
    };
    let goal = || read.story.continued(run, &more, input.say.as_deref()).map_err(|why| cannot(why, run));
    let is_repeat = match &idempotency {
        Some(key) => call.app.runs.find_keyed(call.caller, key.operation, &key.key).await?.is_some(),
        None => false,
    };
    if is_repeat {
        return start(call, &goal()?, idempotency).await;
    }
    let known = match read.continued_by {
        Some(known) if successor::exists(call, known).await? => return successor::attach(call, run, known).await,
        deleted => deleted,
    };
    let goal = goal()?;
    call.app.goals.host.check_continued(call.caller, &goal)?;
    successor::start(call, &read.view, &goal, idempotency, known).await
}

fn cannot(why: CannotGoOn, run: drawloom_contract::ids::RunId) -> Failure {
    let refuse = |code, message: String, hint: &str| Failure::new(FailureKind::Conflict, code, message).with_hint(hint);
    match why {
        CannotGoOn::NotEnded => refuse(
            "goal_running",
            format!("goal {run} has not ended, and it asks nothing"),
            "say something to it with orchestrate_say, or cancel it first",
        ),
        CannotGoOn::Completed => {
            refuse("goal_completed", format!("goal {run} is completed"), "say what is missing: `say` (`--say TEXT`)")
        }
        CannotGoOn::InPlace => refuse(
            "in_place",
            format!("the workers of goal {run} changed the user's checkout itself, which has their work"),
            "commit what is good, and start another goal",
        ),
        CannotGoOn::UsedUp(limit) => {
            let option = limit.replace('_', "-");
            refuse(
                "budget_used_up",
                format!("{limit} of goal {run} is used up"),
                &format!("for the new goal, pass {limit} (`--{option} MORE`)"),
            )
        }
    }
}
