//! Sessions: joined by one unfinished run at a time.

use drawloom_contract::{
    ids::RunKey,
    journal::{Append, CommitError, Entry},
    record::Accepted,
};

use crate::fixtures::{Bench, accepted, admitted, after, begin, completed, key, run_id, session_id, tenant};

/// A run that joins the session of run 1.
fn join(number: u64) -> Append {
    let accepted = Accepted { session: session_id(1), ..accepted(number) };
    Append { exclusive_session: true, ..begin(accepted, []) }
}

#[tokio::test]
async fn a_session_is_joined_when_it_exists_and_nobody_is_at_work_in_it() {
    let bench = Bench::new();
    let commit = |append| bench.commit(Entry::append(bench.epoch, append));
    assert_eq!(commit(join(2)).await, Err(CommitError::UnknownSession(session_id(1))));
    bench.append(begin(accepted(1), [admitted()])).await;
    assert_eq!(commit(join(2)).await, Err(CommitError::SessionBusy { session: session_id(1), run: run_id(1) }));
    bench.append(after(key(1), 2, [completed()])).await;
    bench.append(join(2)).await;
    assert_eq!(commit(join(3)).await, Err(CommitError::SessionBusy { session: session_id(1), run: run_id(2) }));
    bench.append(after(key(2), 1, [completed()])).await;
    bench.append(join(3)).await;
    assert_eq!(bench.view(&key(3)).await.session, session_id(1));
}

#[tokio::test]
async fn two_runs_of_one_entry_cannot_join_the_same_session() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [completed()])).await;
    let entry = Entry { runs: vec![join(2), join(3)], ..Entry::append(bench.epoch, join(4)) };
    assert_eq!(bench.commit(entry).await, Err(CommitError::SessionBusy { session: session_id(1), run: run_id(2) }));
    bench.append(join(2)).await;
}

#[tokio::test]
async fn a_session_ends_at_the_tenants_wall() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [completed()])).await;
    let theirs = Accepted { tenant: tenant("theirs"), session: session_id(1), ..accepted(2) };
    let join = Append { exclusive_session: true, ..begin(theirs, []) };
    assert_eq!(join.key, RunKey { tenant: tenant("theirs"), run: run_id(2) });
    let refused = bench.commit(Entry::append(bench.epoch, join)).await;
    assert_eq!(refused, Err(CommitError::UnknownSession(session_id(1))));
}
