//! The journal: the only write, and the readers by aggregate.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    caller::Visible,
    costs::{CostGroup, CostQuery},
    definition::Definition,
    failure::{Explain, FailureKind},
    ids::{AgentId, AgentName, BatchId, Digest, RunId, RunKey, SessionId, Tenant, UserId},
    log::{LogChange, LogChanged},
    money::TreeTotal,
    once::{Answered, Once, RequestKey},
    record::{Epoch, Record, Seq, Status},
    redact::Redacted,
    time::Timestamp,
    values::{ChangeError, ValueChange},
    view::RunView,
    wait::{WaitChange, Waiting},
};

/// All that becomes true together, or not at all.
#[derive(Debug, Default)]
pub struct Entry {
    /// The process that writes; one that lost ownership can write nothing.
    pub epoch: Epoch,
    pub runs: Vec<Append>,
    pub waits: Vec<WaitChange>,
    pub once: Option<Once>,
    /// A batch that begins; its runs are in `runs`, by index.
    pub batch: Option<NewBatch>,
    /// Definitions that runs of this entry pin. Known ones are left as they are: the journal remembers which it has.
    pub definitions: Vec<Redacted<Arc<Definition>>>,
    pub values: Vec<ValueChange>,
    pub logs: Vec<LogChange>,
}

impl Entry {
    pub fn append(epoch: Epoch, append: Append) -> Self {
        Self { runs: vec![append], ..Self::empty(epoch) }
    }

    pub fn empty(epoch: Epoch) -> Self {
        Self { epoch, ..Self::default() }
    }
}

#[derive(Debug)]
pub struct Append {
    pub key: RunKey,
    /// The sequence of its last record now; 0 for a run that begins. Anything else there fails the entry.
    pub expected: Seq,
    /// The records, gapless from `expected + 1`. A run that begins starts with `Accepted`.
    pub records: Vec<Redacted<Record>>,
    /// Fail the entry when another run of its session is unfinished (only for a run that begins).
    pub exclusive_session: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBatch {
    pub tenant: Tenant,
    pub batch: BatchId,
    pub user: UserId,
    pub size: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// Global position of the entry's last record.
    pub position: u64,
    /// Parked runs whose children have all ended: the last one ended in this entry, or this entry parked the run and they had
    /// ended before. The caller of `commit` brings them back to admission.
    pub woken: Vec<RunKey>,
    /// The revision of each change of a value.
    pub revisions: Vec<u64>,
    pub logs: Vec<LogChanged>,
}

/// Why an entry was not written. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    #[error("run {run} is at record {found}, not {expected}")]
    Conflict {
        run: RunId,
        expected: Seq,
        /// 0 when the run does not exist.
        found: Seq,
    },
    #[error("this request was already made")]
    Repeated(Answered),
    #[error("{0}")]
    Refused(ChangeError),
    #[error("child {index} of call {call} of run {parent} already exists")]
    ChildExists { parent: RunId, call: Seq, index: u32 },
    #[error("run {run} was already retried as {by}")]
    AlreadyRetried { run: RunId, by: RunId },
    #[error("run {0} was deleted and cannot be retried")]
    RetriedGone(RunId),
    #[error("call {call} of run {parent} waits for no other child")]
    NotWaiting { parent: RunId, call: Seq },
    #[error("agent_id {agent_id} is already in use by the active run {run}")]
    AgentIdInUse { agent_id: AgentId, run: RunId },
    #[error("unknown session {0}")]
    UnknownSession(SessionId),
    #[error("session {session} is busy with run {run}")]
    SessionBusy { session: SessionId, run: RunId },
    #[error("this process (epoch {mine}) lost ownership of the data to epoch {current}")]
    LostOwnership { mine: Epoch, current: Epoch },
    #[error("{0}")]
    Store(StoreError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Writing goes on when there is space again.
    #[error("no space left for the store {store}")]
    Full { store: String },
    /// The copy is made before the format changes. Nothing was changed.
    #[error("no space left to back up the store {store} ({bytes} bytes) before upgrading its format")]
    NoRoomForCopy { store: String, bytes: u64 },
    #[error("the store {store} is read-only")]
    ReadOnly { store: String },
    #[error("the store {store} is corrupted: {detail}")]
    Corrupt { store: String, detail: String },
    /// It was deleted or replaced while it was in use. That is for good: what was written since is lost.
    #[error("the store is gone: {detail}; new records are not saved")]
    Gone { detail: String },
    #[error("the store {store} has format {found}; this version of drawloom supports up to {known}")]
    TooNew { store: String, found: u32, known: u32 },
    #[error("the store {store} is in use by another drawloom process")]
    Locked { store: String },
    #[error("{store}: {detail}")]
    Failed { store: String, detail: String },
    #[error("the store is closed")]
    Closed,
}

impl Explain for StoreError {
    fn kind(&self) -> FailureKind {
        if matches!(self, Self::Gone { .. }) { FailureKind::Broken } else { FailureKind::Unavailable }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } | Self::NoRoomForCopy { .. } => "store_full",
            Self::ReadOnly { .. } => "store_read_only",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Gone { .. } => "store_gone",
            Self::TooNew { .. } => "store_too_new",
            Self::Locked { .. } => "store_locked",
            Self::Failed { .. } => "store_failed",
            Self::Closed => "store_closed",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Full { .. } => "free disk space; runs then continue automatically".into(),
            Self::NoRoomForCopy { .. } => "free that much disk space and start again; the store was not changed".into(),
            Self::ReadOnly { .. } => "make the data directory and its files writable, or pass --data-dir".into(),
            Self::Corrupt { .. } => "stop drawloom, copy the store to a safe place, and restore a backup".into(),
            Self::Gone { .. } => "stop the server, restore the store or a backup, and start the server again".into(),
            Self::TooNew { .. } => "upgrade drawloom, or pass another --data-dir".into(),
            Self::Locked { .. } => "wait for that process to exit, or pass another --data-dir".into(),
            Self::Failed { .. } => "see the server log; run `drawloom doctor` to check the data directory".into(),
            Self::Closed => "the server is shutting down; retry after it restarts".into(),
        })
    }
}

