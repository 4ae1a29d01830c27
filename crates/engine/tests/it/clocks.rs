//! A wall clock that is set back and forth by days: no wait ends late, none ends early, and what is decided after a restart
//! says so.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Committed, Entry, Journal},
    record::{Body, Status},
    runs::{Interest, Runs, Start},
    view::RunView,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    house::{Hand, House, Plan, ask},
    resuming::die_after,
};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

const DAY_MS: i64 = 86_400_000;

/// Ten days back, and twenty forward.
const JUMPS: [i64; 2] = [-10 * DAY_MS, 20 * DAY_MS];

fn house(rules: Value, change: impl FnOnce(Plan) -> Plan) -> (House, Arc<Hand>) {
    let clock = Hand::new();
    (House::new(change(Plan::new(rules).clock(clock.clone()))), clock)
}

fn slow() -> Value {
    json!([{ "text": "late", "delay_ms": 3_600_000 }])
}

async fn end(house: &House, view: &RunView) -> (Status, Option<String>) {
    let ended = tokio::time::timeout(PATIENCE, house.engine.wait(&house.caller, view.run, None));
    let ended = ended.await.expect("an end in time").expect("an end");
    (ended.status, ended.error.as_ref().map(|error| error.code.clone()))
}

fn timed_out(code: &str) -> (Status, Option<String>) {
    (Status::TimedOut, Some(code.to_owned()))
}

#[tokio::test]
async fn deadlines_end_runs_after_their_time_and_not_before() {
    for jump in JUMPS {
        let (house, clock) = house(slow(), |plan| plan);
        let by_timeout = Start { timeout_ms: Some(60_000), ..ask("alice", "x") };
        let by_run_timeout = Start { run_timeout_ms: Some(60_000), ..ask("bob", "x") };
        let mut views = Vec::new();
        for start in [by_timeout, by_run_timeout] {
            views.push(house.start(start, Interest::None).await.view);
        }
        clock.set(jump);
        clock.turn(Duration::from_secs(59));
        // A run that begins and ends meanwhile: whatever was due has happened by then.
        let other = Start { timeout_ms: Some(500), ..ask("carol", "x") };
        let other = house.start(other, Interest::None).await.view;
        clock.turn(Duration::from_millis(500));
        assert_eq!(end(&house, &other).await, timed_out("timeout"));
        for view in &views {
            let now = house.engine.load(&house.caller, view.run).await.expect("a row");
            assert_eq!(now.status, Status::Running, "after a jump by {jump} ms");
        }
        clock.turn(Duration::from_secs(1));
        for view in &views {
            assert_eq!(end(&house, view).await, timed_out("timeout"), "after a jump by {jump} ms");
            let ended = house.engine.load(&house.caller, view.run).await.expect("a row");
            let message = ended.error.expect("an error").message;
            assert!(!message.contains("set forward"), "it had its whole time: {message}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_set_at_every_moment_ends_nothing_early() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 },
          "calls": [{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }] },
        { "text": "done" },
    ]);
    let (house, clock) = house(rules, |plan| plan);
    clock.set_at_each_look(DAY_MS);
    for start in [
        Start { timeout_ms: Some(60_000), ..ask("alice", "x") },
        Start { run_timeout_ms: Some(60_000), ..ask("alice", "x") },
    ] {
        let view = house.start(start, Interest::None).await.view;
        assert_eq!(end(&house, &view).await, (Status::Completed, None));
        let child = house.children(&view).await.remove(0);
        assert_eq!((child.status, child.error), (Status::Completed, None));
    }
}

