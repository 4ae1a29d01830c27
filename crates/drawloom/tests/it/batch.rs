//! Batches that are larger than a server takes at once.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::support::Home;

/// A file with this many runs.
fn write_batch(home: &Home, count: usize) {
    let runs: Vec<Value> =
        (0..count).map(|place| json!({ "agent": "echo", "prompt": format!("number {place}") })).collect();
    home.write("batch.json", &json!(runs).to_string());
}

fn all_runs(home: &Home) -> Vec<Value> {
    let list = home.run(&["runs", "list", "--limit", "200", "--json"]).exits(0).json();
    list["runs"].as_array().expect("runs").clone()
}

#[test]
fn a_batch_of_100_that_is_killed_continues_and_runs_each_entry_once() {
    let home = Home::new();
    let _server = home.serve();
    write_batch(&home, 100);
    let mut killed = home.command(&["batch", "batch.json"]).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(killed.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.starts_with("batch 2 of 4: b_") {
        line.clear();
        assert_ne!(said.read_line(&mut line).expect("text"), 0, "it ended before its second part");
    }
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let started = all_runs(&home).len();
    assert!((64..=100).contains(&started), "{started} runs were started");

    let rerun = home.run(&["batch", "batch.json", "--json"]).exits(0).json();
    let results = rerun["results"].as_array().expect("results");
    let texts: Vec<&str> = results.iter().filter_map(|run| run["final_text"].as_str()).collect();
    let expected: Vec<String> = (0..100).map(|place| format!("number {place}")).collect();
    assert_eq!(texts, expected, "one list, in the order of the file");
    let places: Vec<u64> = results.iter().filter_map(|run| run["index"].as_u64()).collect();
    assert_eq!(places, (0..100).collect::<Vec<u64>>());
    assert_eq!((&rerun["spawned"], &rerun["not_started"], &rerun["status"]), (&json!(100), &json!(0), &json!("done")));
    assert!(rerun["already_done"].as_u64().is_some_and(|done| done >= 32), "{}", rerun["already_done"]);
    assert_eq!(rerun["batch_ids"].as_array().map(Vec::len), Some(4));

    let runs = all_runs(&home);
    let ids: BTreeSet<&str> = results.iter().filter_map(|run| run["run_id"].as_str()).collect();
    assert_eq!((runs.len(), ids.len()), (100, 100), "each entry ran once");

    let again = home.run(&["batch", "batch.json"]).exits(0);
    assert!(again.stderr.contains("100 of 100 completed"), "{}", again.stderr);
    assert!(again.stderr.contains("100 of 100 runs were already done; --fresh starts all of them again"), "{again:?}");
    assert_eq!(all_runs(&home).len(), 100);
}

#[test]
fn a_small_file_is_one_batch_that_fresh_starts_again() {
    let home = Home::new();
    write_batch(&home, 3);
    let first = home.run(&["batch", "batch.json", "--json"]).exits(0).json();
    let same = home.run(&["batch", "batch.json", "--json"]).exits(0).json();
    assert_eq!((&same["batch_id"], &same["already_done"]), (&first["batch_id"], &json!(3)));
    assert_eq!(first["already_done"], 0);
    let fresh = home.run(&["batch", "batch.json", "--fresh", "--json"]).exits(0).json();
    assert_ne!(fresh["batch_id"], first["batch_id"]);
    // Prompts on the command line are new runs every time.
    for _ in 0..2 {
        let prompts = home.run(&["batch", "--agent", "echo", "one", "two", "--json"]).exits(0).json();
        assert_eq!(prompts["already_done"], 0);
    }
    assert_eq!(all_runs(&home).len(), 10);
    let quiet = home.run(&["batch", "batch.json", "-q"]).exits(0);
    assert_eq!((quiet.stdout.trim(), quiet.stderr.as_str()), (first["batch_id"].as_str().expect("an id"), ""));
}

#[test]
fn failed_runs_are_started_again_when_that_is_asked() {
    let home = Home::new();
    let runs = json!([{ "agent": "echo", "prompt": "one" }, { "agent": "echo", "prompt": "boom" }]);
    home.write("batch.json", &runs.to_string());
    let first = home.run(&["batch", "batch.json"]).exits(1);
    assert!(first.stderr.contains("--retry-failed starts the runs again that did not complete"), "{first:?}");
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.write("drawloom.yaml", &config.replace("contains: boom", "contains: bang"));
    let restarted = home.run(&["restart"]).exits(0);
    assert!(restarted.stderr.contains("`listen` of the config is not used"), "{restarted:?}");
    assert_eq!(home.run(&["batch", "batch.json", "--json"]).exits(1).json()["already_done"], 2);
    for already_done in [1, 2] {
        let retried = home.run(&["batch", "batch.json", "--retry-failed", "--json"]).exits(0).json();
        assert_eq!(retried["results"][1]["final_text"], "boom", "{retried}");
        assert_eq!(retried["already_done"], already_done);
    }
    assert_eq!(all_runs(&home).len(), 3);
    // The newest attempt counts, with the plain command too.
    let plain = home.run(&["batch", "batch.json"]).exits(0);
    assert!(plain.stderr.contains("2 of 2 completed"), "{plain:?}");
    let plain = home.run(&["batch", "batch.json", "--json"]).exits(0).json();
    let (first, retry) = (&plain["results"][1]["retry_of"], &plain["results"][1]["run_id"]);
    let shown = home.run(&["runs", "show", first.as_str().expect("a run")]).exits(0).stdout;
    assert!(shown.contains(&format!("retried as {}", retry.as_str().expect("a run"))), "{shown}");
    let shown = home.run(&["runs", "show", retry.as_str().expect("a run")]).exits(0).stdout;
    assert!(shown.contains(&format!("retry of  {}", first.as_str().expect("a run"))), "{shown}");
}

#[test]
fn an_interrupt_cancels_what_was_started_and_a_rerun_starts_the_rest() {
    let home = Home::new();
    let mut runs: Vec<Value> =
        (0..40).map(|place| json!({ "agent": "echo", "prompt": format!("number {place}") })).collect();
    runs[..32].iter_mut().for_each(|run| run["prompt"] = json!("slow"));
    home.write("batch.json", &json!(runs).to_string());
    let _server = home.serve();
    let mut batch = home.command(&["batch", "batch.json"]).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(batch.stderr.take().expect("a pipe"));
    let mut text = String::new();
    said.read_line(&mut text).expect("text");
    assert!(text.starts_with("batch 1 of 2: b_"), "{text}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&batch), rustix::process::Signal::INT)
        .expect("it runs");
    said.read_to_string(&mut text).expect("text");
    assert_eq!(batch.wait().expect("it ends").code(), Some(1), "{text}");
    assert!(text.contains("0 of 40 completed") && text.contains("8 runs were not started"), "{text}");
    assert_eq!(all_runs(&home).len(), 32);
    let rerun = home.run(&["batch", "batch.json", "--json"]).exits(1).json();
    assert_eq!((&rerun["already_done"], &rerun["spawned"]), (&json!(32), &json!(40)));
    assert_eq!(rerun["results"][39]["status"], "completed");
    assert_eq!(all_runs(&home).len(), 40);
}

#[test]
fn a_large_batch_is_started_whole_when_nobody_waits() {
    let home = Home::new();
    write_batch(&home, 40);
    let ids = home.run(&["batch", "batch.json", "--detach"]).exits(0).stdout;
    assert_eq!(ids.lines().filter(|line| line.starts_with("b_")).count(), 2, "{ids}");
    assert_eq!(all_runs(&home).len(), 40);
}