impl Explain for CommitError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::UnknownSession(_) | Self::RetriedGone(_) => FailureKind::NotFound,
            Self::Refused(error) => error.kind(),
            Self::LostOwnership { .. } => FailureKind::Unavailable,
            Self::Store(error) => error.kind(),
            _ => FailureKind::Conflict,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Repeated(_) => "repeated",
            Self::Refused(error) => error.code(),
            Self::ChildExists { .. } => "child_exists",
            Self::AlreadyRetried { .. } => "already_retried",
            Self::RetriedGone(_) => "unknown_run",
            Self::NotWaiting { .. } => "not_waiting",
            Self::AgentIdInUse { .. } => "agent_id_in_use",
            Self::UnknownSession(_) => "unknown_session",
            Self::SessionBusy { .. } => "session_busy",
            Self::LostOwnership { .. } => "lost_ownership",
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(error) => error.hint(),
            Self::AlreadyRetried { by, .. } => Some(format!("wait for {by}, or retry it when it has ended")),
            Self::AgentIdInUse { .. } => Some("choose another agent_id, or cancel the run that uses it".into()),
            Self::SessionBusy { .. } => Some("wait for that run, cancel it, or omit session_id".into()),
            Self::UnknownSession(_) => Some("omit session_id to start a new session".into()),
            Self::Store(error) => error.hint(),
            _ => None,
        }
    }
}

/// The only write.
///
/// `commit` returns when the entry is on disk (one real sync, shared with the entries that came at the same time), never
/// before. Entries are applied one after the other in the order they came; one that fails leaves no trace and does not
/// disturb its neighbours. An entry whose key was used before is not applied: the error carries the answer of the first. In the same transaction the store derives each run's row from its records, counts down the
/// wait that a finished child belongs to, and removes the waits of a run that finished.
/// When the future is dropped, the entry may or may not be written.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Makes `entry` true.
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub user: Option<UserId>,
    pub agent: Option<AgentName>,
    /// Only in one of these states; all, when empty.
    pub status: Vec<Status>,
    pub session: Option<SessionId>,
    pub batch: Option<BatchId>,
    pub parent: Option<RunId>,
    /// Only runs with an id in this range, both ends included. Ids begin with the time of accept. The same for batches.
    pub ids: Option<(RunId, RunId)>,
    pub batches: Option<(BatchId, BatchId)>,
    /// Only runs that no other run spawned.
    pub roots: bool,
    /// Only runs older than this one (the last of the page before).
    pub before: Option<RunId>,
    /// At most this many, newest first.
    pub limit: u32,
}

/// What tables of runs show and rows do not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The beginning of what the run was asked.
    pub prompt: String,
    /// How many hex digits of its id no other run of the tenant begins with.
    pub digits: usize,
}

/// Something of a run of a tree, with its position in the journal of all runs; 0 for what is not in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    pub position: u64,
    pub run: RunId,
    pub it: T,
}

pub type TreePart = (Vec<Placed<Record>>, u64);

/// A wait for a time that has not come, or a run's deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub run: RunKey,
    pub due: Timestamp,
    /// When it was set: what is left can never be more than what there was then.
    pub since: Timestamp,
}

