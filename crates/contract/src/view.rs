//! A run as lists and results show it: the row that the store derives from records, in their transaction.

use serde_json::Value;

use crate::{
    choice::ModelName,
    failure::RunError,
    ids::{AgentId, AgentName, Digest, RunId, RunKey, SessionId, Tenant, UserId},
    money::Cost,
    record::{Accepted, BatchPlace, Body, Parent, Record, Retry, Seq, Status, StopReason},
    time::Timestamp,
    usage::Usage,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    pub tenant: Tenant,
    pub run: RunId,
    pub session: SessionId,
    pub agent_id: AgentId,
    pub agent: AgentName,
    pub definition: Digest,
    pub user: UserId,
    pub provider: String,
    pub model: String,
    pub parent: Option<Parent>,
    pub root: RunId,
    pub depth: u32,
    pub batch: Option<BatchPlace>,
    pub retry: Option<Retry>,
    pub parent_context: Option<Value>,
    pub status: Status,
    pub seq: Seq,
    pub accepted_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub queue_timeout_ms: Option<u64>,
    pub stop_reason: Option<StopReason>,
    /// The last turn's text, or the result that the executor gave.
    pub final_text: Option<String>,
    pub error: Option<RunError>,
    pub usage: Usage,
    pub cost: Option<Cost>,
    /// How much of the cost is assumed: reserved, because it is not known. Nothing, when all of the usage is known.
    pub assumed: Option<Cost>,
    pub warnings: Vec<String>,
    pub strikes: u32,
}

/// What some records of a run change in its row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    pub seq: Seq,
    pub status: Option<Status>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub stop_reason: Option<StopReason>,
    pub final_text: Option<String>,
    pub error: Option<RunError>,
    pub usage: Usage,
    pub cost: Option<Cost>,
    pub assumed: Option<Cost>,
    pub model: Option<ModelName>,
    /// Warnings, all of them, when the run ended.
    pub warnings: Option<Vec<String>>,
    pub strikes: Option<u32>,
}

impl Patch {
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut patch = Self::default();
        for record in records {
            patch.seq = record.seq;
            match &record.body {
                Body::Accepted(_) => patch.status = Some(Status::Queued),
                Body::Admitted { deadline, .. } => {
                    patch.status = Some(Status::Running);
                    patch.started_at = patch.started_at.or(Some(record.at));
                    patch.deadline = *deadline;
                }
                Body::TurnDone(done) => {
                    patch.final_text = Some(done.text.clone());
                    patch.strikes = Some(0);
                }
                Body::Usage { usage, cost, assumed, .. } => {
                    patch.usage += *usage;
                    patch.cost = add(patch.cost, *cost);
                    patch.assumed = add(patch.assumed, assumed.then(|| cost.unwrap_or_default()));
                }
                Body::Switched(switched) => patch.model = Some(switched.to.clone()),
                Body::CallDone(done) => {
                    patch.usage += done.usage;
                    patch.cost = add(patch.cost, done.cost);
                    patch.assumed = add(patch.assumed, done.cost.filter(|_| done.in_doubt));
                    patch.strikes = Some(0);
                }
                Body::TurnFailed(_) | Body::CallWaiting { .. } => patch.strikes = Some(0),
                Body::Parked { .. } => {
                    patch.status = Some(Status::Waiting);
                    patch.strikes = Some(0);
                }
                Body::Resumed(resumed) => patch.strikes = Some(resumed.strikes),
                Body::Finished(outcome) => {
                    patch.status = Some(outcome.status);
                    patch.ended_at = Some(record.at);
                    patch.stop_reason = outcome.stop_reason;
                    patch.error.clone_from(&outcome.error);
                    patch.final_text = outcome.final_text.clone().or(patch.final_text);
                    patch.warnings = Some(outcome.warnings.clone());
                }
                // A parked run that is to end is taken up for that, also by the next process.
                Body::StopRequested(_) => patch.status = Some(Status::Running),
                Body::TurnStarted(_)
                | Body::CallStarted(_)
                | Body::LimitReached { .. }
                | Body::Notice { .. }
                | Body::Note { .. } => {}
            }
        }
        patch
    }
}

impl RunView {
    pub fn accepted(accepted: &Accepted, at: Timestamp) -> Self {
        Self {
            tenant: accepted.tenant.clone(),
            run: accepted.run,
            session: accepted.session,
            agent_id: accepted.agent_id.clone(),
            agent: accepted.agent.clone(),
            definition: accepted.definition,
            user: accepted.user.clone(),
            provider: accepted.provider.clone(),
            model: accepted.model.clone(),
            parent: accepted.parent.clone(),
            root: accepted.root,
            depth: accepted.depth,
            batch: accepted.batch,
            retry: accepted.retry,
            parent_context: accepted.parent_context.clone(),
            status: Status::Queued,
            seq: 1,
            accepted_at: at,
            started_at: None,
            ended_at: None,
            deadline: accepted.deadline,
            queue_timeout_ms: accepted.queue_timeout_ms,
            stop_reason: None,
            final_text: None,
            error: None,
            usage: Usage::default(),
            cost: None,
            assumed: None,
            warnings: accepted.warnings.clone(),
            strikes: 0,
        }
    }

    /// The row after `patch`, as the store's update leaves it.
    pub fn apply(&mut self, patch: Patch) {
        self.seq = patch.seq;
        self.status = patch.status.unwrap_or(self.status);
        self.started_at = self.started_at.or(patch.started_at);
        self.ended_at = patch.ended_at.or(self.ended_at);
        self.deadline = patch.deadline.or(self.deadline);
        self.stop_reason = patch.stop_reason.or(self.stop_reason);
        self.final_text = patch.final_text.or(self.final_text.take());
        self.error = patch.error.or(self.error.take());
        self.usage += patch.usage;
        self.cost = add(self.cost, patch.cost);
        self.assumed = add(self.assumed, patch.assumed);
        if let Some(ModelName { provider, model }) = patch.model {
            (self.provider, self.model) = (provider, model);
        }
        self.warnings = patch.warnings.unwrap_or_else(|| std::mem::take(&mut self.warnings));
        self.strikes = patch.strikes.unwrap_or(self.strikes);
    }

    pub fn key(&self) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: self.run }
    }
}

fn add(sum: Option<Cost>, more: Option<Cost>) -> Option<Cost> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    }
}
