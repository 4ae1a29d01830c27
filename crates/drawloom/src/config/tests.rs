//! Every mistake with its exact place, all at once; and nothing that anybody writes is a panic.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::{Config, Loaded, join};

/// The environment of these tests.
fn lookup(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("9000".into()),
        "HOST" => Some("127.0.0.1".into()),
        "EVIL" => Some("x\nagents: {}".into()),
        _ => None,
    }
}

fn load(texts: &[&str]) -> Result<Loaded, Vec<String>> {
    let names = ["a.yaml", "b.yaml", "c.yaml"];
    let texts = texts.iter().zip(names).map(|(text, name)| (PathBuf::from(name), text.as_bytes().to_vec())).collect();
    join(texts, &lookup).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

fn mistakes(texts: &[&str]) -> Vec<String> {
    load(texts).expect_err("a config with mistakes")
}

fn config(texts: &[&str]) -> Config {
    load(texts).unwrap_or_else(|mistakes| panic!("{mistakes:#?}")).config
}

#[test]
fn nothing_at_all_is_the_default_config() {
    assert_eq!(config(&[""]), Config::default());
    assert_eq!(config(&["# only a comment\n"]), Config::default());
    assert_eq!(config(&["---\n"]), Config::default());
    assert_eq!(config(&["listen: 127.0.0.1:1"]).listen, "127.0.0.1:1");
}

#[test]
fn every_mistake_is_reported_with_its_line_and_column() {
    let text = "\
providers:
  script:
    driver: scrpt
    optoins: {}
agents:
  lead:
    tool: [Agent]
    max_iterations: \"3\"
    interruption: {}
    max_tokens: 0
  other:
    tools: Agent
  other:
    description: again
webhooks: {}
concurrency: 4
volumes:
  work: { mode: rx }
";
    assert_eq!(
        mistakes(&[text]),
        [
            "a.yaml:3:13: providers.script.driver: must be one of anthropic, openai, deepseek, script, not \"scrpt\" (did you mean script?)",
            "a.yaml:4:5: providers.script.optoins: is not a known key (did you mean options?)",
            "a.yaml:7:5: agents.lead.tool: is not a known key (did you mean tools?)",
            "a.yaml:8:21: agents.lead.max_iterations: must be a whole number, not \"3\" (write the number without quotes)",
            "a.yaml:9:5: agents.lead.interruption: is not supported in this version (remove interruption)",
            "a.yaml:10:17: agents.lead.max_tokens: must be 1 or more, not 0",
            "a.yaml:13:3: agents.other: duplicate key \"other\"; first in line 11 (remove one of them)",
            "a.yaml:15:1: webhooks: is not supported in this version (remove webhooks)",
            "a.yaml:16:14: concurrency: must be a mapping, not 4",
            "a.yaml:18:9: volumes.work.path: is missing (add `path: …`)",
            "a.yaml:18:17: volumes.work.mode: must be one of rw, ro, not \"rx\" (did you mean rw?)",
        ]
    );
}

#[test]
fn words_of_other_tools_are_guessed_and_an_unknown_key_in_a_list_is_pointed_at() {
    let text = "\
providers:
  script:
    driver: script
    options:
      rules:
        - { text: hi, delay: 5 }
agents:
  lead:
    maxTurns: 5
    instructions: Do it.
    sub_agents: [lead]
";
    assert_eq!(
        mistakes(&[text]),
        [
            "a.yaml:6:23: providers.script.options.rules[0].delay: is not a known key (did you mean delay_ms?)",
            "a.yaml:9:5: agents.lead.maxTurns: is not a known key (did you mean max_iterations?)",
            "a.yaml:10:5: agents.lead.instructions: is not a known key (did you mean system_prompt?)",
            "a.yaml:11:5: agents.lead.sub_agents: is not a known key (did you mean agents?)",
        ]
    );
}

#[test]
fn what_is_not_yaml_is_said_where_it_stops_being_yaml() {
    for (text, expected) in [
        (
            "a: [1",
            "a.yaml:1:4: invalid YAML: unclosed bracket '[' (check quotes, brackets and indentation from here upwards)",
        ),
        ("a: 1\n\tb: 2", "a.yaml:1:4: invalid YAML: while scanning a plain scalar, found a tab (indent with spaces)"),
        (
            "listen: x\n---\nlisten: y",
            "a.yaml:2:1: a second YAML document starts here (keep one document in a file; pass several files with --config)",
        ),
        ("agents: !custom {}", "a.yaml:1:17: the tag !custom is not supported (write the plain value)"),
        ("? [a]\n: b", "a.yaml:1:3: a key must be text, not a list or a mapping"),
        ("a: &x [*x]", "a.yaml:1:8: this alias is inside the value that it names (write the value)"),
        (
            "b: &b {}\na: {<<: *b}",
            "a.yaml:2:5: merge keys are not supported (write the keys out, or use several files with --config)",
        ),
        ("a: .nan", "a.yaml:1:4: .nan is not supported as a number (write a number)"),
    ] {
        let found = mistakes(&[text]);
        assert_eq!(found.first().map(String::as_str), Some(expected), "{text:?}");
    }
    assert_eq!(
        join(vec![("a.yaml".into(), b"listen: a\nauth: \xff".to_vec())], &lookup).expect_err("bad bytes")[0]
            .to_string(),
        "a.yaml:2:7: byte 0xff is not UTF-8 (save the file as UTF-8)"
    );
    assert_eq!(mistakes(&["[1]"]), ["a.yaml:1:1: the config must be a mapping, not a list"]);
}

#[test]
fn a_small_file_cannot_become_a_large_one() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", below.trim_end_matches(", ")));
    }
    let found = mistakes(&[&bomb]);
    assert!(found[0].contains("more than 50000 values, aliases counted"), "{found:?}");
    let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    assert!(mistakes(&[&deep])[0].starts_with("a.yaml:1:"), "a typed error");
}

