//! `goal doctor` in a folder whose config is not trusted.

use serde_json::{Value, json};

use super::Project;

#[test]
fn doctor_checks_what_needs_no_trust_and_says_what_it_skipped() {
    let project = Project::new();
    let home = &project.home;
    std::fs::copy(home.path().join("drawloom.yaml"), project.repository().join("drawloom.yaml")).expect("a copy");
    let doctor = |more: &[&str]| {
        let mut command = home.command(&[&["goal", "doctor"], more].concat());
        home.finish(command.current_dir(project.repository()))
    };
    let found = doctor(&["--json"]).exits(1).json();
    let named = |found: &Value, list: &str| {
        let list = found[list].as_array().expect("a list").clone();
        list.iter().map(|one| (one["name"].as_str().expect("a name").to_owned(), one["ok"].clone())).collect::<Vec<_>>()
    };
    let checks =
        [("git".to_owned(), json!(true)), ("cwd".to_owned(), json!(true)), ("config".to_owned(), json!(false))];
    assert_eq!(named(&found, "checks"), checks, "{found}");
    let backends: Vec<String> = named(&found, "backends").into_iter().map(|(name, _)| name).collect();
    assert_eq!(backends, ["aider", "claude_code", "codex", "opencode", "mock"], "nothing of the config: {found}");
    let told = doctor(&[]).exits(1).stdout;
    for part in ["is not trusted yet", "of this config were not checked", "run `drawloom trust`", "ok git"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!home.data().join("drawloom.db").exists(), "it made no data");
    let mut trust = home.command(&["trust", "--yes"]);
    home.finish(trust.current_dir(project.repository())).exits(0);
    let found = doctor(&["--json"]).json();
    assert_eq!(named(&found, "checks").len(), 2, "{found}");
    assert!(named(&found, "backends").iter().any(|(name, _)| name == "script"), "{found}");
}
