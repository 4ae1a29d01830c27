//! What cannot be read or recorded: it is said, and never taken for an empty answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Visible,
    costs::{CostGroup, CostQuery},
    definition::Definition,
    ids::{AgentId, BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    journal::{Label, RunFilter, RunReader, StoreError, TreePart, Unfinished},
    money::TreeTotal,
    once::{Answered, RequestKey},
    record::{Body, Record, Seq, Status},
    runs::{Interest, Runs as _},
    time::{Entropy, NoEntropy},
    view::RunView,
};
use futures::StreamExt as _;
use serde_json::json;

use crate::house::{House, Plan, WrapReader, ask};

/// A store of which some pages are damaged. It counts how often a run is read.
struct Damaged {
    reader: Arc<dyn RunReader>,
    /// Whether children can be read.
    children: bool,
    /// How many reads of a tree's size still fail.
    sizes: AtomicU32,
    reads: Arc<AtomicUsize>,
}

fn no_children(reads: &Arc<AtomicUsize>) -> WrapReader {
    let reads = reads.clone();
    Arc::new(move |reader| {
        Arc::new(Damaged { reader, children: false, sizes: AtomicU32::new(0), reads: reads.clone() })
    })
}

/// The size of a tree cannot be read when it is first asked for; the engine asks three times before it believes that.
fn no_size_at_first() -> WrapReader {
    Arc::new(|reader| Arc::new(Damaged { reader, children: true, sizes: AtomicU32::new(3), reads: Arc::default() }))
}

fn damaged<T>() -> Result<T, StoreError> {
    Err(StoreError::Corrupt { store: "drawloom.db".into(), detail: "a page is damaged".into() })
}

#[async_trait]
impl RunReader for Damaged {
    async fn find_run(&self, key: &RunKey) -> Result<Option<RunView>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.reader.find_run(key).await
    }

    async fn find_run_without_text(&self, key: &RunKey) -> Result<Option<RunView>, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.reader.find_run_without_text(key).await
    }

    async fn read_journal_part(&self, key: &RunKey, after: Seq, bytes: usize) -> Result<Vec<Record>, StoreError> {
        self.reader.read_journal_part(key, after, bytes).await
    }

    async fn tree_size(&self, root: &RunKey) -> Result<u64, StoreError> {
        match self.sizes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => damaged(),
            Err(_) => self.reader.tree_size(root).await,
        }
    }

    async fn list_retries(&self, tenant: &Tenant, runs: &[RunId]) -> Result<Vec<(RunId, RunId)>, StoreError> {
        self.reader.list_retries(tenant, runs).await
    }

    async fn sum_costs(&self, visible: &Visible, query: &CostQuery) -> Result<Vec<CostGroup>, StoreError> {
        self.reader.sum_costs(visible, query).await
    }

    async fn sees_session(&self, visible: &Visible, session: SessionId) -> Result<bool, StoreError> {
        self.reader.sees_session(visible, session).await
    }

    async fn find_by_agent_id(&self, visible: &Visible, agent_id: &AgentId) -> Result<Option<RunView>, StoreError> {
        self.reader.find_by_agent_id(visible, agent_id).await
    }

    async fn list_runs(&self, visible: &Visible, filter: &RunFilter) -> Result<Vec<RunView>, StoreError> {
        self.reader.list_runs(visible, filter).await
    }

    async fn read_journal(&self, key: &RunKey, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.reader.read_journal(key, after, limit).await
    }

    async fn list_children(&self, parent: &RunKey, call: Seq) -> Result<Vec<RunView>, StoreError> {
        if self.children { self.reader.list_children(parent, call).await } else { damaged() }
    }

    async fn list_live_children(&self, parent: &RunKey) -> Result<Vec<RunView>, StoreError> {
        if self.children { self.reader.list_live_children(parent).await } else { damaged() }
    }

    async fn tree_total(&self, top: &RunKey) -> Result<TreeTotal, StoreError> {
        self.reader.tree_total(top).await
    }

    async fn read_tree_part(&self, root: &RunKey, after: u64, bytes: usize) -> Result<TreePart, StoreError> {
        self.reader.read_tree_part(root, after, bytes).await
    }

    async fn label_runs(&self, tenant: &Tenant, runs: &[RunId], bytes: usize) -> Result<Vec<Label>, StoreError> {
        self.reader.label_runs(tenant, runs, bytes).await
    }

    async fn list_batch(&self, visible: &Visible, batch: BatchId) -> Result<Option<Vec<RunView>>, StoreError> {
        self.reader.list_batch(visible, batch).await
    }

    async fn find_definition(&self, tenant: &Tenant, digest: &Digest) -> Result<Option<Definition>, StoreError> {
        self.reader.find_definition(tenant, digest).await
    }

    async fn find_request(&self, key: &RequestKey) -> Result<Option<(Digest, Answered)>, StoreError> {
        self.reader.find_request(key).await
    }

    async fn list_unfinished(&self) -> Result<Unfinished, StoreError> {
        self.reader.list_unfinished().await
    }
}

fn parent_of_bob(delay_ms: u64) -> Plan {
    Plan::new(json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }] },
        { "when": { "agent": "alice" }, "text": "alice: {{last}}" },
        { "text": "bob is done", "delay_ms": delay_ms } ]))
}

fn is_unreadable(view: &RunView) {
    let code = view.error.as_ref().map(|error| error.code.as_str());
    assert_eq!((view.status, code), (Status::Failed, Some("unreadable")), "{view:?}");
}

