//! Runs that were in flight at three unclean ends are resumed one at a time, and everybody else waits for that.

use std::{path::Path, sync::Arc, time::Duration};

use drawloom_contract::{
    ids::RunKey,
    journal::RunReader,
    record::Status,
    runs::{Interest, Runs, Start},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    house::{Hand, House, Plan, ask},
    resuming::die_after,
};

/// How long a test waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A data directory with runs that were in flight at three unclean ends, in the order in which they are tried.
struct Suspects {
    directory: TempDir,
    clock: Arc<Hand>,
    keys: Vec<RunKey>,
}

impl Suspects {
    fn new(starts: Vec<Start>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Hand::new();
        let mut suspects = Self { directory, clock, keys: Vec::new() };
        suspects.keys = {
            let (path, plan, clock) = (suspects.path().to_owned(), suspects.plan(), suspects.clock.clone());
            die_after(async move {
                let house = House::at(&path, plan);
                let mut keys = Vec::new();
                for start in starts {
                    keys.push(house.start(start, Interest::None).await.view.key());
                    // Ids are in the order of time.
                    clock.turn(Duration::from_millis(1));
                }
                keys
            })
        };
        for strikes in [1, 2] {
            let keys = suspects.keys.clone();
            let (path, plan) = (suspects.path().to_owned(), suspects.plan());
            die_after(async move {
                let house = House::at(&path, plan);
                house.engine.resume().await.expect("resumed");
                for key in keys {
                    house.until(&key, |view| view.strikes == strikes).await;
                }
            });
        }
        suspects
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A turn of alice takes a minute, those of others no time.
    fn plan(&self) -> Plan {
        let rules = json!([{ "when": { "agent": "alice" }, "text": "late", "delay_ms": 60_000 }, { "text": "done" }]);
        Plan::new(rules).clock(self.clock.clone())
    }

    /// The fourth process, with the first suspect on trial.
    async fn on_trial(&self, plan: Plan) -> House {
        let house = House::at(self.path(), plan);
        let unfinished = house.store.list_unfinished().await.expect("a readable store");
        assert_eq!(unfinished.runs.iter().map(|view| view.key()).collect::<Vec<_>>(), self.keys);
        assert_eq!(house.engine.resume().await.expect("resumed").alone, self.keys.len());
        house.until(&self.keys[0], |view| view.strikes == 3).await;
        house
    }
}

/// The code of a run's error, once it has ended.
async fn end_of(house: &House, key: &RunKey) -> (Status, Option<String>) {
    let ended = tokio::time::timeout(PATIENCE, house.engine.wait(&house.caller, key.run, None));
    let ended = ended.await.expect("an end in time").expect("an end");
    (ended.status, ended.error.as_ref().map(|error| error.code.clone()))
}

#[test]
fn a_suspect_that_was_cancelled_is_passed_over_at_once() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 3]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan()).await;
        // The second while it waits, the first on trial; nobody turns the clock.
        for key in [&suspects.keys[1], &suspects.keys[0]] {
            assert!(house.engine.cancel(&house.caller, key.run, None).await.expect("a run").cancelled);
        }
        let third = house.until(&suspects.keys[2], |view| view.strikes == 3);
        tokio::time::timeout(PATIENCE, third).await.expect("the third has its turn at once");
    });
}

#[test]
fn whoever_waits_for_a_suspect_keeps_his_patience_and_is_told_why() {
    let suspects = Suspects::new(vec![ask("alice", "x")]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan().config(|config| config.queue_timeout_ms = 20_000)).await;
        let patient = house.start(ask("bob", "x"), Interest::None).await.view;
        assert_eq!(patient.status, Status::Queued);
        assert!(patient.warnings[0].contains("one at a time"), "{:?}", patient.warnings);
        let urgent = house.start(Start { timeout_ms: Some(22_000), ..ask("carol", "x") }, Interest::None).await.view;
        suspects.clock.turn(Duration::from_secs(25));
        let timeout = (Status::TimedOut, Some("timeout".to_owned()));
        assert_eq!(end_of(&house, &urgent.key()).await, timeout, "a deadline counts all time");
        suspects.clock.turn(Duration::from_secs(5));
        assert_eq!(end_of(&house, &patient.key()).await, (Status::Completed, None));
        let late = house.start(ask("bob", "x"), Interest::None).await.view;
        assert!(late.warnings.is_empty(), "{:?}", late.warnings);
    });
}

#[test]
fn a_suspect_that_waits_for_its_trial_ends_at_its_deadline() {
    let hurried = Start { timeout_ms: Some(20_000), ..ask("alice", "x") };
    let suspects = Suspects::new(vec![ask("alice", "x"), hurried]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan()).await;
        suspects.clock.turn(Duration::from_secs(25));
        let timeout = (Status::TimedOut, Some("timeout".to_owned()));
        assert_eq!(end_of(&house, &suspects.keys[1]).await, timeout);
        let first = house.engine.load(&house.caller, suspects.keys[0].run).await.expect("the row");
        assert_eq!((first.status, first.strikes), (Status::Running, 3), "still on trial");
    });
}

#[test]
fn a_server_that_stops_tries_no_more_suspects() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 2]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan().config(|config| config.drain_timeout_ms = 1_000)).await;
        let (stopped, ()) = tokio::join!(house.engine.stop(), async {
            suspects.clock.turn(Duration::from_secs(1));
        });
        assert_eq!(stopped.abandoned, 1, "the first is still in its turn");
        house.store.close().await.expect("closed");
        let engine = Arc::downgrade(&house.engine);
        drop(house);
        // The time of the first is up, and then its turn ends: nobody holds the engine any more.
        let gone = async {
            while engine.strong_count() > 0 {
                suspects.clock.turn(Duration::from_secs(30));
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("no suspect is taken up from a store that is closed");
    });
}
