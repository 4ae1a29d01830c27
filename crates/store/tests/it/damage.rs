//! A damaged file: what is damaged says so, everything else goes on.

use drawloom_contract::journal::{RunReader as _, StoreError};
use drawloom_store::Opened;

use crate::fixtures::{Bench, accepted, after, begin, key, note, open};

const PAGE: usize = 4096;

#[tokio::test]
async fn a_damaged_page_fails_the_run_on_it_and_no_other() {
    let bench = Bench::new();
    for number in 1..=60 {
        // Each run's record fills most of a page, so that a page holds one of them.
        let text = format!("<mark-{number}>{}", "x".repeat(3_000));
        bench.append(begin(accepted(number), [note(&text)])).await;
    }
    let file = bench.store.file().to_owned();
    bench.store.close().await.expect("an orderly end");
    let mut bytes = std::fs::read(&file).expect("a readable file");
    let mark = bytes.windows(9).position(|window| window == b"<mark-30>").expect("the record is in the file");
    let page = mark / PAGE * PAGE;
    bytes[page..page + PAGE].fill(0xA5);
    std::fs::write(&file, bytes).expect("a writable file");

    let Opened { store, epoch, .. } = open(&bench.directory);
    let bench = Bench { store, epoch, directory: bench.directory };
    let damaged = bench.store.read_journal(&key(30), 0, usize::MAX).await;
    assert!(matches!(&damaged, Err(StoreError::Corrupt { detail, .. }) if detail.contains("malformed")), "{damaged:?}");
    assert!(matches!(bench.store.integrity().await, Err(StoreError::Corrupt { .. })));
    assert_eq!(bench.records(&key(3)).await.len(), 2, "a run on another page");
    assert_eq!(bench.store.check().await, Ok(()));
    bench.append(after(key(58), 2, [note("on")])).await;
    bench.append(begin(accepted(61), [])).await;
    assert_eq!(bench.records(&key(58)).await.len(), 3);
}

#[tokio::test]
async fn an_entry_that_meets_a_damaged_page_fails_without_its_neighbours() {
    let bench = Bench::new();
    for number in 1..=200 {
        // Long names, so that the rows fill many pages.
        let long = drawloom_contract::record::Accepted {
            model: format!("<row-{number}>{}", "m".repeat(800)),
            ..accepted(number)
        };
        bench.append(begin(long, [])).await;
    }
    let file = bench.store.file().to_owned();
    bench.store.close().await.expect("an orderly end");
    let mut bytes = std::fs::read(&file).expect("a readable file");
    let page_of = |number: u64| {
        // The name stands in the table of runs and, between quotes, in the journal.
        let mark = format!("<row-{number}>");
        let marks = bytes.windows(mark.len()).enumerate().filter(|(_, window)| *window == mark.as_bytes());
        let row = marks.map(|(at, _)| at).find(|at| bytes[at - 1] != b'"').expect("the row is in the file");
        row / PAGE * PAGE
    };
    // A leaf of the table, which other rows are not reached through.
    let is_leaf = |number: &u64| bytes[page_of(*number)] == 0x0A;
    let damaged = (50..150).find(is_leaf).expect("most pages are leaves");
    let page = page_of(damaged);
    assert!(page != page_of(1) && page != page_of(200), "the rows of one page");
    bytes[page..page + PAGE].fill(0xA5);
    std::fs::write(&file, bytes).expect("a writable file");

    let Opened { store, epoch, .. } = open(&bench.directory);
    let bench = Bench { store, epoch, directory: bench.directory };
    let commits: Vec<_> = [1, damaged, 200]
        .map(|number| {
            let (store, epoch) = (bench.store.clone(), bench.epoch);
            let entry = drawloom_contract::journal::Entry::append(epoch, after(key(number), 1, [note("on")]));
            (number, tokio::spawn(async move { drawloom_contract::journal::Journal::commit(&*store, entry).await }))
        })
        .into();
    for (number, commit) in commits {
        let committed = commit.await.expect("a commit that ends");
        assert_eq!(committed.is_ok(), number != damaged, "run {number}: {committed:?}");
    }
    assert!(matches!(bench.store.find_run(&key(damaged)).await, Err(StoreError::Corrupt { .. })));
    assert_eq!(bench.view(&key(200)).await.seq, 2);
}
