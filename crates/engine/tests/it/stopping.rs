use std::{sync::atomic::Ordering, time::Duration};

use drawloom_contract::{
    record::Status,
    runs::{Interest, Runs},
};
use serde_json::json;

use crate::house::{House, Plan, ask};

#[tokio::test]
async fn a_cancel_reaches_queued_running_and_parked_runs_and_all_below() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": [
            { "name": "bob", "prompt": "p" }, { "name": "bob", "prompt": "q" }] } }] },
        { "text": "late", "delay_ms": 60_000 } ]);
    let house = House::new(Plan::new(rules).config(|config| config.max_concurrent_runs = 1));
    let parked = house.start(ask("alice", "x"), Interest::Outcome).await;
    house.until(&parked.view.key(), |view| view.status == Status::Waiting).await;
    let queued = house.start(ask("carol", "x"), Interest::Outcome).await;
    assert_eq!(
        house.engine.positions(&[queued.view.key()]).into_values().collect::<Vec<_>>(),
        [2],
        "behind the second child"
    );

    let cancelled = house.engine.cancel(&house.caller, queued.view.run, None).await.expect("cancelled");
    assert!(cancelled.cancelled && cancelled.view.status == Status::Cancelled);
    assert_eq!(house.finish(queued).await.status, Status::Cancelled);

    let cancelled =
        house.engine.cancel(&house.caller, parked.view.run, Some("enough".into())).await.expect("cancelled");
    assert_eq!((cancelled.cancelled, cancelled.cascaded.len()), (true, 2));
    let parked = house.finish(parked).await;
    assert_eq!(parked.error.expect("an error").message, "the run was cancelled: enough");
    for child in house.children(&cancelled.view).await {
        assert_eq!((child.status, child.error.expect("an error").code.as_str()), (Status::Cancelled, "parent_ended"));
    }
    let again = house.engine.cancel(&house.caller, parked.run, None).await.expect("nothing to do");
    assert!(!again.cancelled);
    let load = house.engine.load_now();
    assert_eq!((load.active, load.queued), (0, 0), "every slot came back");
}

#[tokio::test]
async fn a_graceful_stop_lets_steps_in_flight_come_to_their_record_and_begins_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Probe", "input": { "ms": 80, "say": "once" } }], "delay_ms": 1 },
        { "text": "{{last}}" } ]);
    let house = House::at(directory.path(), Plan::new(rules.clone()));
    let started = house.start(ask("alice", "x"), Interest::Outcome).await;
    while house.probed.lock().expect("no panic while held").is_empty() {
        tokio::task::yield_now().await;
    }
    let report = house.engine.stop().await;
    assert_eq!(report.abandoned, 0);
    assert_eq!(*house.kinds(&started.view).await.last().expect("records"), "call_done");
    assert_eq!(house.meter.calls.load(Ordering::SeqCst), 1, "no second turn");
    let refused =
        house.engine.start(&house.caller, ask("alice", "x"), None, Interest::None).await.err().expect("refused");
    assert_eq!(refused.code, "stopping");
    house.store.close().await.expect("closed");
    drop((house, started.live));

    let house = House::at(directory.path(), Plan::new(rules));
    assert_eq!(house.engine.resume().await.expect("resumed").resumed, 1);
    let view = house.engine.wait(&house.caller, started.view.run, None).await.expect("an end");
    assert_eq!(view.final_text.as_deref(), Some("probed once"));
    assert!(house.probed.lock().expect("no panic while held").is_empty(), "the call was not made again");
}

#[tokio::test]
async fn what_does_not_drain_in_time_is_abandoned_and_counted() {
    let rules = json!([{ "text": "late", "delay_ms": 60_000 }]);
    let house = House::new(Plan::new(rules).config(|config| config.drain_timeout_ms = 30));
    let started = house.start(ask("alice", "x"), Interest::None).await;
    let report = tokio::time::timeout(Duration::from_secs(10), house.engine.stop()).await.expect("in time");
    assert_eq!(report.abandoned, 1);
    assert_eq!(*house.kinds(&started.view).await.last().expect("records"), "turn_started");
}

#[tokio::test]
async fn a_last_turn_that_comes_while_the_server_stops_ends_its_run() {
    let house = House::new(Plan::new(json!([{ "text": "just in time", "delay_ms": 60 }])));
    let started = house.start(ask("alice", "x"), Interest::Outcome).await;
    assert_eq!(house.engine.stop().await.abandoned, 0);
    let view = house.finish(started).await;
    assert_eq!((view.status, view.final_text.as_deref()), (Status::Completed, Some("just in time")));
}

#[tokio::test]
async fn a_cancel_is_carried_out_although_its_caller_has_gone() {
    let house = House::new(Plan::new(json!([{ "text": "late", "delay_ms": 60_000 }])));
    let started = house.start(ask("alice", "x"), Interest::None).await;
    house.until(&started.view.key(), |view| view.status == Status::Running).await;
    // Polled once, then dropped, as when a client hangs up.
    let cancel = house.engine.cancel(&house.caller, started.view.run, None);
    assert!(futures::FutureExt::now_or_never(cancel).is_none());
    house.until(&started.view.key(), |view| view.status == Status::Cancelled).await;
}
