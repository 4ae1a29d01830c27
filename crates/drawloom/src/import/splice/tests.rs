//! Edits change their own place and nothing else.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::yaml;

fn value_of(text: &str) -> Value {
    let (node, faults) = yaml::parse(0, text.as_bytes()).unwrap_or_else(|fault| panic!("{fault:?} in\n{text}"));
    assert!(faults.is_empty(), "{faults:?} in\n{text}");
    node.to_value()
}

fn new<'a>(key: &'a str, value: Value) -> New<'a> {
    New { marker: Some(Marker { source: format!("agents/{key}.md"), digest: "0123".into() }), key, value }
}

/// The text after an agent was added.
fn added(text: &str) -> String {
    let mut editor = Editor::new(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    editor.add(&["agents"], &[new("new", json!({ "tools": ["Read"], "system_prompt": "One.\nTwo." }))]).expect("added");
    editor.finish()
}

/// Whether `before` is what is left of `after` when pieces are taken out.
fn is_kept(before: &str, after: &str) -> bool {
    let mut rest = after.chars();
    before.chars().all(|sign| rest.any(|other| other == sign))
}

#[test]
fn an_agent_is_added_to_every_form_of_a_config() {
    for text in [
        "",
        "# only a comment\n",
        "---\n",
        "---\n# c\n...\n",
        "listen: x",
        "listen: x\n",
        "agents:\n",
        "agents: # none yet\nvolumes: {}\n",
        "agents: {}  # none\nvolumes: {}\n",
        "agents: ~\n",
        "agents: null # c",
        "agents:\n  a:\n    tools: []\n",
        "agents:\n  a:\n    tools: []",
        "agents:\n    a:\n        tools: [Read] # why\n        # the end of a\n\n# volumes\nvolumes: {}\n",
        "agents:\n  a:\n    system_prompt: |\n      text\n\n      more\n\n\nvolumes: {}\n",
        "agents:\n  a:\n    system_prompt: |+\n      text\n\n\n# c\nvolumes: {}\n",
        "agents:\n      # deep\n\n# low\nvolumes: {}\n",
        "agents: {}\n          # deep\nvolumes: {}\n",
        "listen: x\n        # deep and last",
        "agents:\n  a: { tools: [] }   # short\n  b:\n",
        "agents: { a: { tools: [] }, }\nlisten: x\n",
        "agents:\n  {\n    a: {}\n  }\n",
        "{ agents: { a: {} }, listen: x }\n",
        "{\"agents\": {}, \"listen\": \"x\"}\n",
        "{ listen: x }",
        "{ agents: , listen: x }",
        "{ agents: null }",
        "{}",
        "\"agents\":\n  'a': {}\n",
        "agents:\r\n  a:\r\n    tools: []\r\nlisten: x\r\n",
        "agents: &all\n  a: &a { tools: [] }\n  b: *a\nlisten: x\n",
        "listen: \"ünï — 織\"\nagents:\n  a: {}\n",
        "? agents\n: a: {}\n",
    ] {
        let after = added(text);
        let value = value_of(&after);
        assert_eq!(
            value["agents"]["new"],
            json!({ "tools": ["Read"], "system_prompt": "One.\nTwo." }),
            "{text:?}\n{after}"
        );
        let mut left = value;
        left["agents"].as_object_mut().expect("agents").remove("new");
        let mut before = if text.trim().is_empty() { json!({}) } else { value_of(text) };
        if before.get("agents").is_none_or(Value::is_null) {
            before["agents"] = json!({});
        }
        assert_eq!(left, before, "{text:?}\n{after}");
        let comments = |text: &str| text.matches('#').count();
        assert!(comments(&after) >= comments(text), "{text:?}\n{after}");
        assert!(
            text.contains("{}") || text.contains('~') || text.contains("null") || is_kept(text, &after),
            "{text:?}\n{after}"
        );
    }
}

#[test]
fn what_cannot_be_edited_in_its_place_is_refused() {
    for text in ["x: &x { a: {} }\nagents: *x\n", "agents: [a]\n", "agents: text\n"] {
        let mut editor = Editor::new(text).expect("YAML");
        assert!(editor.add(&["agents"], &[new("new", json!({}))]).is_err(), "{text}");
    }
}

#[test]
fn an_update_changes_only_the_fields_that_differ_and_keeps_their_comments() {
    let text = "\
agents:
  # imported from agents/a.md, sha256:old
  a:
    # about the tools
    tools: [Read]  # few
    tier: high # why
    # about the prompt
    system_prompt: |-
      Old.

      Text.
    extra: 1
  b: {}
";
    let mut editor = Editor::new(text).expect("YAML");
    assert_eq!(editor.marker(&["agents", "a"]).map(|marker| marker.digest).as_deref(), Some("old"));
    assert_eq!(editor.marker(&["agents", "b"]), None);
    let before = value_of(text)["agents"]["a"].clone();
    let after = json!({ "tools": ["Read"], "tier": "one\ntwo", "system_prompt": "New.", "hosts": [] });
    let marker = Marker { source: "agents/a.md".into(), digest: "new".into() };
    editor.update(&["agents", "a"], &before, &after, &marker).expect("updated");
    assert_eq!(
        editor.finish(),
        "\
agents:
  # imported from agents/a.md, sha256:new
  a:
    # about the tools
    tools: [Read]  # few
    tier: |- # why
      one
      two
    # about the prompt
    system_prompt: New.
    hosts: []
  b: {}
"
    );
}

#[test]
fn lists_grow_in_every_form() {
    for (text, after) in [
        ("env: [A]\n", "env: [A, B, C]\n"),
        ("env: [A,]\n", "env: [A, B, C,]\n"),
        ("env: [] # c\n", "env: [B, C] # c\n"),
        ("env:\n", "env: [B, C]\n"),
        ("env:\n  - A # a\nx: 1\n", "env:\n  - A # a\n  - B\n  - C\nx: 1\n"),
        ("env:\n- A", "env:\n- A\n- B\n- C"),
    ] {
        let mut editor = Editor::new(text).expect("YAML");
        editor.append(&["env"], &[json!("B"), json!("C")]).expect("appended");
        assert_eq!(editor.finish(), after);
    }
}

#[test]
fn several_sections_come_in_order_behind_what_is_there() {
    let mut editor = Editor::new("agents:\n  a: {}").expect("YAML");
    editor.add(&["tiers"], &[New { marker: None, key: "high", value: json!(["m"]) }]).expect("added");
    editor.add(&["agents"], &[new("b", json!({}))]).expect("added");
    editor.add(&[], &[New { marker: None, key: "env", value: json!(["A"]) }]).expect("added");
    assert_eq!(
        editor.finish(),
        "agents:\n  a: {}\n  # imported from agents/b.md, sha256:0123\n  b: {}\n\ntiers:\n  high: [m]\n\nenv: [A]"
    );
}

/// A config text with comments, blank lines and both styles.
fn any_config() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "[a-z]{1,6}",
        Just("\"quoted: # text\"".to_owned()),
        Just("|\n      block\n\n        deeper\n".trim_end().to_owned()),
        Just("[a, b]".to_owned()),
        Just("{ x: 1 }".to_owned()),
        Just(String::new()),
    ];
    let comment = prop_oneof![Just(""), Just("  # why"), Just("  # ünï"), Just("\n          # deep"), Just("\n# low")];
    let field = ("[a-z]{2,5}", scalar, comment, prop::bool::ANY).prop_map(|(key, value, comment, above)| {
        let above = if above { "    # above\n\n" } else { "" };
        let comment = if value.starts_with('|') { "" } else { comment };
        format!("{above}    {key}: {value}{comment}\n")
    });
    let agent = ("[a-z]{1,4}", prop::collection::btree_map("[a-z]{6}", field, 1..4)).prop_map(|(name, fields)| {
        let fields: String =
            fields.into_iter().map(|(key, field)| field.replacen(": ", &format!("_{key}: "), 1)).collect();
        format!("  {name}:\n{fields}")
    });
    let agents = prop::collection::vec(agent, 0..4).prop_map(|agents| {
        let all: String =
            agents.iter().enumerate().map(|(index, agent)| agent.replacen(':', &format!("{index}:"), 1)).collect();
        format!("agents:\n{all}")
    });
    (agents, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY).prop_map(|(agents, first, returns, end)| {
        let other = "# top\nlisten: x  # here\n\n";
        let mut text = if first { format!("{other}{agents}") } else { format!("{agents}\n{other}") };
        if !end {
            text = text.trim_end().to_owned();
        }
        if returns { text.replace('\n', "\r\n") } else { text }
    })
}

