//! `validate` on files with many mistakes: all of them are reported at once, each with its place and what to write.

use std::collections::BTreeSet;

use crate::support::Home;

/// A file with more than sixty kinds of mistakes. Keys are put in here: a file with keys would be a mistake of ours.
fn sixty() -> (String, [String; 3]) {
    let keys = [
        format!("sk-ant-{}", "a1".repeat(20)),
        format!("sk-proj-{}", "b2".repeat(20)),
        format!("ghp_{}", "c3".repeat(20)),
    ];
    let text = include_str!("mistakes/sixty.yaml")
        .replace("sk-ant-REPLACED-BY-THE-TEST", &keys[0])
        .replace("sk-proj-REPLACED-BY-THE-TEST", &keys[1])
        .replace("ghp_REPLACED-BY-THE-TEST", &keys[2]);
    (text, keys)
}

#[test]
fn sixty_kinds_of_mistakes_are_reported_at_once_by_position() {
    let home = Home::new();
    let (text, keys) = sixty();
    home.write("sixty.yaml", &text);
    std::fs::create_dir(home.path().join("work")).expect("a directory");
    let ran = home.run(&["validate", "sixty.yaml"]).exits(2);
    for key in &keys {
        assert!(!ran.stderr.contains(key.as_str()), "a key is shown: {}", ran.stderr);
    }
    insta::assert_snapshot!("sixty", ran.stderr);
    let lines: Vec<&str> = ran.stderr.lines().skip(1).map(str::trim).collect();
    assert!(lines.len() >= 60, "{} mistakes", lines.len());
    let mut positions = Vec::new();
    for line in &lines {
        let mut parts = line.splitn(4, ':');
        assert_eq!(parts.next(), Some("sixty.yaml"), "{line}");
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        positions.push((number().expect("a line"), number().expect("a column")));
        // What to write: a hint, or a message that says what it must be.
        assert!(line.ends_with(')') || line.contains(" must "), "nothing says what to write: {line}");
    }
    assert!(positions.is_sorted(), "{positions:?}");
    let kinds: BTreeSet<String> = lines.iter().map(|line| kind(line)).collect();
    assert!(kinds.len() >= 60, "{} kinds: {kinds:#?}", kinds.len());
}

/// What a line says, and about which key: names of the file's own and positions do not make another kind.
fn kind(line: &str) -> String {
    let rest = line.splitn(4, ':').nth(3).unwrap_or_default().trim();
    let (path, message) = rest.split_once(": ").unwrap_or(("", rest));
    let key = path.rsplit('.').next().unwrap_or_default().split('[').next().unwrap_or_default();
    let words = message.split('"').step_by(2).collect::<Vec<_>>().join("…");
    format!("{key}: {words}")
}

#[test]
fn a_mistake_of_form_does_not_bring_others_that_only_follow_from_it() {
    let home = Home::new();
    home.write(
        "bad.yaml",
        "providers: { s: { driver: scrpt } }\n\
         agents:\n  a: { provider: s, modle: m, tools: [] }\n  b: { provider: s, model: m, tools: [3, Raed] }\n\
         volumes: { v: { mode: rx, path: . } }\n",
    );
    let ran = home.run(&["validate", "bad.yaml"]).exits(2);
    insta::assert_snapshot!("follow", ran.stderr);
}

#[test]
fn a_file_that_is_not_yaml_is_reported_where_it_stops_being_yaml() {
    let home = Home::new();
    let mut said = String::new();
    for (name, text) in [
        ("tab.yaml", "agents:\n\tlead: {}\n"),
        ("bracket.yaml", "agents: { lead: { tools: [Read }\n"),
        ("quote.yaml", "listen: \"127.0.0.1:8787\nagents: {}\n"),
        ("colon.yaml", "agents:\n  lead:\n    description: Answers: briefly\n"),
        ("indent.yaml", "agents:\n  lead:\n    tools: []\n   hosts: []\n"),
        ("documents.yaml", "agents: {}\n---\nagents: {}\n"),
        ("tag.yaml", "agents: !include agents.yaml\n"),
        ("merge.yaml", "x: &x {}\nagents: { <<: *x }\n"),
        ("anchor.yaml", "agents: *missing\n"),
        ("list.yaml", "- agents\n"),
        ("nan.yaml", "retention: { max_age_days: .nan }\n"),
    ] {
        home.write(name, text);
        said.push_str(&home.run(&["validate", name]).exits(2).stderr);
    }
    insta::assert_snapshot!("not_yaml", said);
}
