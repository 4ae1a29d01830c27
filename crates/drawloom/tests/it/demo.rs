//! `demo`: what a newcomer sees first.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::support::Home;

#[test]
fn the_demo_needs_nothing_and_shows_a_real_fan_out() {
    let home = Home::new();
    std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it is there");
    let ran = home.run(&["demo"]).exits(0);
    for chapter in ["warp", "weft", "shed", "heddle", "drawcord", "cloth"] {
        assert!(ran.stdout.contains(&format!("{chapter}.md: ")), "{ran:?}");
    }
    assert!(ran.stdout.contains("curl -s http://127.0.0.1:8787/v1/runs"), "{ran:?}");
    assert!(!home.data().exists(), "it keeps away from the data directory");
    // What it prints can be run as it is.
    let commands: Vec<&str> = ran.stdout.lines().filter_map(|line| line.trim().strip_prefix("drawloom ")).collect();
    assert_eq!(commands.len(), 2, "{ran:?}");
    for command in commands {
        let command = command.replace("<home>", &home.path().to_string_lossy());
        let shown = home.run(&command.split(' ').collect::<Vec<_>>()).exits(0);
        assert!(shown.stdout.contains("lead"), "{shown:?}");
    }
    home.run(&["demo"]).exits(0);
}

#[test]
fn the_demo_in_json_has_its_children_in_the_order_they_were_asked_for() {
    let json = Home::new().run(&["demo", "--json"]).exits(0).json();
    assert_eq!(json["run"]["status"], "completed");
    let texts: Vec<&str> =
        json["children"].as_array().expect("children").iter().filter_map(|run| run["final_text"].as_str()).collect();
    let names: Vec<&str> = texts.iter().filter_map(|text| text.split('.').next()).collect();
    assert_eq!(names, ["warp", "weft", "shed", "heddle", "drawcord", "cloth"]);
}

#[test]
fn the_demo_can_be_left_serving_and_does_the_same_over_the_api() {
    let home = Home::new();
    let mut child =
        home.command(&["demo", "--keep"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let curl = lines.into_iter().find(|line| line.contains("curl -s ")).expect("it shows the curl line");
    let url = curl.trim().trim_start_matches("curl -s ").split("/v1/runs").next().expect("an address").to_owned();
    let body = curl.split("-d '").nth(1).and_then(|rest| rest.strip_suffix('\'')).expect("a body");
    home.write("body.json", body);
    let run = home.run(&["call", "spawn_run", "--json", "body.json", "--url", &url]).exits(0).json();
    assert_eq!(run["status"], "completed", "{run}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn an_interrupt_ends_the_demo() {
    let home = Home::new();
    let mut child = home.command(&["demo"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    lines.next().expect("it begins to tell").expect("text");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("the demo was interrupted"), "{ended:?}");
}
