//! The seam to runs: start, look, follow, stop. The engine implements it; every surface uses it.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    activity::RunActivity,
    caller::Caller,
    choice::Sampling,
    costs::{CostGroup, CostQuery},
    definition::Definition,
    failure::Failure,
    ids::{AgentId, AgentName, BatchId, Digest, RunId, RunKey, SessionId, UserId},
    journal::{Label, Placed, RunFilter},
    message::Segment,
    model::DeltaKind,
    money::{Cost, TreeTotal},
    once::HandleId,
    record::{Record, Seq},
    time::Instant,
    view::RunView,
};

/// A run to start: a caller's, or a child that a tool wants. Everything in it only narrows, but `definition`.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub agent: AgentName,
    /// The agent itself, which then is in no list: for tools of executors, which make agents as they need them. What callers and
    /// models ask for never has one.
    pub definition: Option<Arc<Definition>>,
    /// For whom, when that is not the caller.
    pub user: Option<UserId>,
    /// What it is asked; not empty.
    pub segments: Vec<Segment>,
    pub input: Option<Value>,
    /// Tools to leave it, of those it has; all, when absent. The same holds for hosts and volumes.
    pub tools: Option<Vec<String>>,
    pub session: Option<SessionId>,
    pub agent_id: Option<AgentId>,
    pub parent_context: Option<Value>,
    pub metadata: Option<Value>,
    /// Wall-clock limit from accept.
    pub timeout_ms: Option<u64>,
    /// Wall-clock limit from first admission.
    pub run_timeout_ms: Option<u64>,
    pub max_iterations: Option<u32>,
    pub budget_tokens: Option<u64>,
    pub budget_cost: Option<Cost>,
    pub user_tier: Option<String>,
    pub sampling: Sampling,
    pub hosts: Option<Vec<String>>,
    pub volumes: Option<Vec<String>>,
    /// What the surface noticed on the way here, for the result's `warnings`.
    pub warnings: Vec<String>,
}

impl Start {
    pub fn new(agent: AgentName, prompt: impl Into<String>) -> Self {
        Self {
            agent,
            definition: None,
            user: None,
            segments: vec![Segment::user(prompt.into())],
            input: None,
            tools: None,
            session: None,
            agent_id: None,
            parent_context: None,
            metadata: None,
            timeout_ms: None,
            run_timeout_ms: None,
            max_iterations: None,
            budget_tokens: None,
            budget_cost: None,
            user_tier: None,
            sampling: Sampling::default(),
            hosts: None,
            volumes: None,
            warnings: Vec::new(),
        }
    }
}

/// What becomes of a batch when one of its runs is refused, for example because its agent is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefusal {
    /// That run has failed in its place, and is stored so; the others run.
    FailThatRun,
    RefuseAll,
}

/// A run to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryStart {
    pub run: RunId,
    /// Whether a run that completed is retried too.
    pub completed: bool,
}

/// A caller's idempotency key and what it was used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub operation: &'static str,
    pub key: String,
    pub body: Digest,
}

/// What the caller that starts a run wants to know of it; asked before the start, so that nothing is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    None,
    Outcome,
    Events,
}

/// A run that was accepted: it survives a crash from here on.
pub struct Started {
    /// Its row, as accepted (or as it is now, when the request was made before).
    pub view: Arc<RunView>,
    /// What was asked for; absent with `Interest::None` and for a run that is followed from the store.
    pub live: Option<Live>,
}

pub struct StartedBatch {
    pub batch: BatchId,
    pub runs: Vec<Started>,
}

#[derive(Debug, Clone)]
pub enum Item {
    Record(Arc<Record>),
    Delta(Delta),
    Activity(Arc<RunActivity>),
    Ended(Arc<RunView>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    pub kind: DeltaKind,
    pub turn: u32,
    pub attempt: u32,
    pub offset: u64,
    pub text: Arc<str>,
}

/// Items of a tree in the order of the journal, until all its runs have ended.
pub type LiveTree = BoxStream<'static, Result<Placed<Item>, Failure>>;

/// Items in order, until `Item::Ended`.
pub type Live = BoxStream<'static, Result<Item, Failure>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    pub view: RunView,
    pub cancelled: bool,
    pub cascaded: Vec<RunId>,
}

/// How busy the server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Runs with a slot.
    pub active: u64,
    /// Runs that wait for one.
    pub queued: u64,
    /// The most runs with a slot at once.
    pub max_concurrent_runs: u64,
    /// Slots and queue by provider.
    pub providers: BTreeMap<String, ProviderLoad>,
}

