//! Batches: all of their runs, by index.

use drawloom_contract::{
    caller::Visible,
    ids::Tenant,
    journal::{Entry, NewBatch, RunReader as _},
};

use crate::fixtures::{Bench, accepted, batch_id, begin, member, run_id, tenant};

#[tokio::test]
async fn a_batch_shows_its_runs_by_index_and_only_in_its_tenant() {
    let bench = Bench::new();
    let user = "ada".parse().expect("a valid name");
    let new = NewBatch { tenant: Tenant::default_tenant(), batch: batch_id(1), user, size: 3 };
    let entry = Entry {
        // Given out of order: the index says where each belongs.
        runs: vec![begin(member(30, 1, 2), []), begin(member(10, 1, 0), []), begin(member(20, 1, 1), [])],
        batch: Some(new),
        ..Entry::append(bench.epoch, begin(accepted(99), []))
    };
    bench.commit(entry).await.expect("a batch");
    let runs =
        bench.store.list_batch(&Visible::whole(Tenant::default_tenant()), batch_id(1)).await.expect("a readable store");
    let runs: Vec<_> = runs.expect("the batch is there").into_iter().map(|view| view.run).collect();
    assert_eq!(runs, [run_id(10), run_id(20), run_id(30)]);
    assert_eq!(bench.store.list_batch(&Visible::whole(tenant("theirs")), batch_id(1)).await, Ok(None));
    assert_eq!(bench.store.list_batch(&Visible::whole(Tenant::default_tenant()), batch_id(2)).await, Ok(None));
}
