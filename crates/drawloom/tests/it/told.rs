//! What commands say beside their answers: hints with commands, a log that people can read, a token that is not known, notes once.

use crate::{support::Home, terminal::Terminal};

#[test]
fn hints_name_commands_at_a_terminal_and_operations_in_the_api() {
    let home = Home::new();
    let server = home.serve();
    let refused = home.run(&["runs", "show", "r_00000000000000000000000000000000", "--url", &server.url]).exits(2);
    assert!(refused.stderr.contains("hint: `drawloom runs list` lists the runs"), "{refused:#?}");
    let answer = crate::gone::send(&server.url, "GET", "/v1/runs/r_00000000000000000000000000000000", "");
    assert!(answer.contains("list_runs lists the runs") && !answer.contains("drawloom runs"), "{answer}");
}

#[test]
fn the_log_is_text_on_a_terminal_and_json_in_a_pipe() {
    let home = Home::new();
    home.run(&["restart"]).exits(0);
    // A server that has ended has written all of its log.
    home.run(&["stop"]).exits(0);
    let piped = home.run(&["logs"]).exits(0).stdout;
    assert!(piped.lines().all(|line| line.starts_with('{')) && piped.contains("\"message\":\"serving\""), "{piped}");
    let terminal = Terminal::open(&home, "200");
    terminal.type_line("drawloom logs");
    let screen =
        terminal.wait_until("the log", |screen| screen.contains("INFO  serving ") && screen.contains("url=http://"));
    assert!(!screen.contains("{\"timestamp\""), "{screen}");
    terminal.type_line("clear");
    terminal.type_line("drawloom logs --json");
    terminal.wait_until("the log as JSON", |screen| screen.contains("\"message\":\"serving\""));
}

#[test]
fn a_stray_token_is_said_to_be_unset() {
    let home = Home::new();
    home.run(&["restart"]).exits(0);
    for arguments in [&["runs", "list"][..], &["run", "echo", "hi"]] {
        let mut command = home.command(arguments);
        let refused = home.finish(command.env("DRAWLOOM_TOKEN", "0123456789abcdefghijklmnop"));
        assert_ne!(refused.code, 0, "{refused:#?}");
        assert!(refused.stderr.contains("hint: unset DRAWLOOM_TOKEN"), "{arguments:?}: {refused:#?}");
    }
    home.run(&["runs", "list"]).exits(0);
    home.run(&["stop"]).exits(0);
}

#[test]
fn a_note_about_a_state_that_lasts_is_told_once() {
    let home = Home::new();
    let server = home.serve();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let changed = |comment: &str| home.write("drawloom.yaml", &format!("{config}# {comment}\n"));
    let note = "has changed, and the server still uses the old version";
    for comment in ["first", "second"] {
        changed(comment);
        let said = home.run(&["agents", "list"]).exits(0).stderr;
        assert!(said.contains(note), "{comment}: {said}");
        for arguments in [&["agents", "list"][..], &["run", "echo", "hi"]] {
            let said = home.run(arguments).exits(0).stderr;
            assert!(!said.contains(note), "{comment}: told again: {said}");
        }
        assert!(home.run(&["status"]).exits(0).stdout.contains("changed since the server started"));
    }
    server.stop();
}
