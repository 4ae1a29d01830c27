//! How long each operation takes. The limits are far above what is measured: they find a process too many, not a slow machine.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use drawloom_checkout::{Kind, Merge, Oid};

use crate::support::{AT, GOAL, Room, verify, write};

#[tokio::test]
async fn operations_are_quick() {
    let room = Room::new();
    for number in 0..500 {
        room.write(&format!("many/{}/{number}.txt", number % 20), &format!("file {number}\n"));
    }
    room.commit("many files");
    let mut times = Vec::new();
    let begun = Instant::now();
    let prepared = room.prepare().await;
    times.push(("prepare", begun.elapsed()));
    let mut head: Oid = prepared.base.clone();
    for round in 0..5 {
        let name = format!("w{round}");
        let begun = Instant::now();
        let path = room.checkouts.add(GOAL, &name, &prepared.base, Kind::Writer).await.expect("added").path;
        times.push(("add", begun.elapsed()));
        write(&path.join(format!("new{round}.txt")), "new\n");
        write(&path.join(format!("many/1/{}.txt", round * 20 + 1)), "changed\n");
        let begun = Instant::now();
        let commit = room.checkpoint(&name, "k1").await.commit.expect("a commit");
        times.push(("checkpoint", begun.elapsed()));
        let begun = Instant::now();
        room.checkpoint(&name, "k2").await;
        times.push(("checkpoint of nothing", begun.elapsed()));
        let begun = Instant::now();
        let merged = room.checkouts.merge(GOAL, &head, &commit, "m", AT).await.expect("merged");
        times.push(("merge", begun.elapsed()));
        let Merge::Merged { commit, .. } = merged else { panic!("{merged:?}") };
        head = commit;
        let begun = Instant::now();
        room.checkouts.verify(GOAL, &verify(&head, "true")).await.expect("verified");
        times.push(("verify true", begun.elapsed()));
    }
    for name in ["prepare", "add", "checkpoint", "checkpoint of nothing", "merge", "verify true"] {
        let mut all: Vec<Duration> = times.iter().filter(|(of, _)| *of == name).map(|(_, time)| *time).collect();
        all.sort();
        let median = all[all.len() / 2];
        writeln!(std::io::stderr(), "{name}: {median:?}").expect("standard error");
        assert!(median < Duration::from_secs(3), "{name} takes {median:?}");
    }
}
