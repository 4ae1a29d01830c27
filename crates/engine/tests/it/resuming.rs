use std::{path::Path, time::Duration};

use drawloom_contract::{
    journal::{Append, Entry, Journal},
    record::{Body, Record, Status, Stop},
    redact::Redactor,
    runs::{Interest, Runs},
    view::RunView,
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::house::{House, Plan, ask};

/// A process that dies: what runs on the runtime is gone in the middle, and nothing is closed.
pub(crate) fn die_after<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Starts a run and dies while its first turn is in flight: its intent is in the commit that accepts it.
fn start_and_die(directory: &Path, rules: Value) -> RunView {
    let directory = directory.to_owned();
    die_after(async move {
        let house = House::at(&directory, Plan::new(rules));
        let view = house.start(ask("alice", "x"), Interest::None).await.view;
        (*view).clone()
    })
}

#[test]
fn a_run_whose_process_died_goes_on_from_its_last_record() {
    let directory = tempfile::tempdir().expect("a directory");
    let slow = json!([{ "text": "late", "delay_ms": 60_000 }]);
    let view = start_and_die(directory.path(), slow);
    die_after({
        let directory = directory.path().to_owned();
        async move {
            let house = House::at(&directory, Plan::new(json!([{ "text": "attempt {{attempt}}" }])));
            let report = house.engine.resume().await.expect("resumed");
            assert_eq!((report.resumed, report.suspects, report.quarantined), (1, 0, 0));
            let ended = house.engine.wait(&house.caller, view.run, None).await.expect("an end");
            assert_eq!(ended.final_text.as_deref(), Some("attempt 2"));
            assert_eq!(
                house.kinds(&ended).await,
                [
                    "accepted",
                    "admitted",
                    "turn_started",
                    "turn_failed",
                    "resumed",
                    "admitted",
                    "turn_started",
                    "turn_done",
                    "usage",
                    "finished"
                ]
            );
            let replay = house.engine.replay(&house.caller, view.run).await.expect("a replay");
            assert!(replay.ok, "{replay:?}");
        }
    });
}

#[test]
fn a_cancel_that_a_crash_cut_short_goes_on_at_the_next_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }] },
        { "text": "late", "delay_ms": 60_000 } ]);
    let parent = die_after({
        let (directory, rules) = (directory.path().to_owned(), rules.clone());
        async move {
            let house = House::at(&directory, Plan::new(rules));
            let started = house.start(ask("alice", "x"), Interest::None).await;
            let parked = house.until(&started.view.key(), |view| view.status == Status::Waiting).await;
            // The cancel is journaled, and the process dies before it reached the child.
            let body = Body::StopRequested(Stop::Cancelled { reason: None });
            let record = Record { seq: parked.seq + 1, at: parked.accepted_at, body };
            let records = vec![Redactor::new([""; 0]).clean(record)];
            let append = Append { key: parked.key(), expected: parked.seq, records, exclusive_session: false };
            let entry = Entry::append(house.store_epoch, append);
            house.store.commit(entry).await.expect("journaled");
            parked
        }
    });
    die_after({
        let directory = directory.path().to_owned();
        async move {
            let house = House::at(&directory, Plan::new(rules));
            house.engine.resume().await.expect("resumed");
            let ended = house.engine.wait(&house.caller, parent.run, None).await.expect("an end");
            assert_eq!(ended.status, Status::Cancelled);
            let child = house.children(&parent).await.remove(0);
            assert_eq!(
                (child.status, child.error.expect("an error").code.as_str()),
                (Status::Cancelled, "parent_ended")
            );
            assert!(house.engine.replay(&house.caller, parent.run).await.expect("a replay").ok);
        }
    });
}

#[test]
fn a_follower_of_a_run_that_this_process_has_not_taken_up_ends_with_the_journal() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = json!([{ "text": "late", "delay_ms": 60_000 }]);
    let left = die_after({
        let (directory, rules) = (directory.path().to_owned(), rules.clone());
        async move {
            let house = House::at(&directory, Plan::new(rules));
            let started = house.start(ask("alice", "x"), Interest::None).await;
            house.until(&started.view.key(), |view| view.status == Status::Running).await
        }
    });
    die_after({
        let directory = directory.path().to_owned();
        async move {
            let house = House::at(&directory, Plan::new(rules));
            let events = house.engine.follow(&house.caller, left.run, 0, Interest::Events).await.expect("a run");
            let events = tokio::time::timeout(Duration::from_secs(60), events.count()).await.expect("it ends");
            assert_eq!(events as u64, left.seq, "every record, and no end");
        }
    });
}
