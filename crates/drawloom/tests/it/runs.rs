//! Looking at runs, following them, stopping them, folding them again.

use serde_json::Value;

use crate::support::Home;

fn first_run(home: &Home) -> String {
    let list = home.run(&["runs", "list", "--json"]).exits(0).json();
    list["runs"][0]["run_id"].as_str().expect("a run").to_owned()
}

#[test]
fn runs_are_listed_newest_first() {
    let home = Home::new();
    assert_eq!(home.run(&["runs", "list"]).exits(0).stdout, "no runs\n");
    home.run(&["run", "echo", "one"]).exits(0);
    home.run(&["run", "echo", "boom"]).exits(1);
    let list = home.run(&["runs", "list", "--json"]).exits(0).json();
    let statuses: Vec<&Value> = list["runs"].as_array().expect("runs").iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["failed", "completed"]);
    let failed = home.run(&["runs", "list", "--status", "failed,cancelled", "--json"]).exits(0).json();
    assert_eq!(failed["runs"].as_array().map(Vec::len), Some(1));
    let table = home.run(&["runs", "list"]).exits(0).stdout;
    assert!(table.contains("model_refused: the model refused: it went boom"), "{table}");
}

#[test]
fn the_journal_can_be_read_without_a_config() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it is there");
    let run = first_run(&home);
    let tail = home.run(&["runs", "tail", &run]).exits(0).stdout;
    assert!(
        tail.contains("» hello\n") && tail.lines().last().is_some_and(|line| line.contains("✓ completed")),
        "{tail}"
    );
    home.run(&["replay", &run]).exits(0);
    home.run(&["stop"]).exits(0);
    assert_eq!(first_run(&home), run);
    home.run(&["runs", "tail", &run]).exits(0);
    home.run(&["replay", &run]).exits(0);
    home.run(&["run", "echo", "hello"]).exits(2);
}

#[test]
fn a_run_is_shown_with_its_text() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    let run = first_run(&home);
    let shown = home.run(&["runs", "show", &run]).exits(0).stdout;
    assert!(shown.contains("status    completed (end_turn)\n") && shown.ends_with("\n\nhello\n"), "{shown}");
    let handle = home.run(&["runs", "show", &run, "--json"]).json()["agent_id"].as_str().expect("one").to_owned();
    assert_eq!(home.run(&["runs", "show", &handle, "--json"]).exits(0).json()["run_id"], run.as_str());
    let nobody = home.run(&["runs", "show", "r_00000000000000000000000000000000"]).exits(2);
    assert!(nobody.stderr.starts_with("error: "), "{nobody:?}");
    home.run(&["runs", "show", "not a handle"]).exits(2);
}

#[test]
fn the_events_of_a_run_that_ended_can_be_read_again() {
    let home = Home::new();
    home.run(&["run", "echo", "read it"]).exits(0);
    let run = first_run(&home);
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    let kinds: Vec<String> = events
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("a line of JSON")["type"].as_str().expect("a type").into()
        })
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("agent"));
    assert_eq!(kinds.last().map(String::as_str), Some("done"));
    assert!(kinds.iter().any(|kind| kind == "tool_result"), "{kinds:?}");
    let last: Value = serde_json::from_str(events.lines().last().expect("events")).expect("JSON");
    let seq = last["seq"].as_u64().expect("a number");
    let rest = home.run(&["runs", "tail", &run, "--json", "--from", &(seq - 1).to_string()]).exits(0).stdout;
    assert_eq!(rest.lines().count(), 1, "{rest}");
    let tail = home.run(&["runs", "tail", &run, "--since", "1h"]).exits(0).stdout;
    assert!(tail.contains("→ Read note.txt\n") && tail.contains("remember the milk"), "{tail}");
    assert_eq!(home.run(&["runs", "tail", &run, &run]).exits(0).stdout.lines().count(), tail.lines().count() * 2);
}

#[test]
fn a_run_that_has_ended_cannot_be_cancelled() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    let run = first_run(&home);
    let ran = home.run(&["runs", "cancel", &run]).exits(0);
    assert_eq!(ran.stdout, format!("{run} had ended: completed\n"));
}

#[test]
fn a_journal_folds_again_to_the_same_decisions() {
    let home = Home::new();
    home.run(&["run", "echo", "read it"]).exits(0);
    let run = first_run(&home);
    let replay = home.run(&["replay", &run, "--json"]).exits(0).json();
    assert_eq!(replay["ok"], true);
    let shown = home.run(&["replay", &run]).exits(0).stdout;
    assert!(shown.contains("0 of them differ today"), "{shown}");
    home.run(&["replay", "r_00000000000000000000000000000000"]).exits(2);
}
