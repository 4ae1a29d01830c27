//! The formats that commands share: ids only, JSON, YAML, wide tables.

use serde_json::Value;

use crate::support::Home;

fn yaml(home: &Home, arguments: &[&str]) -> Value {
    let text = home.run(&[arguments, &["-o", "yaml"]].concat()).exits(0).stdout;
    home.write("answer.yaml", &text);
    let path = home.path().join("answer.yaml");
    drawloom::config::read_value(&path).unwrap_or_else(|error| panic!("{error:?} in\n{text}"))
}

#[test]
fn yaml_is_the_same_answer_as_json() {
    let home = Home::new();
    let server = home.serve();
    let run = home.run(&["run", "echo", "two\n\nlines: yes", "-o", "json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("an id");
    for arguments in [
        &["runs", "show", run][..],
        &["runs", "list"],
        &["agents", "list"],
        &["models", "ls"],
        &["call", "list_agents"],
        &["config", "schema"],
    ] {
        let json = home.run(&[arguments, &["--json"]].concat()).exits(0).json();
        assert_eq!(yaml(&home, arguments), json, "{arguments:?}");
    }
    let error = home.run(&["runs", "show", "r_00000000000000000000000000000000", "-o", "yaml"]).exits(2);
    assert!(error.stdout.starts_with("error:\n  code: unknown_run\n") && error.stderr.is_empty(), "{error:?}");
    // Several answers are several documents.
    let documents = home.run(&["runs", "tail", run, "-o", "yaml"]).exits(0).stdout;
    assert!(documents.matches("---\n").count() > 2, "{documents}");
    drop(server);
}

#[test]
fn quiet_prints_ids_or_names_and_nothing_else() {
    let home = Home::new();
    let _server = home.serve();
    let waited = home.run(&["run", "echo", "one", "-q"]).exits(0);
    let left = home.run(&["run", "echo", "two", "-q", "--detach"]).exits(0);
    assert_eq!((waited.stderr.as_str(), left.stderr.as_str()), ("", ""));
    let listed = home.run(&["runs", "ls", "-q"]).exits(0).stdout;
    assert_eq!(listed, format!("{}{}", left.stdout, waited.stdout));
    assert_eq!(home.run(&["run", "echo", "boom", "-q"]).exits(1).stdout.lines().count(), 1);
    assert_eq!(home.run(&["agents", "ls", "-q"]).exits(0).stdout, "echo\n");
    assert_eq!(home.run(&["models", "ls", "-q"]).exits(0).stdout, "script/test\n");
    home.run(&["memory", "set", "style", "short"]).exits(0);
    assert_eq!(home.run(&["memory", "ls", "-q"]).exits(0).stdout, "style\n");
    for list in ["skills", "artifacts"] {
        let arguments: &[&str] = if list == "artifacts" { &[list, "ls", "last", "-q"] } else { &[list, "ls", "-q"] };
        assert_eq!(home.run(arguments).exits(0).stdout, "");
    }
    let both = home.run(&["runs", "list", "-q", "--json"]).exits(2);
    assert!(both.stderr.contains("cannot be used with"), "{both:?}");
}

#[test]
fn the_config_has_a_short_option_and_wide_tables_are_not_cut() {
    let home = Home::new();
    std::fs::rename(home.path().join("drawloom.yaml"), home.path().join("team.yaml")).expect("a config");
    let narrow = home.run(&["agents", "list", "-c", "team.yaml", "--width", "40"]).exits(0).stdout;
    let wide = home.run(&["agents", "list", "-c", "team.yaml", "--width", "40", "-o", "wide"]).exits(0).stdout;
    assert!(!narrow.contains("may spawn") && wide.contains("may spawn"), "{narrow}{wide}");
    assert!(wide.contains("Says it again.") && !wide.contains('…'), "{wide}");
    assert!(home.run(&["agents", "list", "-o", "xml"]).exits(2).stderr.contains("wide"));
}

#[test]
fn logs_and_scripts_are_also_for_programs() {
    let home = Home::new();
    home.run(&["run", "echo", "hi"]).exits(0);
    let log = home.run(&["logs", "--json"]).exits(0).stdout;
    assert!(log.lines().count() > 0);
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line.is_object());
    }
    let script = home.run(&["completions", "bash", "--json"]).exits(0).json();
    assert!(script["script"].as_str().is_some_and(|text| text.contains("--data-dir")), "globals are completed");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error_and_a_reader_that_went_away_is_none() {
    let home = Home::new();
    for arguments in [&["agents", "list"][..], &["agents", "list", "--json"], &["config", "schema"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device of Linux");
        let ran = home.finish(home.command(arguments).stdout(full)).exits(1);
        assert!(ran.stderr.contains("error: the output is not complete: No space left on device"), "{ran:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ran = home.finish(home.command(arguments).stdout(writer)).exits(0);
        assert_eq!(ran.stderr, "", "{arguments:?}");
    }
}
