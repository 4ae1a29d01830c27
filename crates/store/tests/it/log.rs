//! The write-ahead log: folded into the file while commits go on.

use crate::fixtures::{Bench, accepted, after, begin, key, note};

#[tokio::test]
async fn under_steady_load_the_log_starts_again_and_again() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [])).await;
    let log = bench.store.file().with_extension("db-wal");
    let mut longest = 0;
    for seq in 1..=288 {
        // A megabyte that no other record shares.
        let text = format!("{seq:08}").repeat(128 * 1024);
        bench.append(after(key(1), seq, [note(&text)])).await;
        longest = longest.max(std::fs::metadata(&log).expect("the log is there").len());
    }
    let longest = longest / (1024 * 1024);
    assert!(longest < 232, "the log grew to {longest} MiB while 288 MiB were written");
    assert_eq!(bench.records(&key(1)).await.len(), 289);
    bench.store.close().await.expect("an orderly end");
    assert_eq!(std::fs::metadata(&log).map_or(0, |log| log.len()), 0, "nothing is left in the log");
}
