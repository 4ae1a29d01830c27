//! Runs that were in flight at three unclean ends are tried in small groups, beside ordinary work.

use std::{path::Path, sync::Arc, time::Duration};

use drawloom_contract::{
    ids::RunKey,
    journal::RunReader,
    record::{Body, Record, Resumed, Status, Trial},
    runs::{Interest, Runs, Start},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    house::{Hand, House, Plan, ask},
    resuming::die_after,
};

/// How long a test waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(60);

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
            let all = suspects.keys.clone();
            suspects.boot(all, move |view| view.strikes == strikes);
        }
        suspects
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A turn of alice takes a hundred days, those of others no time.
    fn plan(&self) -> Plan {
        let rules = json!([{ "when": { "agent": "alice" }, "text": "late", "delay_ms": 8_640_000_000_u64 }, { "text": "done" }]);
        Plan::new(rules)
            .clock(self.clock.clone())
            .config(|config| (config.default_timeout_ms, config.model_turn_timeout_ms) = (0, u64::MAX / 2))
    }

    /// A process that takes up what is unfinished and dies when all of `keys` are as wanted.
    fn boot(
        &self,
        keys: Vec<RunKey>,
        wanted: impl Fn(&drawloom_contract::view::RunView) -> bool + Send + Sync + 'static,
    ) {
        let (path, plan) = (self.path().to_owned(), self.plan());
        die_after(async move {
            let house = House::at(&path, plan);
            house.engine.resume().await.expect("resumed");
            for key in &keys {
                let reached = tokio::time::timeout(PATIENCE, house.until(key, &wanted));
                reached.await.expect("in time");
            }
        });
    }

    /// The next process, with the first group on trial.
    async fn on_trial(&self, plan: Plan) -> House {
        let house = House::at(self.path(), plan);
        assert_eq!(house.engine.resume().await.expect("resumed").suspects, self.keys.len());
        house.until(&self.keys[0], |view| view.strikes == 3).await;
        house
    }
}

/// The trial that a run is on, as its journal says.
async fn trial_of(house: &House, key: &RunKey) -> Option<Trial> {
    let records = house.store.read_journal(key, 0, 1_000).await.expect("a journal");
    let last = records.iter().rev().find_map(|record| match &record.body {
        Body::Resumed(resumed) => Some(resumed.trial),
        _ => None,
    });
    last.flatten()
}

/// The code of a run's error, once it has ended.
async fn end_of(house: &House, key: &RunKey) -> (Status, Option<String>) {
    let ended = tokio::time::timeout(PATIENCE, house.engine.wait(&house.caller, key.run, None));
    let ended = ended.await.expect("an end in time").expect("an end");
    (ended.status, ended.error.as_ref().map(|error| error.code.clone()))
}

#[test]
fn the_group_on_trial_is_halved_at_each_death_and_only_the_one_that_was_alone_twice_is_quarantined() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 4]);
    let keys = &suspects.keys;
    // Whoever is on trial dies with the process; the others of the four never come to their turn.
    for (strikes, group) in [(3, 2), (4, 1), (5, 1)] {
        suspects.boot(keys[..group].to_vec(), move |view| view.strikes == strikes);
    }
    let (path, plan, keys) = (suspects.path().to_owned(), suspects.plan(), keys.clone());
    die_after(async move {
        let house = House::at(&path, plan);
        let rows = house.store.list_unfinished().await.expect("a readable store").runs;
        assert_eq!(rows.iter().map(|view| view.strikes).collect::<Vec<_>>(), [5, 3, 2, 2]);
        assert_eq!(trial_of(&house, &keys[0]).await, Some(Trial { group: 1, alone: 2 }));
        let report = house.engine.resume().await.expect("resumed");
        assert_eq!((report.quarantined, report.suspects), (1, 3));
        assert_eq!(end_of(&house, &keys[0]).await, (Status::Failed, Some("quarantined".to_owned())));
        house.until(&keys[1], |view| view.strikes == 4).await;
        assert_eq!(
            trial_of(&house, &keys[1]).await,
            Some(Trial { group: 1, alone: 1 }),
            "the other of the two is next"
        );
    });
}

