//! What the command line says of itself.

use drawloom::cli::Cli;

use crate::support::Home;

/// The last line of every help.
const GLOBALS: &str = "Global options: see `drawloom help options`";

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
        "skills list",
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
        let own = help.trim_end().strip_suffix(GLOBALS).unwrap_or_else(|| panic!("{help}"));
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

#[test]
fn the_global_options_are_behind_one_line() {
    let home = Home::new();
    let options = home.run(&["help", "options"]).exits(0).stdout;
    insta::assert_snapshot!("options", options);
    assert_eq!(home.run(&["options"]).exits(0).stdout, options);
    assert!(!home.run(&["runs", "list", "--help"]).exits(0).stdout.contains("--data-dir"));
}

/// All commands that do something, with their full names.
fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    let below: Vec<_> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
    if below.is_empty() {
        found.push((path.to_owned(), command.clone()));
    }
    for below in below {
        leaves(below, &format!("{path} {}", below.get_name()), found);
    }
}

fn all_leaves() -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    leaves(&Cli::described(), "drawloom", &mut found);
    found.retain(|(path, _)| path != "drawloom options");
    found
}

#[test]
fn every_command_has_json_and_every_list_is_also_ls() {
    for (path, command) in all_leaves() {
        assert!(command.get_arguments().any(|argument| argument.get_id() == "json"), "{path} lacks --json");
        if path.ends_with(" list") {
            assert!(command.get_visible_aliases().any(|alias| alias == "ls"), "{path} lacks ls");
            assert!(command.get_arguments().any(|argument| argument.get_id() == "quiet"), "{path} lacks -q");
        }
    }
}

/// The first example of every command, by the command's full name.
pub(crate) fn first_examples() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, command) in all_leaves() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.split_once("Examples:\n").map(|(_, examples)| examples).unwrap_or_default();
        let mut lines = examples.lines().take_while(|line| !line.is_empty()).map(str::trim);
        if let Some(example) = lines.find(|line| line.contains("drawloom ")) {
            let line = example.split("   ").next().unwrap_or_default();
            let line = line.rsplit("| ").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
            found.push((path, line.trim().to_owned()));
        }
    }
    found
}

#[test]
fn every_command_has_examples_that_parse() {
    let mut checked = 0;
    for (path, command) in all_leaves() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{path} has no examples"));
        let examples = examples.lines().take_while(|line| !line.is_empty());
        for example in examples.map(str::trim).filter(|line| line.contains("drawloom ")) {
            let line = example.split("   ").next().unwrap_or_default();
            let line = line.rsplit("| ").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
            let words = words(line);
            assert!(example.len() < 100, "too long: {example}");
            if let Err(error) = Cli::described().try_get_matches_from(&words) {
                panic!("{example}: {error}");
            }
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked}");
}

/// The words of a command line, as far as examples need a shell.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for sign in line.chars() {
        match sign {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("there is one").push(sign),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn help_lines_begin_with_a_verb_or_a_noun_and_not_with_an_article() {
    for (path, command) in all_leaves() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let arguments = shown.filter_map(|argument| argument.get_help()).map(ToString::to_string);
        for text in arguments.chain([about]) {
            let first = text.split(' ').next().unwrap_or_default();
            assert!(first.starts_with(|sign: char| sign.is_ascii_uppercase()), "{path}: {text}");
            assert!(!["The", "A", "An", "Only", "Whether", "Where", "What", "It"].contains(&first), "{path}: {text}");
        }
    }
}
