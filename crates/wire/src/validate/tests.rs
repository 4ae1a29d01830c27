use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::*;
use crate::{
    batches::SpawnRuns,
    channels::PublishChannel,
    runs::{CancelRun, GetRun, ListRuns, SpawnRun},
};

fn problems<T: JsonSchema>(mut value: Value) -> Vec<(String, &'static str, Option<String>)> {
    match Validator::of::<T>().check(&mut value) {
        Ok(()) => Vec::new(),
        Err(problems) => problems.into_iter().map(|problem| (problem.path(), problem.code, problem.hint)).collect(),
    }
}

fn codes<T: JsonSchema>(value: Value) -> Vec<(String, &'static str)> {
    problems::<T>(value).into_iter().map(|(path, code, _)| (path, code)).collect()
}

#[test]
fn a_good_request_passes_and_reads_as_its_type() {
    let mut value = json!({
        "agent": "group/reviewer", "segments": [{"role": "user", "content": [
            {"type": "trusted-text", "text": "look"}, {"type": "untrusted-block", "text": "<x>", "kind": "page"}]}],
        "allowed_tools": ["Read"], "metadata": {"any": [1, null, {"deep": true}]}, "timeout_ms": 5, "budget": {"tokens": 9},
        "session_id": null, "mode": "detach"
    });
    Validator::of::<SpawnRun>().check(&mut value).expect("it is good");
    let run: SpawnRun = serde_json::from_value(value).expect("what passes is read");
    assert_eq!(run.tools, Some(vec!["Read".to_owned()]));
    assert_eq!(run.segments.expect("segments").len(), 1);
}

#[test]
fn every_problem_is_found_with_its_place() {
    let body = json!({"spawns": [
        {"agent": "a", "prompt": "x", "promt": "x"},
        {"agent": "a b", "prompt": "", "max_iterations": 0, "timeout_ms": "5"},
        {"prompt": 5, "tools": ["a", 1], "allowed_tools": [], "user_bearer": []},
        {"agent": "a", "segments": [{"role": "sytem", "content": [{"type": "picture", "text": "x"}, {"text": "x"}]}]}
    ], "mode": "joyn", "wait_ms": -1});
    assert_eq!(
        codes::<SpawnRuns>(body),
        [
            ("mode".to_owned(), "bad_value"),
            ("spawns[0].promt".to_owned(), "unknown_key"),
            ("spawns[1].agent".to_owned(), "bad_form"),
            ("spawns[1].max_iterations".to_owned(), "out_of_range"),
            ("spawns[1].prompt".to_owned(), "too_short"),
            ("spawns[1].timeout_ms".to_owned(), "wrong_type"),
            ("spawns[2].allowed_tools".to_owned(), "both_spellings"),
            ("spawns[2].prompt".to_owned(), "wrong_type"),
            ("spawns[2].tools[1]".to_owned(), "wrong_type"),
            ("spawns[2].user_bearer".to_owned(), "not_built"),
            ("spawns[2].agent".to_owned(), "missing_key"),
            ("spawns[3].segments[0].content[0].type".to_owned(), "bad_value"),
            ("spawns[3].segments[0].content[1].type".to_owned(), "missing_key"),
            ("spawns[3].segments[0].role".to_owned(), "bad_value"),
            ("wait_ms".to_owned(), "out_of_range"),
        ]
    );
}

#[test]
fn hints_say_what_was_probably_meant() {
    let hint = |value: Value| problems::<SpawnRun>(value).remove(0).2.unwrap_or_default();
    assert_eq!(hint(json!({"agent": "a", "promt": "x"})), "did you mean prompt?");
    assert_eq!(hint(json!({"agent": "a", "allowed_tool": []})), "did you mean allowed_tools?");
    assert_eq!(hint(json!({"agent": "a", "mode": "detatch"})), "did you mean detach?");
    assert_eq!(hint(json!({"agent": "a", "timeout_ms": "5"})), "write the number without quotes");
    assert_eq!(hint(json!({"agent": "a", "tools": "Read"})), "write it as a list: [\"Read\"]");
    assert_eq!(hint(json!({"agent": "a", "tools": "[Read, \"Write\"]"})), "write it as a list: [\"Read\", \"Write\"]");
    assert!(hint(json!({"agent": "a", "colour": 1})).starts_with("known keys: agent, agent_id, "));
}

