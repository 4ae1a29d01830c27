//! `drawloom goal resume`: answers what a goal asks, or goes on from one that has ended.

use clap::Args;
use drawloom_contract::money::{Amount, Cost};
use drawloom_wire::goals::{GoalStatus, OrchestrateList, OrchestrateResume, OrchestrateStatus};

use super::{
    ask,
    read::Named,
    run::{Following, How},
};
use crate::{
    cli::Look,
    commands::{Session, agentloop::Shape},
    connect::{self, Connection, Execution, Need},
    exit::{CommandError, Exit},
    interrupts::{Interrupts, own_key},
};

/// What tokens of questions begin with.
const TOKEN: &str = "ask_";

/// How many goals are looked through for a token.
const MOST_SEARCHED: u32 = 200;

/// Answer what a goal asks, or go on from one that has ended
///
/// A goal that asks something goes on with the answers; on a terminal they are asked for. One that was stopped or cancelled, failed, or is
/// completed with something missing goes on as a new goal: with its task, base and branch, and with what is left of its limits, or more.
#[derive(Debug, Args)]
pub struct Resume {
    /// Goal: an id, the start of one, or `last`; or the token that came with questions
    #[arg(value_name = "GOAL", default_value = "last")]
    goal: String,
    /// Answer a question, in their order; can be repeated
    #[arg(long = "answer", value_name = "TEXT")]
    answers: Vec<String>,
    /// Success criteria in place of those that were proposed
    #[arg(long, value_name = "TEXT")]
    criteria: Option<String>,
    /// Do not approve the plan: the goal ends
    #[arg(long)]
    decline: bool,
    /// Tell planner and workers this first, for a goal that has ended
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
    /// Further iterations at most [default: what is left]
    #[arg(long, value_name = "COUNT")]
    max_iterations: Option<u32>,
    /// Further seconds at most [default: what is left]
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<u64>,
    /// Further calls of roles at most [default: what is left]
    #[arg(long, value_name = "COUNT")]
    max_agent_calls: Option<u32>,
    /// Further tokens at most [default: what is left]
    #[arg(long, value_name = "COUNT")]
    max_tokens: Option<u64>,
    /// Further cost at most [default: what is left]
    #[arg(long, value_name = "COST")]
    max_cost: Option<f64>,
    /// Print a line of JSON on stderr after every iteration
    #[arg(long)]
    progress: bool,
    /// Return at once; the goal continues in the server
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Resume {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let max_cost = self.max_cost.map(amount).transpose()?;
        let request = OrchestrateResume {
            answers: self.answers.clone(),
            success_criteria: self.criteria.clone(),
            approved: self.decline.then_some(false),
            say: self.say.clone(),
            max_iterations: self.max_iterations,
            max_seconds: self.max_seconds,
            max_agent_calls: self.max_agent_calls,
            max_tokens: self.max_tokens,
            max_cost,
            idempotency_key: Some(own_key()?),
            ..OrchestrateResume::default()
        };
        let asks = session.output.can_ask();
        let (progress, detach) = (self.progress, self.detach);
        let how = How { asks, answers: Vec::new(), progress, detach, shape: Shape::Usual };
        connect::ask_first(session).await?;
        let interrupts = Interrupts::listen();
        let work = async |connection: &Connection| {
            let request = self.completed(session, connection, request.clone()).await?;
            let resumed = connection.backend.call(&request).await?;
            if let Some(earlier) = resumed.continues {
                session.output.note(format!("goal {} goes on from {earlier}", resumed.run_id));
            }
            Following { session, connection, interrupts: &interrupts, run: resumed.run_id }.go(how).await
        };
        interrupts.connected(session, "goal resume", Need::Engine(self.execution), work).await
    }

    /// The request with the goal that is meant, and on a terminal with the answers of the person there.
    async fn completed(
        &self,
        session: &Session,
        connection: &Connection,
        request: OrchestrateResume,
    ) -> Result<OrchestrateResume, CommandError> {
        let is_answered = !self.answers.is_empty() || self.decline || !session.output.can_ask();
        let is_token = self.goal.starts_with(TOKEN);
        if is_token && is_answered {
            return Ok(OrchestrateResume { token: self.goal.clone(), ..request });
        }
        let status = match is_token {
            true => asking(connection, &self.goal).await?,
            false => {
                let run_id = Named::new(&self.goal).resolve(connection).await?;
                Some(connection.backend.call(&OrchestrateStatus { run_id }).await?)
            }
        };
        match status {
            Some(status) if status.token.is_some() && !is_answered => {
                let asked = ask::answer(session, &status).await?;
                Ok(OrchestrateResume {
                    token: asked.token,
                    answers: asked.answers,
                    approved: asked.approved,
                    success_criteria: request.success_criteria.clone().or(asked.success_criteria),
                    ..request
                })
            }
            Some(status) if !is_token => Ok(OrchestrateResume { run_id: Some(status.run_id), ..request }),
            _ => Ok(OrchestrateResume { token: self.goal.clone(), ..request }),
        }
    }
}

/// The goal that asks with this token.
async fn asking(connection: &Connection, token: &str) -> Result<Option<GoalStatus>, CommandError> {
    let ask = OrchestrateList { limit: Some(MOST_SEARCHED), before: None };
    let all = connection.backend.call(&ask).await?.runs;
    Ok(all.into_iter().find(|goal| goal.token.as_deref() == Some(token)))
}

fn amount(cost: f64) -> Result<Amount, CommandError> {
    Cost::from_units(cost)
        .map(Amount)
        .ok_or_else(|| CommandError::usage("bad_cost", format!("--max-cost must be a number from 0 up, not {cost}")))
}