/// What is unfinished, as a starting process needs it: rows without texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Runs that are queued, or were running when the last process ended, oldest first.
    pub runs: Vec<RunView>,
    /// Parked runs with nothing left to wait for but a slot.
    pub ready: Vec<RunView>,
    pub timers: Vec<Due>,
    pub waiting: Vec<Waiting>,
    pub deadlines: Vec<Due>,
    pub parked: u64,
}

/// Reads runs. Reads see every commit that was acknowledged before they began.
#[async_trait]
pub trait RunReader: Send + Sync {
    /// The run, if there is one in that tenant.
    async fn find_run(&self, key: &RunKey) -> Result<Option<RunView>, StoreError>;

    /// The same without its final text, which can be very long.
    async fn find_run_without_text(&self, key: &RunKey) -> Result<Option<RunView>, StoreError>;

    /// The run with this `agent_id`: the live one, else the newest.
    async fn find_by_agent_id(&self, visible: &Visible, agent_id: &AgentId) -> Result<Option<RunView>, StoreError>;

    /// Runs, newest first, without their final texts: a page of them could be very long.
    async fn list_runs(&self, visible: &Visible, filter: &RunFilter) -> Result<Vec<RunView>, StoreError>;

    /// Records after `after`, in order, at most `limit`.
    async fn read_journal(&self, key: &RunKey, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Records after `after`, in order, as many as have at most `bytes` of text together. The first one comes however
    /// long it is, so that an empty answer means that there are no more.
    async fn read_journal_part(&self, key: &RunKey, after: Seq, bytes: usize) -> Result<Vec<Record>, StoreError>;

    /// Records of all runs of a tree after position `after`, in the order of the journal, as many as `read_journal_part`
    /// would return, and the position up to which the answer is complete.
    async fn read_tree_part(&self, root: &RunKey, after: u64, bytes: usize) -> Result<TreePart, StoreError>;

    /// The label of each run, with at most `bytes` of its prompt. Runs that do not exist have an empty one.
    async fn label_runs(&self, tenant: &Tenant, runs: &[RunId], bytes: usize) -> Result<Vec<Label>, StoreError>;

    /// The newest attempts of the children of one call, by index.
    async fn list_children(&self, parent: &RunKey, call: Seq) -> Result<Vec<RunView>, StoreError>;

    /// Children of a run that have not ended.
    async fn list_live_children(&self, parent: &RunKey) -> Result<Vec<RunView>, StoreError>;

    /// How many runs the tree of `root` has, the root included.
    async fn tree_size(&self, root: &RunKey) -> Result<u64, StoreError>;

    /// The sums over a run and everything below it.
    async fn tree_total(&self, top: &RunKey) -> Result<TreeTotal, StoreError>;

    /// What runs cost, in groups: the most expensive first, days with the newest first.
    async fn sum_costs(&self, visible: &Visible, query: &CostQuery) -> Result<Vec<CostGroup>, StoreError>;

    /// Whether there is such a session and all its runs are visible.
    async fn sees_session(&self, visible: &Visible, session: SessionId) -> Result<bool, StoreError>;

    /// The retry of each of these runs that was retried, as pairs of run and retry.
    async fn list_retries(&self, tenant: &Tenant, runs: &[RunId]) -> Result<Vec<(RunId, RunId)>, StoreError>;

    /// The newest attempts of a batch's runs, by index. Returns `None` if the batch is unknown or some of its runs are not visible.
    async fn list_batch(&self, visible: &Visible, batch: BatchId) -> Result<Option<Vec<RunView>>, StoreError>;

    /// A pinned definition.
    async fn find_definition(&self, tenant: &Tenant, digest: &Digest) -> Result<Option<Definition>, StoreError>;

    /// The digest of the first request with this key, and its answer. The body of what is asked plays no part.
    async fn find_request(&self, key: &RequestKey) -> Result<Option<(Digest, Answered)>, StoreError>;

    /// What is unfinished, over all tenants.
    async fn list_unfinished(&self) -> Result<Unfinished, StoreError>;
}

/// Keeps the answers of requests that made neither a run nor a batch.
#[async_trait]
pub trait Answers: Send + Sync {
    /// Stores the answer of a request. When the same request was answered before, that answer stays and is returned.
    async fn store_answer(&self, key: RequestKey, answer: Redacted<Value>, at: Timestamp)
    -> Result<Value, ChangeError>;

    /// The answer of the first request with this key, or `KeyReused` when its body was another.
    async fn find_answer(&self, key: &RequestKey) -> Result<Option<Value>, ChangeError>;
}
