use std::time::Duration;

use drawloom_contract::{
    model::TurnError,
    record::{Body, Status},
    runs::{Interest, Runs as _},
    wait::Cause,
};
use serde_json::json;

use crate::{
    house::{House, Plan, ask},
    providers::Bearing,
};

fn throttled() -> TurnError {
    TurnError::Throttled { message: "too many".into(), retry_after: None }
}

fn throttled_for_a_while() -> TurnError {
    TurnError::Throttled { message: "too many".into(), retry_after: Some(Duration::from_millis(100)) }
}

fn overloaded() -> TurnError {
    TurnError::Overloaded { message: "too much".into(), retry_after: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_is_borne_and_no_run_fails_for_it() {
    for refuse in [throttled, throttled_for_a_while, overloaded] {
        let model = Bearing::new(5, refuse);
        let plan = Plan::new(json!([]))
            .config(|config| config.max_concurrent_runs = 200)
            .provider("busy", model.clone())
            .agent("alice", |agent| agent.provider = "busy".into());
        let house = House::new(plan);
        let mut started = Vec::new();
        for _ in 0..200 {
            started.push(house.start(ask("alice", "x"), Interest::Outcome).await);
        }
        for started in started {
            let view = house.finish(started).await;
            assert_eq!(view.status, Status::Completed, "{:?}", view.error);
        }
        let calls = model.calls();
        let last_third = &calls[calls.len() * 2 / 3..];
        let refused = last_third.iter().filter(|call| call.refused).count();
        assert!(refused * 10 < last_third.len(), "{refused} of {} refused", last_third.len());
        let most = last_third.iter().map(|call| call.in_flight).max().expect("calls");
        assert!((4..=6).contains(&most), "{most}");
        let load = house.engine.load_now();
        let busy = &load.providers["busy"];
        assert_eq!((busy.calls_in_flight, busy.throttled), (0, 0), "{busy:?}");
        assert!(busy.call_limit.is_some_and(|limit| (4..=7).contains(&limit)), "{busy:?}");
    }
}

#[tokio::test]
async fn a_run_that_waits_for_room_gives_its_slot_back_and_can_be_cancelled() {
    let model = Bearing::new(0, throttled);
    let plan = Plan::new(json!([{ "text": "done" }]))
        .config(|config| config.max_concurrent_runs = 1)
        .provider("busy", model)
        .agent("alice", |agent| agent.provider = "busy".into());
    let house = House::new(plan);
    let started = house.start(ask("alice", "x"), Interest::None).await;
    let key = started.view.key();
    let parked = house.until(&key, |view| view.status == Status::Waiting).await;
    let records = house.journal(&parked).await;
    let on = records.iter().rev().find_map(|record| match &record.body {
        Body::Parked { wait } => Some(wait.on.clone()),
        _ => None,
    });
    assert_eq!(on, Some(vec![Cause::RateLimit]));
    // The only slot is free for somebody else.
    assert_eq!(house.run("bob", "y").await.status, Status::Completed);
    let cancelled = house.engine.cancel(&house.caller, key.run, None).await.expect("a run");
    assert_eq!(cancelled.view.status, Status::Cancelled);
    assert_eq!(house.engine.load_now().providers["busy"].throttled, 0);
}
