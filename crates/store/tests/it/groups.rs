//! Group commit: many entries, one sync, and no entry that disturbs its neighbours.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use drawloom_contract::{
    ids::Digest,
    journal::{CommitError, Committed, Entry, Journal as _},
    once::{HandleId, Made, Once, RequestKey},
    record::Accepted,
};
use drawloom_store::{Options, Stats, Store, Synchronous};
use tokio::task::JoinHandle;

use crate::fixtures::{Bench, accepted, admitted, after, at, begin, key, note, run_id};

/// Keeps the writer from its file until all commits that were started wait for it.
struct Gate {
    connection: rusqlite::Connection,
    started: Arc<AtomicUsize>,
    commits: Vec<JoinHandle<Result<Committed, CommitError>>>,
}

impl Gate {
    fn shut(bench: &Bench) -> Self {
        let connection = rusqlite::Connection::open(bench.store.file()).expect("the store's file");
        connection.execute_batch("BEGIN IMMEDIATE").expect("nobody writes yet");
        Self { connection, started: Arc::default(), commits: Vec::new() }
    }

    fn start(&mut self, bench: &Bench, entry: Entry) {
        let (store, started) = (bench.store.clone(), Arc::clone(&self.started));
        self.commits.push(tokio::spawn(async move {
            // There is one thread, so whoever reads this count next finds the entry on its way too.
            started.fetch_add(1, Ordering::Relaxed);
            store.commit(entry).await
        }));
    }

    /// What the commits came to, in the order they were started.
    async fn open(self) -> Vec<Result<Committed, CommitError>> {
        while self.started.load(Ordering::Relaxed) < self.commits.len() {
            tokio::task::yield_now().await;
        }
        self.connection.execute_batch("COMMIT").expect("nothing was written");
        let mut outcomes = Vec::new();
        for commit in self.commits {
            outcomes.push(commit.await.expect("a commit that ends"));
        }
        outcomes
    }
}

#[tokio::test]
async fn entries_that_come_together_share_a_sync() {
    let bench = Bench::new();
    let mut gate = Gate::shut(&bench);
    for number in 1..=500 {
        gate.start(&bench, Entry::append(bench.epoch, begin(accepted(number), [admitted()])));
    }
    let outcomes = gate.open().await.into_iter();
    let mut positions: Vec<u64> = outcomes.map(|outcome| outcome.expect("a run that begins").position).collect();
    let Stats { commits, syncs, entries, records, largest_group, .. } = bench.store.stats();
    assert_eq!((entries, records, syncs), (500, 1_000, commits));
    assert!(commits <= 3 && largest_group > 100, "{commits} commits, at most {largest_group} entries in one");
    positions.sort_unstable();
    assert_eq!(positions, (1..=500).map(|entry| entry * 2).collect::<Vec<_>>(), "positions have no gap");
}

#[tokio::test]
async fn a_bad_entry_among_good_ones_fails_alone() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [])).await;
    let bad = |number: u64| match number % 4 {
        // A conflict in its second run, a handle in use, a run that is there, a run that is behind.
        0 => Entry {
            runs: vec![begin(accepted(number), []), after(key(1), 9, [note("x")])],
            ..Entry::append(bench.epoch, begin(accepted(number), []))
        },
        1 => {
            let taken = Accepted { agent_id: accepted(1).agent_id, ..accepted(number) };
            let key = RequestKey {
                tenant: taken.tenant.clone(),
                subject: taken.user.clone(),
                operation: "spawn_run",
                key: Digest::of(&number.to_be_bytes()),
                body: Digest::of(b"body"),
            };
            let made = Made::Handle(HandleId::Run(run_id(number)));
            Entry { once: Some(Once::Request { key, made }), ..Entry::append(bench.epoch, begin(taken, [])) }
        }
        2 => Entry::append(bench.epoch, begin(accepted(1), [])),
        _ => Entry::append(bench.epoch, after(key(1), 5, [note("x")])),
    };
    let is_bad = |number: u64| number.is_multiple_of(3);
    let mut gate = Gate::shut(&bench);
    for number in 2..=201 {
        let good = || Entry::append(bench.epoch, begin(accepted(number), []));
        gate.start(&bench, if is_bad(number) { bad(number) } else { good() });
    }
    for (number, outcome) in (2..).zip(gate.open().await) {
        let is_bad = is_bad(number);
        match outcome {
            Ok(_) => assert!(!is_bad, "entry {number} was written"),
            Err(CommitError::Conflict { .. } | CommitError::AgentIdInUse { .. }) => {
                assert!(is_bad, "entry {number} was not written");
            }
            Err(other) => panic!("entry {number}: {other}"),
        }
    }
    for number in 1..=201 {
        let records = bench.records(&key(number)).await.len();
        assert_eq!(records, usize::from(number == 1 || number % 3 != 0), "records of run {number}");
    }
    assert!(bench.store.stats().largest_group > 50, "nothing was grouped, so nothing was shown");
    assert_eq!(bench.store.integrity().await, Ok(()));
}

#[tokio::test]
async fn a_commit_whose_caller_went_away_does_not_stop_the_writer() {
    let bench = Bench::new();
    for number in 1..=20 {
        let commit = bench.store.commit(Entry::append(bench.epoch, begin(accepted(number), [])));
        // Dropped before or after the entry reached the writer: both may be.
        _ = tokio::time::timeout(std::time::Duration::ZERO, commit).await;
    }
    bench.append(begin(accepted(99), [])).await;
    assert_eq!(bench.records(&key(99)).await.len(), 1);
}

#[tokio::test]
async fn a_store_without_syncs_says_so() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { synchronous: Synchronous::Off, ..Options::new(directory.path()) };
    let opened = Store::open(&options, at(1)).expect("a store that opens");
    opened.store.commit(Entry::append(opened.epoch, begin(accepted(1), []))).await.expect("a run that begins");
    let stats = opened.store.stats();
    assert_eq!((stats.commits, stats.syncs), (1, 0));
}
