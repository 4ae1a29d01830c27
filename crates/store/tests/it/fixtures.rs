//! Stores, runs and records for tests.

use std::sync::{Arc, LazyLock};

use drawloom_contract::{
    choice::ModelName,
    failure::RunError,
    ids::{AgentId, BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    journal::{Append, CommitError, Committed, Entry, Journal as _, RunReader as _},
    message::Segment,
    money::Cost,
    record::{
        Accepted, BatchPlace, Body, Epoch, Outcome, Parent, Record, Seq, Status, StopReason, Switched, TurnDone,
        TurnStarted,
    },
    redact::{Redacted, Redactor},
    time::Timestamp,
    usage::Usage,
    view::RunView,
    wait::Wait,
};
use drawloom_store::{Opened, Options, Store};
use tempfile::TempDir;

/// A store in a directory of its own, for one boot.
pub(crate) struct Bench {
    pub(crate) store: Arc<Store>,
    pub(crate) epoch: Epoch,
    pub(crate) directory: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let Opened { store, epoch, .. } = open(&directory);
        Self { store, epoch, directory }
    }

    pub(crate) async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        self.store.commit(entry).await
    }

    /// Commits an append that must succeed.
    pub(crate) async fn append(&self, append: Append) -> Committed {
        let key = append.key.clone();
        self.commit(Entry::append(self.epoch, append)).await.unwrap_or_else(|error| panic!("{key:?}: {error}"))
    }

    pub(crate) async fn view(&self, key: &RunKey) -> RunView {
        self.store.find_run(key).await.expect("a readable store").expect("the run is there")
    }

    pub(crate) async fn records(&self, key: &RunKey) -> Vec<Record> {
        self.store.read_journal(key, 0, usize::MAX).await.expect("a readable store")
    }
}

pub(crate) fn open(directory: &TempDir) -> Opened {
    Store::open(&Options::new(directory.path()), at(1)).expect("a store that opens")
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub(crate) fn tenant(name: &str) -> Tenant {
    name.parse().expect("a valid name")
}

fn bytes(number: u64) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

pub(crate) fn run_id(number: u64) -> RunId {
    RunId::from_bytes(bytes(number))
}

pub(crate) fn session_id(number: u64) -> SessionId {
    SessionId::from_bytes(bytes(number))
}

pub(crate) fn batch_id(number: u64) -> BatchId {
    BatchId::from_bytes(bytes(number))
}

pub(crate) fn key(number: u64) -> RunKey {
    RunKey { tenant: Tenant::default_tenant(), run: run_id(number) }
}

pub(crate) fn agent_id(number: u64) -> AgentId {
    format!("handle-{number}").parse().expect("a valid name")
}

/// How run `number` begins: a root in a session of its own.
pub(crate) fn accepted(number: u64) -> Accepted {
    Accepted {
        version: "0.0.0-test".into(),
        tenant: Tenant::default_tenant(),
        run: run_id(number),
        session: session_id(number),
        agent_id: agent_id(number),
        agent: "team/worker".parse().expect("a valid name"),
        definition: Digest::of(b"definition"),
        executor: "model".into(),
        user: "ada".parse().expect("a valid name"),
        provider: "script".into(),
        model: "scripted".into(),
        parent: None,
        root: run_id(number),
        depth: 0,
        batch: None,
        segments: vec![Segment::user("hello")],
        input: None,
        tools: vec!["Read".into()],
        narrowed_tools: None,
        max_iterations: 8,
        budget_tokens: None,
        budget_cost: None,
        models: Default::default(),
        narrowed_hosts: None,
        narrowed_volumes: None,
        part_budgets: Vec::new(),
        deadline: None,
        deadline_set: None,
        run_timeout_ms: None,
        queue_timeout_ms: Some(1_200_000),
        parent_context: None,
        metadata: None,
        warnings: Vec::new(),
    }
}

/// How child `index` of a call of run `parent` begins.
pub(crate) fn child(number: u64, parent: u64, call: Seq, index: u32) -> Accepted {
    let parent = Parent { run: run_id(parent), agent_id: agent_id(parent), call, index };
    Accepted { root: parent.run, depth: 1, parent: Some(parent), ..accepted(number) }
}

/// How the member at `index` of a batch begins.
pub(crate) fn member(number: u64, batch: u64, index: u32) -> Accepted {
    Accepted { batch: Some(BatchPlace { batch: batch_id(batch), index }), ..accepted(number) }
}

/// The append that begins a run, with more records after the first.
pub(crate) fn begin(accepted: Accepted, more: impl IntoIterator<Item = Body>) -> Append {
    let key = RunKey { tenant: accepted.tenant.clone(), run: accepted.run };
    let mut append = after(key, 0, [Body::Accepted(Box::new(accepted))].into_iter().chain(more));
    append.exclusive_session = false;
    append
}

/// An append to run `key` after record `expected`.
pub(crate) fn after(key: RunKey, expected: Seq, bodies: impl IntoIterator<Item = Body>) -> Append {
    let records = (expected + 1..).zip(bodies).map(|(seq, body)| clean(record(seq, body))).collect();
    Append { key, expected, records, exclusive_session: false }
}

/// A record at a time that its sequence gives.
pub(crate) fn record(seq: Seq, body: Body) -> Record {
    Record { seq, at: at(i64::try_from(seq).expect("a small number") * 10), body }
}

pub(crate) fn clean(record: Record) -> Redacted<Record> {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new::<&str>([]));
    REDACTOR.clean(record)
}

pub(crate) fn admitted() -> Body {
    Body::Admitted { deadline: None, deadline_set: None }
}

pub(crate) fn parked() -> Body {
    Body::Parked { wait: Wait::default() }
}

pub(crate) fn turn_started(turn: u32) -> Body {
    Body::TurnStarted(TurnStarted { turn, attempt: 1, tools: true, ..TurnStarted::default() })
}

pub(crate) fn turn_done(turn: u32, text: &str) -> Body {
    let text = text.into();
    Body::TurnDone(TurnDone { turn, text, ..TurnDone::default() })
}

pub(crate) fn usage(turn: u32, tokens: u64) -> Body {
    Body::Usage {
        turn,
        usage: Usage { input_tokens: tokens, output_tokens: 1, ..Usage::default() },
        cost: Some(Cost(10)),
        assumed: false,
    }
}

pub(crate) fn switched() -> Body {
    Body::Switched(Box::new(Switched {
        turn: 1,
        attempt: 1,
        from: ModelName::new("script", "scripted"),
        to: ModelName::new("other", "sibling"),
        effort: None,
        error: RunError::new("throttled", "slow down"),
    }))
}

pub(crate) fn note(text: &str) -> Body {
    Body::Note { version: 1, value: text.into() }
}

pub(crate) fn completed() -> Body {
    Body::Finished(Box::new(Outcome {
        status: Status::Completed,
        stop_reason: Some(StopReason::EndTurn),
        error: None,
        final_text: None,
        usage: Usage::default(),
        cost: None,
        warnings: vec!["a warning".into()],
    }))
}

pub(crate) fn failed() -> Body {
    Body::Finished(Box::new(Outcome {
        status: Status::Failed,
        stop_reason: None,
        error: Some(RunError::new("model_refused", "it would not").with_hint("ask again")),
        final_text: None,
        usage: Usage::default(),
        cost: None,
        warnings: Vec::new(),
    }))
}