#[test]
fn names_are_expanded_in_values_only_and_only_when_listed() {
    let listed = "env: [PORT, HOST]\nlisten: ${HOST}:${PORT}\n";
    assert_eq!(config(&[listed]).listen, "127.0.0.1:9000");
    assert_eq!(config(&["listen: a$${PORT}"]).listen, "a${PORT}");
    assert_eq!(
        mistakes(&["env: [PORT]\nlisten: ${HOST}:${PORT}\nagents: { a: { description: \"${NOPE}\" } }"]),
        [
            "a.yaml:2:9: listen: ${HOST} is not listed under `env`, so it is not expanded (add \"HOST\" to the list `env` \
             of this file, or write \"$${HOST}\" for the literal text)",
            "a.yaml:3:29: agents.a.description: ${NOPE} is not listed under `env`, so it is not expanded (add \"NOPE\" to \
             the list `env` of this file, or write \"$${NOPE}\" for the literal text)",
        ]
    );
    assert_eq!(
        mistakes(&["env: [UNSET]\nlisten: ${UNSET}"]),
        ["a.yaml:2:9: listen: ${UNSET} is not set (set UNSET in the environment or in a .env file beside the config)"]
    );
    assert_eq!(
        mistakes(&["listen: ${OPEN"]),
        ["a.yaml:1:9: listen: \"${\" has no closing \"}\" (write \"$${\" for a literal \"${\")"]
    );
}

#[test]
fn what_a_variable_holds_never_becomes_structure_nor_a_name_of_another_file() {
    let config = config(&["env: [EVIL]\nagents: { a: { description: \"${EVIL}\" } }"]);
    assert_eq!(config.agents["a"].description, "x\nagents: {}");
    let found = mistakes(&["env: [PORT]", "listen: ${PORT}"]);
    assert!(found[0].starts_with("b.yaml:1:9: listen: ${PORT} is not listed"), "{found:?}");
}

