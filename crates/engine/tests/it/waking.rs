//! Wake-ups that come at a bad moment: while the wait is being committed, and when the process before died.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Committed, Entry, Journal},
    record::{Body, Status},
    runs::{Interest, Runs as _},
    time::Clock as _,
};
use drawloom_testkit::LostWakeUps;
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    house::{House, Plan, Wall, ask},
    resuming::die_after,
    waiting::{Late, calling, listening, post},
};

/// A journal in front of which a message is posted when a call begins to wait: after the engine has registered the wait and before
/// that is committed.
struct PostsFirst {
    journal: Arc<dyn Journal>,
    store: Late,
}

#[async_trait]
impl Journal for PostsFirst {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let mut records = entry.runs.iter().flat_map(|append| &append.records);
        if records.any(|record| matches!(record.body, Body::CallWaiting { .. })) {
            post(&*self.store.get(), "a", "hello", None).await.map_err(CommitError::Refused)?;
        }
        self.journal.commit(entry).await
    }
}

/// What a call says whose message came while its wait was being committed.
async fn hear_during_the_commit(lost: Option<Arc<LostWakeUps>>, ms: u64) -> String {
    let late = Late::default();
    let mut plan = calling(&late, &[json!({ "name": "a", "ms": ms })]);
    let (store, losing) = (late.clone(), lost.clone());
    plan.wrap_journal = Arc::new(move |journal| {
        let journal: Arc<dyn Journal> = Arc::new(PostsFirst { journal, store: store.clone() });
        losing.as_ref().map_or(journal.clone(), |lost| lost.journal(journal, store.get()))
    });
    if let Some(lost) = lost {
        plan.wrap_log = Arc::new(move |store| lost.log(store));
    }
    let house = House::new(plan);
    let view = house.finish(house.start(ask("alice", "x"), Interest::Outcome).await).await;
    view.final_text.expect("a text")
}

#[tokio::test]
async fn a_message_that_comes_while_the_wait_is_committed_wakes_the_call() {
    let text = hear_during_the_commit(None, 3_600_000).await;
    assert!(text.contains("woken Some(ByCause)"), "{text}");
}

#[tokio::test]
async fn a_wake_up_that_is_lost_before_the_commit_is_noticed() {
    // Only the time of the wait wakes it.
    let text = hear_during_the_commit(Some(Arc::default()), 300).await;
    assert!(text.contains("woken Some(ByTime)"), "{text}");
}

/// A journal that does not answer any more once a run was admitted a second time.
struct Stuck {
    journal: Arc<dyn Journal>,
    stuck: Arc<AtomicUsize>,
    one_more: Arc<Notify>,
}

#[async_trait]
impl Journal for Stuck {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let mut records = entry.runs.iter().flat_map(|append| &append.records);
        let is_woken = records.any(|record| matches!(record.body, Body::Admitted { .. }) && record.seq > 2);
        let committed = self.journal.commit(entry).await;
        if is_woken {
            self.stuck.fetch_add(1, Ordering::SeqCst);
            self.one_more.notify_one();
            return std::future::pending().await;
        }
        committed
    }
}

fn listening_to_its_prompt(late: &Late, runs: u32) -> Plan {
    let mut plan = listening(late);
    plan.rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Listen", "input": { "name": "{{prompt}}" } }] }, { "text": "{{last}}" }]);
    plan.config(|config| {
        config.max_concurrent_runs = runs;
        config.max_queue_depth = 10_000;
    })
}

/// A starting process looks at what such runs wait for while it gives them their slots.
#[test]
fn runs_that_had_just_been_woken_when_the_process_died_go_on() {
    const RUNS: u32 = 20;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    let keys = die_after(async move {
        let late = Late::default();
        let (stuck, one_more) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
        let mut plan = listening_to_its_prompt(&late, RUNS);
        plan.wrap_journal = Arc::new({
            let (stuck, one_more) = (stuck.clone(), one_more.clone());
            move |journal| Arc::new(Stuck { journal, stuck: stuck.clone(), one_more: one_more.clone() })
        });
        let house = House::at(&path, plan);
        let mut keys = Vec::new();
        for number in 0..RUNS {
            keys.push(house.start(ask("alice", &format!("log{number}")), Interest::None).await.view.key());
        }
        for (number, key) in keys.iter().enumerate() {
            house.until(key, |view| view.status == Status::Waiting).await;
            post(&*house.store, &format!("log{number}"), "m", None).await.expect("room");
        }
        while stuck.load(Ordering::SeqCst) < RUNS as usize {
            one_more.notified().await;
        }
        keys
    });
    let path = directory.path().to_owned();
    die_after(async move {
        let late = Late::default();
        // Few slots: some runs are looked at while they are in the queue, some when they get their slot.
        let house = House::at(&path, listening_to_its_prompt(&late, 2));
        house.engine.resume().await.expect("resumed");
        let patience = Wall.now().after(Duration::from_secs(60));
        for key in keys {
            let view = house.engine.wait(&house.caller, key.run, Some(patience)).await.expect("a run");
            assert_eq!(view.status, Status::Completed, "run {} was never taken up", key.run);
        }
    });
}
