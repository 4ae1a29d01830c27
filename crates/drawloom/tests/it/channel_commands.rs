//! The commands for what readers of channels do, and what `channels list` and the questions before a removal say.

use serde_json::{Value, json};

use crate::{support::Home, terminal::Terminal};

fn home() -> Home {
    let home = Home::new();
    home.run(&["channels", "create", "jobs", "--embedded"]).exits(0);
    home.run(&["channels", "create", "news", "--broadcast", "--embedded"]).exits(0);
    home
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    home.run(&[arguments, &["--embedded", "--json"]].concat()).exits(0).json()
}

/// The channel in the list.
fn listed(home: &Home, name: &str) -> Value {
    home.run(&["channels", "list", name, "--json"]).exits(0).json()["channels"][0].take()
}

#[test]
fn members_of_a_group_give_back_extend_and_wait_by_commands() {
    let home = home();
    assert_eq!(json(&home, &["channels", "broadcast", "{\"n\": 1}", "jobs", "news"])["published"], 2);
    let waited = json(&home, &["channels", "await", "jobs", "news", "--all", "--wait", "1s"]);
    assert_eq!((&waited["satisfied"], &waited["fired"]), (&json!(true), &json!(["jobs", "news"])));
    let lease = |answer: &Value| answer["messages"][0]["lease"].as_str().expect("a lease").to_owned();
    let first = lease(&json(&home, &["channels", "read", "jobs", "--group", "ci"]));
    let extended = json(&home, &["channels", "extend", "jobs", &first, "--group", "ci", "--for", "5m"]);
    let second = extended["leases"][0].as_str().expect("a lease").to_owned();
    assert_eq!((&extended["lease_ms"], second == first), (&json!(300_000), false));
    assert_eq!(json(&home, &["channels", "nak", "jobs", &second, "--group", "ci"])["settled"], 1);
    let again = json(&home, &["channels", "read", "jobs", "--group", "ci"]);
    assert_eq!(again["messages"][0]["attempt"], 2);
    home.run(&["channels", "ack", "jobs", "--group", "ci", "--lease", &lease(&again), "--embedded"]).exits(0);
    home.run(&["channels", "await", "jobs", "--wait", "0s", "--consumer", "x", "--embedded"]).exits(2);
    let changed = json(&home, &["channels", "update", "jobs", "--max-messages", "7", "--ttl", "1h", "--lease", "30s"]);
    let fields = |changed: &Value| json!([changed["max_messages"], changed["default_ttl"], changed["lease_ms"]]);
    assert_eq!(fields(&changed), json!([7, 3_600, 30_000]));
    let changed = json(&home, &["channels", "update", "jobs", "--ttl", "none"]);
    assert_eq!(fields(&changed), json!([7, null, 30_000]));
    // Memory has the same for changes by what a key holds.
    json(&home, &["memory", "set", "visits", "1"]);
    assert_eq!(json(&home, &["memory", "change", "visits", "incr", "-3"])["value"], -2);
    let merged = json(&home, &["memory", "change", "limits", "merge", "{\"files\": 30}"]);
    assert_eq!(merged["value"], json!({ "files": 30 }));
    let list = ["memory", "change", "seen", "bounded-list"];
    home.run(&[&list[..], &["a"]].concat()).exits(2);
    assert_eq!(json(&home, &[&list[..], &["a", "--limit", "2"]].concat())["value"], json!(["a"]));
}

#[test]
fn the_list_says_how_many_messages_are_unread_and_by_whom() {
    let home = home();
    for number in ["1", "2", "3"] {
        json(&home, &["channels", "publish", "jobs", number]);
        json(&home, &["channels", "publish", "news", number]);
    }
    assert_eq!(listed(&home, "jobs")["unread_count"], 3, "nothing has read yet");
    json(&home, &["channels", "read", "jobs"]);
    let jobs = listed(&home, "jobs");
    assert_eq!((&jobs["message_count"], &jobs["unread_count"]), (&json!(3), &json!(0)), "{jobs}");
    json(&home, &["channels", "read", "jobs", "--group", "ci", "--max", "1"]);
    json(&home, &["channels", "read", "news", "--consumer", "screen", "--max", "2"]);
    let text = home.run(&["channels", "list"]).exits(0).stdout;
    assert!(text.contains("group/ci 3") && text.contains("user/default/screen 1"), "{text}");
}

#[test]
fn messages_are_removed_on_a_terminal_after_a_question() {
    let home = home();
    json(&home, &["channels", "publish", "jobs", "1"]);
    let terminal = Terminal::open(&home, "100");
    for (command, question) in [
        ("drawloom channels purge jobs --embedded", "Remove all messages of jobs (1 message, 1 unread)? [y/N]"),
        ("drawloom channels rm jobs --embedded", "Delete the channel jobs (1 message, 1 unread)? [y/N]"),
    ] {
        terminal.type_line(command);
        terminal.wait_until("the question", |screen| screen.contains(question));
        terminal.type_line("n");
        terminal.wait_until("the answer", |screen| screen.contains("nothing was removed"));
        assert_eq!(listed(&home, "jobs")["message_count"], 1);
        terminal.type_line("clear");
        terminal.wait_until("a clear screen", |screen| !screen.contains("nothing was removed"));
    }
    terminal.type_line("drawloom channels purge jobs --yes --embedded");
    terminal.wait_until("the end", |screen| screen.contains("removed 1 message of jobs"));
    // A script is not asked.
    home.run(&["channels", "rm", "jobs", "--embedded"]).exits(0);
}

#[test]
fn an_unknown_channel_is_told_with_what_there_is_or_what_to_do() {
    let none = Home::new().run(&["channels", "purge", "jobs", "--embedded"]).exits(2).stderr;
    assert!(none.contains("hint: add it under `channels` in the config, or make it with `drawloom channels"), "{none}");
    let some = home().run(&["channels", "purge", "jbos", "--embedded"]).exits(2).stderr;
    assert!(some.contains("did you mean \"jobs\"? (add it under `channels`"), "{some}");
}
