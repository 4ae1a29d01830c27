//! What the command line says of itself.

use crate::support::Home;

#[test]
fn the_binary_alone_explains_itself() {
    let alone = Home::new().run(&[]).exits(0);
    insta::assert_snapshot!("alone", alone.stdout);
    assert_eq!(Home::new().run(&["--help"]).exits(0).stdout, alone.stdout);
}

#[test]
fn every_command_has_help() {
    let home = Home::new();
    let mut all = String::new();
    for command in [
        "init",
        "import claude-code",
        "skills ls",
        "serve",
        "mcp",
        "mcp install",
        "run",
        "batch",
        "runs",
        "runs list",
        "runs show",
        "runs tail",
        "runs cancel",
        "replay",
        "agents",
        "agents list",
        "models",
        "models list",
        "validate",
        "config",
        "config schema",
        "trust",
        "doctor",
        "backup",
        "restore",
        "prune",
        "demo",
        "call",
        "completions",
    ] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.push("--help");
        let help = home.run(&arguments).exits(0).stdout;
        // What every command takes is shown once, by the binary alone.
        let own = help.split("\nWhere things are:").next().unwrap_or_default();
        all.push_str(&format!("$ drawloom {command} --help\n{}\n\n", own.trim_end()));
    }
    insta::assert_snapshot!("commands", all);
}

#[test]
fn a_command_line_that_makes_no_sense_exits_2() {
    let home = Home::new();
    for arguments in [&["serv"][..], &["run"], &["runs", "list", "--limit", "0"], &["runs", "list", "--status", "x"]] {
        let ran = home.run(arguments).exits(2);
        assert!(ran.stderr.starts_with("error: "), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn completions_are_printed_for_a_shell() {
    let ran = Home::new().run(&["completions", "bash"]).exits(0);
    assert!(ran.stdout.contains("complete -F _drawloom"), "{}", ran.stdout.len());
}
