//! `.env` beside the config, and what `config show` and `agents show` tell of values.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::support::Home;

const CONFIG: &str = "\
env: [TEAM, WORD]
providers:
  script: { driver: script, options: { rules: [{ text: \"{{prompt}}\" }] } }
  claude: { driver: anthropic, api_key_env: CLAUDE_KEY }
defaults: { provider: script, model: test }
agents:
  lead:
    description: Leads ${TEAM} with ${WORD}
    tools: [Read, Write, Agent]
    agents: [helper]
    hosts: []
    budget: { tokens: 1000 }
  helper: { description: Helps., tools: [], agents: [], hosts: [], volumes: [] }
volumes:
  notes: { path: notes, mode: ro, default: true }
";

const WORD: &str = "a-word-from-the-file";
const KEY: &str = "a-key-from-the-file";

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    let values = format!("# secrets\nTEAM=red\nexport WORD=\"{WORD}\"\nCLAUDE_KEY='{KEY}'\nSTRANGER=unused\n");
    home.write(".env", &values);
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(home.path().join(".env"), mode).expect("the mode is changed");
    home
}

#[test]
fn values_come_from_the_file_and_the_environment_wins() {
    let home = home();
    let list = home.run(&["agents", "list", "--json"]).exits(0).json();
    let lead = |list: &serde_json::Value| list["agents"][1]["description"].as_str().expect("a text").to_owned();
    assert!(lead(&list).starts_with("Leads red with"), "{list}");
    let list = home.finish(home.command(&["agents", "list", "--json"]).env("TEAM", "blue")).exits(0).json();
    assert!(lead(&list).starts_with("Leads blue with"), "{list}");
}

#[test]
fn what_the_file_holds_is_a_secret_and_its_origin_is_shown() {
    let home = home();
    let doctor = home.run(&["doctor", "--config", "drawloom.yaml"]);
    assert!(doctor.stdout.contains("claude: CLAUDE_KEY is set in .env:4"), "{}", doctor.stdout);
    let shown = home.run(&["config", "show"]).exits(0);
    let agent = home.run(&["agents", "show", "lead"]).exits(0);
    let ran = home.run(&["run", "helper", &format!("say {WORD}"), "--embedded", "--config", "drawloom.yaml"]).exits(0);
    for ran in [&doctor, &shown, &agent, &ran] {
        for secret in [WORD, KEY] {
            assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{ran:#?}");
        }
    }
    insta::assert_snapshot!("agents_show", agent.stdout);
    let set = home.run(&["config", "show", "--set"]).exits(0);
    insta::assert_snapshot!("config_show", set.stdout);
    let json = home.run(&["config", "show", "--json"]).exits(0).json();
    assert_eq!(json["config"]["agents"]["lead"]["description"], "Leads ${TEAM} with ${WORD}");
    assert_eq!(json["origins"]["agents.lead.description"]["variables"]["TEAM"], ".env:2");
    assert_eq!(json["origins"]["listen"]["kind"], "default");
    assert_eq!(json["origins"]["providers.claude.api_key_env"]["line"], 4);
}

#[test]
fn what_config_show_prints_is_a_config_again() {
    let home = home();
    let shown = home.run(&["config", "show"]).exits(0).stdout;
    home.write("again.yaml", &shown);
    home.run(&["validate", "again.yaml"]).exits(0);
    let origins = |json: serde_json::Value| json["config"].clone();
    let first = origins(home.run(&["config", "show", "--json"]).exits(0).json());
    let again = origins(home.run(&["config", "show", "--json", "--config", "again.yaml"]).exits(0).json());
    assert_eq!(first, again);
}

#[test]
fn a_file_that_others_can_read_gives_a_warning_and_unknown_names_a_hint() {
    let home = home();
    fs::set_permissions(home.path().join(".env"), fs::Permissions::from_mode(0o644)).expect("the mode is changed");
    let checked = home.run(&["validate"]).exits(0);
    assert!(checked.stdout.contains("other users may read this file (mode 644); run: chmod 600 .env"), "{checked:?}");
    let unknown = home.run(&["agents", "show", "laed"]).exits(2);
    assert_eq!(unknown.stderr, "error: unknown agent \"laed\"\nhint: did you mean \"lead\"?\n");
    let unknown = home.run(&["config", "show", "agents.laed"]).exits(2);
    assert_eq!(unknown.stderr, "error: the config has no value at \"agents.laed\"\nhint: did you mean \"lead\"?\n");
}

/// A command of an agent could make the file: in a config that was found, new names in it ask for trust again.
#[test]
fn a_new_name_in_the_file_asks_for_trust_again() {
    let home = home();
    home.run(&["trust", "--yes"]).exits(0);
    home.run(&["run", "helper", "hi", "--embedded"]).exits(0);
    home.write(
        "drawloom.yaml",
        &CONFIG.replace("api_key_env: CLAUDE_KEY", "api_key_env: CLAUDE_KEY, base_url: \"http://127.0.0.1:1\""),
    );
    let mut text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    text = text.replace("WORD]", "WORD, STRANGER]");
    home.write("drawloom.yaml", &text);
    let refused = home.run(&["run", "helper", "hi", "--embedded"]).exits(3);
    assert!(refused.stderr.contains("new: takes the variable STRANGER from .env"), "{refused:?}");
}
