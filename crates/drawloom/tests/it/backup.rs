//! Backup while runs start, restore, and what becomes of what was unfinished.

use std::{fs, thread};

use crate::support::Home;

fn ids(home: &Home) -> Vec<String> {
    let list = home.run(&["runs", "list", "--json", "--limit", "200"]).exits(0).json();
    list["runs"].as_array().expect("runs").iter().map(|run| run["run_id"].as_str().expect("an id").into()).collect()
}

#[test]
fn a_backup_under_load_brings_back_every_run_that_it_holds() {
    let home = Home::new();
    let server = home.serve();
    for _ in 0..5 {
        home.run(&["run", "echo", "before"]).exits(0);
    }
    // Runs start while the copy is made; one never ends.
    home.run(&["run", "echo", "slow", "--detach"]).exits(0);
    let before = ids(&home);
    let file = home.path().join("copy.backup");
    let name = file.to_str().expect("a name");
    let made = thread::scope(|scope| {
        let load =
            scope.spawn(|| (0..8).for_each(|_| drop(home.run(&["run", "echo", "meanwhile", "--detach"]).exits(0))));
        let made = home.run(&["backup", name, "--json"]).exits(0).json();
        load.join().expect("no panic");
        made
    });
    assert!(made["runs"].as_u64() >= Some(6) && made["unfinished"].as_u64() >= Some(1), "{made}");
    let again = home.run(&["backup", name]).exits(2);
    assert!(again.stderr.contains("exists"), "{again:?}");
    let nowhere = home.run(&["backup", "missing/copy.db"]).exits(2);
    assert!(nowhere.stderr.contains("<home>/missing/copy.db: No such file"), "{nowhere:?}");
    assert_eq!(server.stop(), Some(0));

    // Elsewhere: nobody is asked, so it says what it needs to know.
    let elsewhere = Home::new();
    let unsure = elsewhere.run(&["restore", name]).exits(3);
    assert!(unsure.stderr.contains("--resume") && unsure.stderr.contains("--cancel"), "{unsure:?}");
    assert!(!elsewhere.data().join("drawloom.db").exists());
    let restored = elsewhere.run(&["restore", name, "--resume"]).exits(0);
    assert!(restored.stdout.contains("when the server starts: `drawloom restart`"), "{restored:?}");
    let server = elsewhere.serve();
    let there = ids(&elsewhere);
    for run in &before {
        assert!(there.contains(run), "{run} is not in {there:?}");
    }
    let slow = elsewhere.run(&["runs", "list", "--status", "running", "--json"]).exits(0).json();
    assert!(slow["runs"].as_array().is_some_and(|runs| !runs.is_empty()), "the unfinished one goes on: {slow}");
    assert_eq!(server.stop(), Some(0));

    // What is there is not replaced by accident, and unfinished runs can be ended.
    let refused = elsewhere.run(&["restore", name, "--cancel"]).exits(2);
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    elsewhere.run(&["restore", name, "--cancel", "--force"]).exits(0);
    let unfinished = elsewhere.run(&["runs", "list", "--status", "queued,running,waiting", "--json"]).exits(0).json();
    assert_eq!(unfinished["runs"], serde_json::json!([]));
    assert_eq!(ids(&elsewhere).len() as u64, made["runs"].as_u64().expect("a count"));
}

#[test]
fn what_is_no_backup_is_refused_and_a_server_keeps_its_store() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    home.write("text", "this is no backup");
    let refused = home.run(&["restore", "text", "--force"]).exits(1);
    assert!(refused.stderr.contains("not a drawloom store"), "{refused:?}");
    assert!(refused.stderr.contains("pass a whole file that `drawloom backup` wrote"), "{refused:?}");
    home.run(&["restore", "absent", "--force"]).exits(2);
    assert_eq!(ids(&home).len(), 1, "the store is as it was");
    home.run(&["backup", "copy"]).exits(0);
    let _server = home.serve();
    let busy = home.run(&["restore", "copy", "--force"]).exits(2);
    assert!(busy.stderr.contains("is in use"), "{busy:?}");
    fs::remove_file(home.path().join("copy")).expect("it is there");
    let nowhere = Home::new();
    let nothing = nowhere.run(&["backup", "copy"]).exits(1);
    assert!(nothing.stderr.contains("no store found"), "{nothing:?}");
}