#[test]
fn problems_under_another_spelling_keep_the_spelling_that_was_written() {
    assert_eq!(
        codes::<SpawnRun>(json!({"agent": "a", "allowed_tools": [5]})),
        [("allowed_tools[0]".to_owned(), "wrong_type")]
    );
}

#[test]
fn very_many_problems_are_counted_and_not_listed() {
    let body: Map<String, Value> = (0..1_000).map(|number| (format!("key{number}"), json!(1))).collect();
    let found = Validator::of::<SpawnRun>().check(&mut Value::Object(body)).expect_err("all are unknown");
    assert_eq!(found.len(), MAX_PROBLEMS + 1);
    assert_eq!(found.last().map(|problem| problem.message.as_str()), Some("951 more problems are not listed"));
}

#[test]
fn a_list_that_is_too_long_is_one_problem() {
    let spawns = vec![json!({}); 33];
    assert_eq!(codes::<SpawnRuns>(json!({"spawns": spawns})), [("spawns".to_owned(), "too_long")]);
    assert_eq!(codes::<SpawnRuns>(json!({"spawns": []})), [("spawns".to_owned(), "too_short")]);
    assert_eq!(codes::<SpawnRuns>(json!({})), [("spawns".to_owned(), "missing_key")]);
    assert_eq!(codes::<SpawnRuns>(json!([])), [(String::new(), "wrong_type")]);
}