/// Back at each look: what is counted from two looks would wait for days. Forward: it would not wait at all.
#[tokio::test]
async fn a_clock_that_is_set_at_every_moment_neither_stalls_nor_shortens_a_wait() {
    let rules = json!([
        { "when": { "attempt": 1 }, "fail": { "kind": "throttled", "retry_after_ms": 30_000 } }, { "text": "done" } ]);
    for leap in [-DAY_MS, DAY_MS] {
        let (house, clock) = house(rules.clone(), |plan| plan.config(|config| config.default_timeout_ms = 0));
        clock.set_at_each_look(leap);
        let view = house.start(ask("alice", "x"), Interest::None).await.view;
        house.until(&view.key(), |view| view.status == Status::Waiting).await;
        let turned = std::cell::Cell::new(Duration::ZERO);
        let turning = async {
            for _ in 0..100_000 {
                clock.turn(Duration::from_millis(100));
                turned.set(turned.get() + Duration::from_millis(100));
                tokio::task::yield_now().await;
                if turned.get() > Duration::from_secs(60) {
                    return;
                }
            }
        };
        let ended = async { assert_eq!(end(&house, &view).await, (Status::Completed, None), "leaps of {leap} ms") };
        let ended = async {
            ended.await;
            assert!(turned.get() >= Duration::from_secs(29), "after {:?}, leaps of {leap} ms", turned.get());
        };
        let mut ended = std::pin::pin!(ended);
        tokio::select! {
            biased;
            () = &mut ended => continue,
            () = turning => {}
        }
        // Its time is up; only its end is still on its way.
        ended.await;
    }
}

#[tokio::test]
async fn queued_runs_give_up_after_their_time() {
    for jump in JUMPS {
        let (house, clock) = house(slow(), |plan| {
            plan.config(|config| (config.max_concurrent_runs, config.queue_timeout_ms) = (1, 60_000))
        });
        house.start(ask("alice", "x"), Interest::None).await;
        let queued = house.start(ask("bob", "x"), Interest::None).await.view;
        clock.set(jump);
        clock.turn(Duration::from_secs(60));
        assert_eq!(end(&house, &queued).await, timed_out("queue_timeout"), "after a jump by {jump} ms");
    }
}

#[tokio::test]
async fn a_run_that_was_told_to_wait_goes_on_after_that_time() {
    let rules = json!([
        { "when": { "attempt": 1 }, "fail": { "kind": "throttled", "retry_after_ms": 30_000 } }, { "text": "done" } ]);
    for jump in JUMPS {
        let (house, clock) = house(rules.clone(), |plan| plan.config(|config| config.default_timeout_ms = 0));
        let view = house.start(ask("alice", "x"), Interest::None).await.view;
        house.until(&view.key(), |view| view.status == Status::Waiting).await;
        clock.set(jump);
        // The timer is set right after the record, which may be a little later than this.
        let turning = async {
            for _ in 0..1_000_000 {
                clock.turn(Duration::from_secs(31));
                tokio::task::yield_now().await;
            }
        };
        let ended =
            async { assert_eq!(end(&house, &view).await, (Status::Completed, None), "after a jump by {jump} ms") };
        tokio::select! {
            () = turning => panic!("it goes on within the time that was turned"),
            () = ended => {}
        }
    }
}

#[tokio::test]
async fn a_child_has_what_is_left_of_its_parents_time() {
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "delay_ms": 10_000,
          "calls": [{ "tool": "Agent", "input": { "name": "bob", "prompt": "p" } }] },
        { "when": { "agent": "bob" }, "text": "done", "delay_ms": 10_000 },
        { "text": "{{last}}" } ]);
    for jump in JUMPS {
        let (house, clock) = house(rules.clone(), |plan| plan);
        let start = Start { timeout_ms: Some(60_000), ..ask("alice", "x") };
        let view = house.start(start, Interest::None).await.view;
        while house.meter.calls.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        clock.set(jump);
        clock.turn(Duration::from_secs(10));
        house.until(&view.key(), |view| view.status == Status::Waiting).await;
        let child = house.children(&view).await.remove(0);
        let deadline = child.deadline.expect("it has its parent's");
        assert_eq!(deadline.since(child.accepted_at), Duration::from_secs(50), "after a jump by {jump} ms");
        // Its turn counts from when the model is asked.
        while house.meter.calls.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        clock.turn(Duration::from_secs(10));
        assert_eq!(end(&house, &view).await, (Status::Completed, None), "after a jump by {jump} ms");
    }
}