#[tokio::test]
async fn children_that_cannot_be_read_fail_their_parent_and_are_not_taken_for_none() {
    let house = House::new(Plan { wrap_reader: no_children(&Arc::default()), ..parent_of_bob(0) });
    is_unreadable(&house.run("alice", "go").await);
}

#[tokio::test]
async fn a_cancel_that_cannot_read_the_children_does_not_claim_to_have_stopped_them() {
    let house = House::new(Plan { wrap_reader: no_children(&Arc::default()), ..parent_of_bob(60_000) });
    let started = house.start(ask("alice", "go"), Interest::None).await;
    house.until(&started.view.key(), |view| view.status == Status::Waiting).await;
    let cancelled = house.engine.cancel(&house.caller, started.view.run, None).await.expect("an answer");
    is_unreadable(&cancelled.view);
    let replay = house.engine.replay(&house.caller, started.view.run).await.expect("a replay");
    assert!(replay.ok, "{replay:?}");
}

/// A failed read is not remembered: the next call counts the tree again.
#[tokio::test]
async fn a_tree_that_could_not_be_counted_grows_when_it_can_be() {
    let spawn = json!([{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }]);
    let house = House::new(Plan {
        wrap_reader: no_size_at_first(),
        ..Plan::new(json!([
            { "when": { "agent": "alice", "turn": 1 }, "calls": spawn },
            { "when": { "agent": "alice", "turn": 2 }, "calls": spawn },
            { "when": { "agent": "alice" }, "text": "alice: {{last}}" },
            { "text": "bob is done" } ]))
    });
    let view = house.run("alice", "go").await;
    assert!(view.final_text.as_deref().is_some_and(|text| text.ends_with("bob is done")), "{view:?}");
    let failed = house.journal(&view).await.into_iter().find_map(|record| match record.body {
        Body::CallDone(done) if done.is_error => Some(done.text),
        _ => None,
    });
    assert!(failed.expect("the first call failed").starts_with("tree_not_counted: "));
}

#[tokio::test]
async fn when_the_store_is_gone_those_who_wait_are_told_and_nothing_goes_on() {
    let house = House::new(Plan::new(json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Probe", "input": { "ms": 300 } }] },
        { "text": "never recorded" } ])));
    let mut followed = house.start(ask("alice", "x"), Interest::Events).await.live.expect("events");
    let waited = house.start(ask("bob", "x"), Interest::Outcome).await.live.expect("an outcome");
    std::fs::remove_file(house.store.file()).expect("the store's file");
    let told = async {
        while let Some(Ok(item)) = followed.next().await {
            assert!(!matches!(item, drawloom_contract::runs::Item::Ended(_)), "it cannot have ended");
        }
        waited.collect::<Vec<_>>().await
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), told).await.expect("nobody waits for ever");
    assert!(matches!(&waited[..], [Err(failure)] if failure.code == "store_gone"), "{waited:?}");
    let refused = house.engine.start(&house.caller, ask("carol", "x"), None, Interest::None).await;
    assert_eq!(refused.err().map(|failure| failure.code), Some("store_gone"));
}

/// Nothing is written on behalf of the run that is waited for, so only another request finds that the store is gone.
#[tokio::test]
async fn whoever_finds_the_store_gone_releases_all_who_wait() {
    for finds in ["start", "load", "list"] {
        let house = House::new(Plan::new(json!([{ "text": "late", "delay_ms": 600_000 }])));
        let waited = house.start(ask("alice", "x"), Interest::Outcome).await;
        std::fs::remove_file(house.store.file()).expect("the store's file");
        let found = match finds {
            "start" => house.engine.start(&house.caller, ask("bob", "x"), None, Interest::None).await.err(),
            "load" => house.engine.load(&house.caller, waited.view.run).await.err(),
            _ => house.engine.list(&house.caller, RunFilter { limit: 10, ..RunFilter::default() }).await.err(),
        };
        let found = found.expect("the store is gone");
        assert_eq!((found.code, found.kind.is_retryable()), ("store_gone", false), "{finds}");
        let told = waited.live.expect("an outcome").collect::<Vec<_>>();
        let told = tokio::time::timeout(Duration::from_secs(30), told).await;
        let told = told.unwrap_or_else(|_| panic!("{finds}: it still waits"));
        assert!(matches!(&told[..], [Err(failure)] if failure.code == "store_gone"), "{finds}: {told:?}");
    }
}

#[tokio::test]
async fn a_wait_for_a_run_that_has_ended_reads_it_once() {
    let reads = Arc::<AtomicUsize>::default();
    let rules = json!([{ "text": "done" }]);
    let house = House::new(Plan { wrap_reader: no_children(&reads), ..Plan::new(rules) });
    let view = house.run("alice", "x").await;
    let before = reads.load(Ordering::SeqCst);
    house.engine.wait(&house.caller, view.run, None).await.expect("it has ended");
    assert_eq!(reads.load(Ordering::SeqCst) - before, 1);
}

/// An operating system without random bytes.
struct Exhausted;

impl Entropy for Exhausted {
    fn fill(&self, _: &mut [u8]) -> Result<(), NoEntropy> {
        Err(NoEntropy { reason: "blocked by a filter".into() })
    }
}

#[tokio::test]
async fn without_random_bytes_a_start_is_refused_and_nothing_panics() {
    let house = House::new(Plan { entropy: Arc::new(Exhausted), ..parent_of_bob(0) });
    let refused = house.engine.start(&house.caller, ask("alice", "x"), None, Interest::None).await;
    let failure = refused.err().expect("a refusal");
    assert_eq!(failure.code, "no_entropy");
    assert_eq!(failure.message, "cannot get random bytes from the operating system: blocked by a filter");
}