#[test]
fn ordinary_runs_do_not_wait_for_suspects() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 2]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan()).await;
        // The clock stands still, so the trial goes on for as long as it likes.
        let beside = house.start(ask("bob", "y"), Interest::None).await.view;
        assert!(beside.warnings.is_empty(), "{:?}", beside.warnings);
        assert_eq!(end_of(&house, &beside.key()).await, (Status::Completed, None));
        assert_eq!(trial_of(&house, &suspects.keys[0]).await, Some(Trial { group: 1, alone: 1 }));
    });
}

#[test]
fn a_trial_without_news_ends_after_its_time_and_the_next_group_is_tried() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 2]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan()).await;
        // Its time counts from when the trial sees that it was taken up, which may be a little later than the record says.
        let next = house.until(&suspects.keys[1], |view| view.strikes == 3);
        let turning = async {
            loop {
                suspects.clock.turn(Duration::from_secs(30));
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = turning => {}
            next = tokio::time::timeout(PATIENCE, next) => drop(next.expect("the next group is tried")),
        }
        let records = house.store.read_journal(&suspects.keys[1], 0, 1_000).await.expect("a journal");
        let alone = |record: &Record| {
            matches!(&record.body, Body::Resumed(Resumed { trial: Some(Trial { group: 1, alone: 1 }), .. }))
        };
        assert!(records.iter().any(alone), "{records:?}");
        let pardoned = async {
            while trial_of(&house, &suspects.keys[0]).await.is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, pardoned).await.expect("the first is on trial no more");
        // Turns count from when the model is asked, which may be a little later than the record says.
        let turning = async {
            loop {
                suspects.clock.turn(Duration::from_secs(86_400));
                tokio::task::yield_now().await;
            }
        };
        let ends = async {
            for key in &suspects.keys {
                assert_eq!(end_of(&house, key).await, (Status::Completed, None));
            }
        };
        tokio::select! {
            () = turning => {}
            () = ends => {}
        }
    });
}

#[test]
fn a_trial_begins_when_the_run_has_its_slot() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 2]);
    die_after(async move {
        let house = House::at(suspects.path(), suspects.plan().config(|config| config.max_concurrent_runs = 1));
        // Another run has the only slot before suspects are looked at.
        let other = house.start(ask("alice", "y"), Interest::None).await.view;
        assert_eq!(house.engine.resume().await.expect("resumed").suspects, 2);
        for _ in 0..1_000 {
            suspects.clock.turn(Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
        let waiting = house.engine.load(&house.caller, suspects.keys[0].run).await.expect("the row");
        assert_eq!(waiting.strikes, 2, "it was not taken up");
        assert!(house.engine.cancel(&house.caller, other.run, None).await.expect("a run").cancelled);
        let taken_up = house.until(&suspects.keys[0], |view| view.strikes == 3);
        tokio::time::timeout(PATIENCE, taken_up).await.expect("it has the slot");
        assert_eq!(trial_of(&house, &suspects.keys[0]).await, Some(Trial { group: 1, alone: 1 }));
    });
}

#[test]
fn a_suspect_that_was_cancelled_is_passed_over_at_once() {
    let suspects = Suspects::new(vec![ask("alice", "x"); 5]);
    die_after(async move {
        let house = suspects.on_trial(suspects.plan()).await;
        // Of the first group one that is on trial and two that are or come; nobody turns the clock.
        for key in [&suspects.keys[3], &suspects.keys[2], &suspects.keys[1], &suspects.keys[0]] {
            assert!(house.engine.cancel(&house.caller, key.run, None).await.expect("a run").cancelled);
        }
        let last = house.until(&suspects.keys[4], |view| view.strikes == 3);
        tokio::time::timeout(PATIENCE, last).await.expect("the last has its turn at once");
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
