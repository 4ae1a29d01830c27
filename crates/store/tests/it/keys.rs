//! Idempotency keys: the same request twice is one run.

use drawloom_contract::{
    caller::Visible,
    ids::{Digest, Tenant},
    journal::{CommitError, Entry, NewBatch, RunReader as _},
    once::{Answered, HandleId, Made, Once, RequestKey},
    values::ChangeError,
};
use drawloom_store::Opened;

use crate::fixtures::{Bench, accepted, batch_id, begin, key, member, open, run_id, tenant};

fn request(bench: &Bench, number: u64, body: &str) -> Entry {
    keyed(request_key(body), HandleId::Run(run_id(number)), Entry::append(bench.epoch, begin(accepted(number), [])))
}

fn keyed(key: RequestKey, handle: HandleId, entry: Entry) -> Entry {
    Entry { once: Some(Once::Request { key, made: Made::Handle(handle) }), ..entry }
}

fn made(number: u64) -> Answered {
    Answered::Handle(HandleId::Run(run_id(number)))
}

fn request_key(body: &str) -> RequestKey {
    RequestKey {
        tenant: Tenant::default_tenant(),
        subject: "ada".parse().expect("a valid name"),
        operation: "spawn_run",
        key: Digest::of(b"key"),
        body: Digest::of(body.as_bytes()),
    }
}

#[tokio::test]
async fn the_same_request_is_one_run_and_another_body_a_conflict() {
    let bench = Bench::new();
    bench.commit(request(&bench, 1, "body")).await.expect("the first of them");
    assert_eq!(bench.commit(request(&bench, 2, "body")).await, Err(CommitError::Repeated(made(1))));
    assert_eq!(bench.commit(request(&bench, 3, "other")).await, Err(CommitError::Refused(ChangeError::KeyReused)));
    assert_eq!(bench.store.find_run(&key(2)).await, Ok(None));
}

#[tokio::test]
async fn a_key_belongs_to_its_tenant_subject_and_operation() {
    let bench = Bench::new();
    bench.commit(request(&bench, 1, "body")).await.expect("the first of them");
    let others = [
        RequestKey { tenant: tenant("theirs"), ..request_key("body") },
        RequestKey { subject: "grace".parse().expect("a valid name"), ..request_key("body") },
        RequestKey { operation: "spawn_batch", ..request_key("body") },
        RequestKey { key: Digest::of(b"another"), ..request_key("body") },
    ];
    for (number, other) in (2..).zip(others) {
        let entry = keyed(other, HandleId::Run(run_id(number)), request(&bench, number, "body"));
        bench.commit(entry).await.expect("another key");
    }
}

#[tokio::test]
async fn of_many_concurrent_requests_with_one_key_one_makes_the_run() {
    let bench = Bench::new();
    let commits = (1..=64).map(|number| {
        let (store, entry) = (bench.store.clone(), request(&bench, number, "body"));
        tokio::spawn(async move { (number, drawloom_contract::journal::Journal::commit(&*store, entry).await) })
    });
    let mut first = None;
    let mut repeated = Vec::new();
    for commit in commits.collect::<Vec<_>>() {
        match commit.await.expect("a commit that ends") {
            (number, Ok(_)) => assert_eq!(first.replace(run_id(number)), None, "two runs were made"),
            (_, Err(CommitError::Repeated(Answered::Handle(HandleId::Run(run))))) => repeated.push(run),
            (number, other) => panic!("request {number}: {other:?}"),
        }
    }
    let first = first.expect("one of them made the run");
    assert_eq!(repeated, vec![first; 63]);
}

#[tokio::test]
async fn a_key_survives_a_restart_and_a_refused_request_leaves_none() {
    let bench = Bench::new();
    bench.commit(Entry::append(bench.epoch, begin(accepted(1), []))).await.expect("a run");
    // The run exists, so the request is refused; its key must go with it.
    assert!(matches!(bench.commit(request(&bench, 1, "body")).await, Err(CommitError::Conflict { .. })));
    bench.commit(request(&bench, 2, "body")).await.expect("the key is free");
    bench.store.close().await.expect("an orderly end");
    let Opened { store, epoch, .. } = open(&bench.directory);
    let bench = Bench { store, epoch, directory: bench.directory };
    assert_eq!(bench.commit(request(&bench, 3, "body")).await, Err(CommitError::Repeated(made(2))));
}

#[tokio::test]
async fn a_repeated_batch_is_found_by_its_handle() {
    let bench = Bench::new();
    let entry = |batch| {
        let handle = HandleId::Batch(batch_id(batch));
        let user = "ada".parse().expect("a valid name");
        let new = NewBatch { tenant: Tenant::default_tenant(), batch: batch_id(batch), user, size: 2 };
        Entry {
            runs: vec![begin(member(batch * 10, batch, 0), []), begin(member(batch * 10 + 1, batch, 1), [])],
            once: Some(Once::Request { key: request_key("batch"), made: Made::Handle(handle) }),
            batch: Some(new),
            ..Entry::append(bench.epoch, begin(accepted(99), []))
        }
    };
    bench.commit(entry(1)).await.expect("the first of them");
    assert_eq!(
        bench.commit(entry(2)).await,
        Err(CommitError::Repeated(Answered::Handle(HandleId::Batch(batch_id(1)))))
    );
    assert_eq!(bench.store.list_batch(&Visible::whole(Tenant::default_tenant()), batch_id(2)).await, Ok(None));
}

#[tokio::test]
async fn what_a_key_was_used_for_can_be_asked_before_a_request_is_made() {
    let bench = Bench::new();
    let asked = request_key("other");
    assert_eq!(bench.store.find_request(&asked).await, Ok(None));
    bench.commit(request(&bench, 1, "body")).await.expect("the first of them");
    assert_eq!(bench.store.find_request(&asked).await, Ok(Some((Digest::of(b"body"), made(1)))));
    let theirs = RequestKey { tenant: tenant("theirs"), ..asked };
    assert_eq!(bench.store.find_request(&theirs).await, Ok(None));
}