/// What becomes of a run with a minute to live, of which 10 s are over, when the wall clock is set while the server restarts.
fn after_restart(jump: i64, parked: bool, then: impl AsyncFnOnce(&House, &Hand, &RunView) + Send + 'static) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Hand::new();
    let rules = match parked {
        true => json!([{ "fail": { "kind": "throttled", "retry_after_ms": 3_600_000 } }]),
        false => slow(),
    };
    let plan = Plan::new(rules).clock(clock.clone());
    let view = die_after({
        let (path, plan, clock) = (directory.path().to_owned(), plan.clone(), clock.clone());
        async move {
            let house = House::at(&path, plan);
            let start = Start { timeout_ms: Some(60_000), ..ask("alice", "x") };
            let view = house.start(start, Interest::None).await.view;
            if parked {
                house.until(&view.key(), |view| view.status == Status::Waiting).await;
            }
            clock.turn(Duration::from_secs(10));
            view
        }
    });
    clock.set(jump);
    let path = directory.path().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let house = House::at(&path, plan);
        house.engine.resume().await.expect("resumed");
        then(&house, &clock, &view).await;
    });
    runtime.shutdown_background();
}

#[test]
fn after_a_restart_a_deadline_is_never_further_away_than_it_was_at_first() {
    for parked in [false, true] {
        after_restart(-10 * DAY_MS, parked, async |house, clock, view| {
            clock.turn(Duration::from_secs(60));
            assert_eq!(end(house, view).await, timed_out("timeout"));
            let ended = house.engine.load(&house.caller, view.run).await.expect("a row");
            let message = ended.error.expect("an error").message;
            assert!(!message.contains("set forward"), "{message}");
        });
    }
}

#[test]
fn after_a_restart_an_end_that_a_clock_set_forward_brought_says_so() {
    for parked in [false, true] {
        after_restart(10 * DAY_MS, parked, async |house, _, view| {
            assert_eq!(end(house, view).await, timed_out("timeout"));
            let ended = house.engine.load(&house.caller, view.run).await.expect("a row");
            let message = ended.error.expect("an error").message;
            assert!(message.contains("the wall clock was set forward by 864000 s"), "{message}");
            assert!(house.engine.replay(&house.caller, view.run).await.expect("a replay").ok);
        });
    }
}

#[test]
fn after_a_restart_what_is_left_is_left() {
    after_restart(0, false, async |house, clock, view| {
        clock.turn(Duration::from_secs(49));
        let now = house.engine.load(&house.caller, view.run).await.expect("a row");
        assert_eq!(now.status, Status::Running);
        clock.turn(Duration::from_secs(1));
        assert_eq!(end(house, view).await, timed_out("timeout"));
    });
}

/// A journal that holds the commit that accepts `agent` back until it may go on.
struct Holds {
    journal: Arc<dyn Journal>,
    agent: &'static str,
    held: Arc<Notify>,
    may_go: Arc<Notify>,
}

#[async_trait]
impl Journal for Holds {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let first = entry.runs.first().and_then(|append| append.records.first());
        if first.is_some_and(
            |record| matches!(&record.body, Body::Accepted(accepted) if accepted.agent.as_str() == self.agent),
        ) {
            self.held.notify_one();
            self.may_go.notified().await;
        }
        self.journal.commit(entry).await
    }
}

/// The time of a run can be up while its acceptance is being written. No task holds a queued run afterwards, so that its timer
/// has to be set again.
#[tokio::test]
async fn a_deadline_that_is_due_before_the_acceptance_is_committed_still_ends_the_run() {
    let (held, may_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (house, clock) = house(slow(), |plan| Plan {
        wrap_journal: {
            let (held, may_go) = (held.clone(), may_go.clone());
            Arc::new(move |journal| {
                Arc::new(Holds { journal, agent: "bob", held: held.clone(), may_go: may_go.clone() })
            })
        },
        ..plan.config(|config| (config.max_concurrent_runs, config.queue_timeout_ms) = (1, 3_600_000))
    });
    house.start(ask("alice", "x"), Interest::None).await;
    let short = |agent: &str| Start { timeout_ms: Some(60_000), ..ask(agent, "x") };
    let bob = house.start(short("bob"), Interest::None);
    let meanwhile = async {
        tokio::time::timeout(PATIENCE, held.notified()).await.expect("bob is being accepted");
        let carol = house.start(short("carol"), Interest::None).await.view;
        clock.turn(Duration::from_secs(60));
        // Carol's timer was set after bob's: when she has ended, his has been due.
        assert_eq!(end(&house, &carol).await, timed_out("timeout"));
        may_go.notify_one();
    };
    let (bob, ()) = futures::join!(bob, meanwhile);
    clock.turn(Duration::from_secs(60));
    assert_eq!(end(&house, &bob.view).await, timed_out("timeout"));
}