proptest! {
    /// The bytes outside the edited ranges are those of before, in their order; the value has what was added and nothing else.
    #[test]
    fn a_splice_never_changes_bytes_outside_its_range(text in any_config(), body in "[ -~\n]{0,30}") {
        let mut editor = Editor::new(&text).expect("YAML");
        let entry = json!({ "system_prompt": body, "tools": [] });
        editor.add(&["agents"], &[new("zz", entry.clone())]).expect("added");
        editor.add(&["prompts"], &[new("p", json!({ "text": "t" }))]).expect("added");
        let ranges: Vec<_> = editor.edits.iter().map(|edit| edit.range.clone()).collect();
        prop_assert!(ranges.iter().all(Range::is_empty), "only insertions: {:?}", ranges);
        let inserted: usize = editor.edits.iter().map(|edit| edit.text.len()).sum();
        let after = editor.finish();
        prop_assert!(is_kept(&text, &after), "{}", after);
        prop_assert!(text.contains('\r') || after.len() == text.len() + inserted);
        let mut value = value_of(&after);
        prop_assert_eq!(&value["agents"]["zz"], &entry, "{}", after);
        value.as_object_mut().expect("a map").remove("prompts");
        value["agents"].as_object_mut().expect("agents").remove("zz");
        let mut before = value_of(&text);
        if before["agents"].is_null() {
            before["agents"] = json!({});
        }
        prop_assert_eq!(value, before, "{}", after);
    }

    #[test]
    fn an_update_says_what_was_asked_and_leaves_the_other_agents(text in any_config(), body in "[ -~\n]{0,30}") {
        let before = value_of(&text);
        let Some(agents) = before["agents"].as_object().filter(|agents| !agents.is_empty()) else { return Ok(()) };
        let (name, old) = agents.iter().next().expect("an agent");
        let mut wanted = old.as_object().cloned().unwrap_or_default();
        let first = wanted.keys().next().cloned();
        first.map(|first| wanted.insert(first, json!(body)));
        wanted.insert("tools".into(), json!(["Read"]));
        let mut editor = Editor::new(&text).expect("YAML");
        let marker = Marker { source: "x".into(), digest: "1".into() };
        editor.update(&["agents", name], old, &wanted.clone().into(), &marker).expect("updated");
        let after = editor.finish();
        let mut expected = before.clone();
        expected["agents"][name] = wanted.into();
        prop_assert_eq!(value_of(&after), expected, "{}\n---\n{}", text, after);
    }
}