/// How busy one provider is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderLoad {
    /// Runs with a slot.
    pub active: u64,
    /// Runs that wait for one.
    pub queued: u64,
    /// The most at once, when there is a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u64>,
    /// Calls of its credential that are being answered.
    #[serde(default)]
    pub calls_in_flight: u64,
    /// The concurrency limit that was learned for the credential, once a call was throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_limit: Option<u64>,
    /// Runs that are parked until the credential takes another call.
    #[serde(default)]
    pub throttled: u64,
}

/// One recorded decision beside what today's code decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayStep {
    /// The record's sequence number.
    pub seq: Seq,
    /// What was decided then.
    pub recorded: String,
    /// What would be decided now, when that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<String>,
}

/// A journal folded again, with no model and no tool called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// The run.
    pub run_id: RunId,
    /// Records folded.
    pub records: u64,
    /// Decisions, in order.
    pub steps: Vec<ReplayStep>,
    /// Why the fold failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold_error: Option<String>,
    /// Whether this version alone wrote the journal: then a difference is a fault.
    pub same_version: bool,
    /// Whether the fold worked and, in a journal of this version, nothing differs.
    pub ok: bool,
}

/// Starts and follows runs. There is no second way to start one.
#[async_trait]
pub trait Runs: Send + Sync {
    /// Accepts a run: durable when this returns. With a key that was used before for the same body, it is the same run.
    async fn start(
        &self,
        caller: &Caller,
        start: Start,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure>;

    /// Accepts a batch in one commit. Starts are 1 to 32.
    async fn start_batch(
        &self,
        caller: &Caller,
        starts: Vec<Start>,
        on_refusal: OnRefusal,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<StartedBatch, Failure>;

    /// Runs a run that has ended once more, with the same definition, prompt, input and limits. A child takes the place of the
    /// failed one while its call waits for other children, a run of a batch while the batch is unfinished; every other retry is
    /// a new root.
    async fn retry(
        &self,
        caller: &Caller,
        retry: RetryStart,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure>;

    /// The runs that retried these ones, which the caller has seen.
    async fn retries(&self, views: &[RunView]) -> Result<BTreeMap<RunId, RunId>, Failure>;

    /// The run, or `not_found`.
    async fn load(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure>;

    /// The run without its final text, which can be very long, or `not_found`.
    async fn glance(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure>;

    /// The run with this `agent_id`, or `not_found`.
    async fn load_by_agent_id(&self, caller: &Caller, agent_id: &AgentId) -> Result<RunView, Failure>;

    /// The sums over the run and all below it so far.
    async fn total(&self, caller: &Caller, run: RunId) -> Result<TreeTotal, Failure>;

    /// What the runs that the caller sees cost, in groups.
    async fn costs(&self, caller: &Caller, query: &CostQuery) -> Result<Vec<CostGroup>, Failure>;

    /// The labels of runs that the caller has seen, with at most `bytes` of their prompts.
    async fn label(&self, views: &[RunView], bytes: usize) -> Result<Vec<Label>, Failure>;

    /// Runs, newest first, without their final texts.
    async fn list(&self, caller: &Caller, filter: RunFilter) -> Result<Vec<RunView>, Failure>;

    /// A batch's runs by index, or `not_found`.
    async fn load_batch(&self, caller: &Caller, batch: BatchId) -> Result<Vec<RunView>, Failure>;

    /// Places in the queue, from 1, of those runs that are in it.
    fn positions(&self, runs: &[RunKey]) -> BTreeMap<RunId, u64>;

    /// Records after `after` and then what happens, until the end.
    async fn follow(&self, caller: &Caller, run: RunId, after: Seq, interest: Interest) -> Result<Live, Failure>;

    /// The records of a run and all runs below it, from the first, and then what happens. Pieces of turns are the run's own.
    async fn follow_tree(&self, caller: &Caller, run: RunId) -> Result<LiveTree, Failure>;

    /// The row when the run has ended, or as it is at `until`.
    async fn wait(&self, caller: &Caller, run: RunId, until: Option<Instant>) -> Result<Arc<RunView>, Failure>;

    /// Stops a run and all below it; durable when this returns. A run that has ended is left as it is.
    async fn cancel(&self, caller: &Caller, run: RunId, reason: Option<String>) -> Result<Cancelled, Failure>;

    /// What the caller's request under this key made, when it was accepted.
    async fn find_keyed(
        &self,
        caller: &Caller,
        operation: &'static str,
        key: &str,
    ) -> Result<Option<HandleId>, Failure>;

    /// Folds a run's journal again.
    async fn replay(&self, caller: &Caller, run: RunId) -> Result<Replay, Failure>;

    /// What the runs of a tree do now, as far as their calls report it. The caller has seen the tree.
    fn activity(&self, root: RunId) -> Vec<Arc<RunActivity>>;

    /// How busy it is.
    fn load_now(&self) -> Load;
}
