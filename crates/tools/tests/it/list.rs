//! The list of tools and its config.

use drawloom_tools::{BUILT_IN, Config, builtin, off, variables};
use serde_json::json;

use crate::support::Room;

#[test]
fn every_tool_has_a_name_of_its_own_a_closed_schema_and_a_sentence() {
    let cards: Vec<_> = builtin(&Room::new().parts()).iter().map(|tool| tool.card()).collect();
    let names: Vec<_> = cards.iter().map(|card| card.name.as_str()).collect();
    assert_eq!(
        names,
        BUILT_IN.iter().map(|tool| tool.name).collect::<Vec<_>>(),
        "in the order of the list, none twice"
    );
    assert!(names.is_sorted());
    for card in &cards {
        assert!(card.description.ends_with('.'), "{}", card.name);
        assert_eq!(card.input_schema["additionalProperties"], json!(false), "{}", card.name);
        for (name, property) in card.input_schema["properties"].as_object().expect("properties") {
            let described = property["description"].as_str().or(property["$ref"].as_str());
            assert!(described.is_some() || property.get("oneOf").is_some(), "{}.{name}", card.name);
        }
    }
}

#[test]
fn what_the_operator_has_not_turned_on_is_not_there_and_it_is_said_how() {
    let mut room = Room::new();
    room.config = Config::default();
    let names: Vec<_> = builtin(&room.parts()).iter().map(|tool| tool.card().name).collect();
    assert_eq!(names, ["Agent", "Edit", "Glob", "Grep", "Read", "Write"]);
    let said: Vec<_> = off(&room.config).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "Bash is disabled: set tools.bash.enabled: true",
            "HTTP is disabled: add hosts under tools.http.hosts",
            "WebFetch is disabled: add hosts under tools.http.hosts"
        ]
    );
    assert!(off(&Room::new().config).is_empty());
}

#[test]
fn the_config_is_strict_and_its_defaults_are_closed() {
    let config: Config = serde_json::from_value(json!({})).expect("all defaults");
    assert_eq!(config, Config::default());
    assert!(!config.bash.enabled && config.http.hosts.is_empty() && config.http.ports == [80, 443]);
    assert!(serde_json::from_value::<Config>(json!({ "bash": { "enable": true } })).is_err());
    let config: Config = serde_json::from_value(json!({ "bash": { "env": ["TOKEN"] } })).expect("a config");
    assert_eq!(variables(&config).collect::<Vec<_>>(), ["PATH", "LANG", "TOKEN"]);
}

#[test]
fn a_path_that_would_open_nothing_is_a_problem_of_the_config() {
    let here = tempfile::tempdir().expect("a directory");
    let bash = json!({ "readable_paths": [here.path(), "relative"], "writable_paths": [here.path().join("none")] });
    let config: Config = serde_json::from_value(json!({ "bash": bash })).expect("a config");
    let problems = config.problems();
    let keys: Vec<_> = problems.iter().map(|(keys, _)| keys.join(".")).collect();
    assert_eq!(keys, ["bash.readable_paths.1", "bash.writable_paths.0"]);
    assert!(problems[0].1.contains("\"relative\" must be an absolute path"), "{problems:?}");
    assert!(problems[1].1.contains("must exist"), "{problems:?}");
    assert!(Config::default().problems().is_empty());
}