#[test]
fn later_files_are_laid_over_earlier_ones_by_key() {
    let base = "\
listen: 127.0.0.1:1
agents:
  a: { description: first, tools: [Read, Write] }
  b: { description: stays }
";
    let over = "agents:\n  a: { tools: [Agent] }\n  c: { description: new }\n";
    let config = config(&[base, over]);
    assert_eq!(config.listen, "127.0.0.1:1");
    assert_eq!(config.agents["a"].description, "first");
    assert_eq!(config.agents["a"].tools, Some(vec!["Agent".into()]));
    assert_eq!(config.agents.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(
        mistakes(&[base, "agents:\n  a: { toolz: [] }"]),
        ["b.yaml:2:8: agents.a.toolz: is not a known key (did you mean tools?)"]
    );
}

#[test]
fn aliases_are_renamed_and_both_spellings_at_once_are_refused() {
    let config = config(&["agents: { a: { allowed_tools: [Read] } }"]);
    assert_eq!(config.agents["a"].tools, Some(vec!["Read".into()]));
    assert_eq!(
        mistakes(&["agents:\n  a: { tools: [], allowed_tools: [Read] }"]),
        [
            "a.yaml:2:19: agents.a.allowed_tools: is another spelling of tools, and both are given (remove allowed_tools)"
        ]
    );
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let texts = vec![
        (PathBuf::from("/one/a.yaml"), b"volumes: { v: { path: data } }".to_vec()),
        (
            PathBuf::from("/two/b.yaml"),
            b"agents: { a: { system_prompt_file: p.md } }\nvolumes: { w: { path: /abs } }".to_vec(),
        ),
    ];
    let config = join(texts, &lookup).expect("no mistakes").config;
    assert_eq!(config.volumes["v"].path, "/one/data");
    assert_eq!(config.volumes["w"].path, "/abs");
    assert_eq!(config.agents["a"].system_prompt_file.as_deref(), Some("/two/p.md"));
}

#[test]
fn scalars_mean_what_yaml_1_2_says() {
    let rules = "providers: { s: { driver: script, options: { rules: [{ calls: [{ tool: t, input: VALUE }] }] } } }";
    let value = |text: &str| {
        let config = config(&[&rules.replace("VALUE", text)]);
        config.providers["s"].options.rules[0].calls[0].input.clone()
    };
    for (text, expected) in [
        ("12", json!(12)),
        ("-3", json!(-3)),
        ("+4", json!(4)),
        ("0x1f", json!(31)),
        ("0o17", json!(15)),
        ("1.5e3", json!(1500.0)),
        ("true", json!(true)),
        ("yes", json!("yes")),
        ("~", json!(null)),
        ("'12'", json!("12")),
        ("!!str 12", json!("12")),
        ("1.2.3", json!("1.2.3")),
        ("2026-11-16", json!("2026-11-16")),
        ("[a, {b: 1}]", json!(["a", { "b": 1 }])),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_config_or_a_typed_mistake(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = join(vec![("a.yaml".into(), bytes)], &lookup);
    }

    #[test]
    fn any_text_of_yaml_signs_is_a_config_or_a_mistake_with_a_place(
        text in "([a-z]{1,3}|agents|tools|: |- |\\n| |\\t|\\[|\\]|\\{|\\}|,|&a|\\*a|!|'|\"|#|\\||>|%|---|\\$\\{A\\}|~|1){0,60}"
    ) {
        if let Err(mistakes) = join(vec![("a.yaml".into(), text.clone().into_bytes())], &lookup) {
            for mistake in mistakes {
                let (_, line, column) = mistake.position.clone().expect("a mistake in a file has a position");
                prop_assert!(line >= 1 && column >= 1 && line <= text.lines().count() + 1, "{}", mistake);
            }
        }
    }

    #[test]
    fn a_config_written_as_json_reads_back_as_itself(
        names in proptest::collection::btree_set("[a-z]{1,8}", 0..4),
        iterations in 1u32..10_000,
        text in "[ -~äß漢\n\t]{0,40}",
    ) {
        let text = text.replace("${", "$ {");
        let mut config = Config::default();
        for name in names {
            let agent = drawloom_substrate::AgentConfig {
                description: text.clone(),
                max_iterations: iterations,
                tools: Some(vec!["Read".into()]),
                ..drawloom_substrate::AgentConfig::default()
            };
            config.agents.insert(name, agent);
        }
        let written = serde_json::to_vec(&config).expect("configs encode");
        let read = join(vec![("a.yaml".into(), written)], &lookup);
        prop_assert_eq!(read.map(|loaded| loaded.config).map_err(|mistakes| format!("{mistakes:?}")), Ok(config));
    }
}