#[test]
fn text_is_read_as_the_field_says() {
    let lists = Validator::of::<ListRuns>();
    assert_eq!(lists.read_text("limit", "5"), json!(5));
    assert_eq!(lists.read_text("limit", "five"), json!("five"));
    assert_eq!(lists.read_text("status", "queued, running"), json!(["queued", "running"]));
    assert_eq!(lists.read_text("user_id", "5"), json!("5"));
    assert_eq!(lists.read_text("nobody", "5"), json!("5"));
    let run = Validator::of::<SpawnRun>();
    assert_eq!(run.read_text("cancel_on_disconnect", "true"), json!(true));
    assert_eq!(run.read_text("allowed_tools", "Read,Write"), json!(["Read", "Write"]));
    assert_eq!(run.read_text("budget", "{\"tokens\":5}"), json!({"tokens": 5}));
    assert_eq!(run.read_text("allowed_tools", r#"["Read", "Write"]"#), json!(["Read", "Write"]));
    assert_eq!(run.read_text("prompt", "5"), json!("5"));
}

#[test]
fn a_field_of_any_type_is_read_as_json_and_else_as_text() {
    let publish = Validator::of::<PublishChannel>();
    assert_eq!(publish.read_text("value", r#"{"hop":1}"#), json!({"hop": 1}));
    assert_eq!(publish.read_text("value", "1"), json!(1));
    assert_eq!(publish.read_text("value", "\"1\""), json!("1"));
    assert_eq!(publish.read_text("value", "true"), json!(true));
    for text in ["done", "{done", "hop 1", ""] {
        assert_eq!(publish.read_text("value", text), json!(text));
    }
    assert_eq!(publish.read_text("channel", "1"), json!("1"));
}

/// The forms that config files use beside those of requests.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    providers: std::collections::BTreeMap<String, Driver>,
    #[serde(default)]
    ratio: Option<f64>,
    #[serde(default)]
    when: Option<When>,
    #[serde(default)]
    small: Option<i8>,
    #[serde(default)]
    tree: Option<Box<Tree>>,
    #[serde(default)]
    one_or_many: Option<OneOrMany>,
    #[serde(default)]
    names: std::collections::BTreeSet<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "driver", rename_all = "snake_case")]
enum Driver {
    Script(Script),
    Plain { url: String },
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Script {
    file: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum When {
    /// Never.
    Never,
    /// After some seconds.
    After(u32),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tree {
    #[serde(default)]
    branches: Vec<Tree>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[test]
fn the_forms_of_config_files_are_known() {
    let good = json!({
        "providers": {"a": {"driver": "script", "file": "x"}, "b": {"driver": "plain", "url": "y"}},
        "ratio": 1, "when": {"after": 5}, "small": -128, "tree": {"branches": [{"branches": []}, {}]},
        "one_or_many": ["a"], "names": ["a", "b"]
    });
    assert_eq!(codes::<Config>(good.clone()), []);
    serde_json::from_value::<Config>(good).expect("what passes is read");
    assert_eq!(codes::<Config>(json!({"when": "never", "one_or_many": "a", "tree": null})), []);
    let bad = json!({
        "providers": {"a": {"driver": "script", "file": 5}, "b": {"driver": "plian"}, "c": {"url": "y"},
                      "d": {"driver": "plain", "url": "y", "file": "x"}, "e": {"driver": "script", "file": "x", "fil": 1}},
        "ratio": "x", "when": "nevr", "small": 128, "tree": {"branches": [{"branch": []}]},
        "one_or_many": 5, "names": ["a", "a"]
    });
    assert_eq!(
        codes::<Config>(bad),
        [
            ("names[1]".to_owned(), "repeated"),
            ("one_or_many".to_owned(), "wrong_type"),
            ("providers.a.file".to_owned(), "wrong_type"),
            ("providers.b.driver".to_owned(), "bad_value"),
            ("providers.c.driver".to_owned(), "missing_key"),
            ("providers.d.file".to_owned(), "unknown_key"),
            ("providers.e.fil".to_owned(), "unknown_key"),
            ("ratio".to_owned(), "wrong_type"),
            ("small".to_owned(), "out_of_range"),
            ("tree.branches[0].branch".to_owned(), "unknown_key"),
            ("when".to_owned(), "bad_value"),
        ]
    );
}

#[test]
fn a_schema_with_a_rule_that_would_be_skipped_is_refused() {
    for (schema, keyword) in [
        (json!({"type": "object", "unevaluatedProperties": false}), "unevaluatedProperties"),
        (json!({"properties": {"a": {"not": {}}}}), "not"),
        (json!({"pattern": "(?=x)"}), "pattern"),
        (json!({"$ref": "#/$defs/nowhere"}), "$ref"),
    ] {
        let error = Validator::new(&schema).expect_err(keyword);
        assert!(error.to_string().contains(keyword), "{error}");
    }
}

/// Any JSON, with keys that our types know often enough to get deep into them.
fn any_json() -> impl Strategy<Value = Value> {
    let keys = prop_oneof![
        prop::sample::select(vec![
            "agent",
            "prompt",
            "segments",
            "tools",
            "allowed_tools",
            "role",
            "content",
            "type",
            "text",
            "budget",
            "tokens",
            "mode",
            "spawns",
            "wait_ms",
            "run_id",
            "agent_id",
            "status",
            "limit",
            "metadata",
            "kind",
            "user_bearer",
        ])
        .prop_map(str::to_owned),
        ".{0,6}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["user", "trusted-text", "detach", "queued", "a"]).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Whether what passes the validator is what serde reads: no rule of serde's is missing from the schema.
fn passes_only_what_serde_reads<T: JsonSchema + serde::de::DeserializeOwned>(
    value: &Value,
) -> Result<(), TestCaseError> {
    let mut checked = value.clone();
    if Validator::of::<T>().check(&mut checked).is_ok() {
        let read = serde_json::from_value::<T>(checked.clone());
        prop_assert!(read.is_ok(), "{checked} passed, and serde says {:?}", read.err());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_json_is_checked_without_a_panic_and_what_passes_is_read(value in any_json()) {
        passes_only_what_serde_reads::<SpawnRun>(&value)?;
        passes_only_what_serde_reads::<SpawnRuns>(&value)?;
        passes_only_what_serde_reads::<ListRuns>(&value)?;
        passes_only_what_serde_reads::<GetRun>(&value)?;
        passes_only_what_serde_reads::<CancelRun>(&value)?;
    }

    #[test]
    fn an_unknown_key_never_passes(key in "[a-z_]{1,12}", value in any_json(), place in 0..3) {
        let known = schemars::schema_for!(SpawnRun).to_value();
        let known = known["properties"].as_object().expect("a struct");
        prop_assume!(!known.contains_key(&key) && key != "allowed_tools");
        let mut body = json!({"agent": "a", "budget": {"tokens": 1},
            "segments": [{"role": "user", "content": [{"type": "trusted-text", "text": "x"}]}]});
        let target = match place {
            0 => &mut body,
            1 => &mut body["budget"],
            _ => &mut body["segments"][0],
        };
        prop_assume!(target.get(&key).is_none());
        target[&key] = value;
        let found = Validator::of::<SpawnRun>().check(&mut body).expect_err("it is unknown");
        prop_assert!(found.iter().any(|problem| matches!(problem.code, "unknown_key" | "not_built")));
    }
}
