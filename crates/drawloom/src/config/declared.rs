//! What the keys of the config say of themselves: each is a power, with the words of its line, or harmless, with the reason.
//!
//! A key says it in its type: `#[schemars(extend("x-power" = { "words": …, "as": …, "when": … }))]` or
//! `#[schemars(extend("x-harmless" = "reason"))]`. A key whose value is a section says nothing; the keys inside it do.

use std::{collections::BTreeMap, sync::OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a value is written in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shown {
    /// The value; of a list each item in a line of its own.
    #[default]
    Text,
    /// The real path.
    Path,
    /// A program and its arguments, or a command for a shell.
    Program,
    /// A URL.
    Address,
    /// The names of environment variables.
    Variable,
    /// The address that a driver uses without a `base_url`.
    Driver,
    /// Nothing: the words say all.
    Flag,
}

/// When a value is a power. A value that is absent, empty or `false` never is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    #[default]
    Set,
    /// It differs from the default; of a list, the items that the default does not have.
    NotDefault,
    /// The path leads out of the config's folder.
    Outside,
    /// The path leads out of the config's folder, or the key `mode` beside it is `rw`.
    OutsideOrRw,
    /// The path is not the config's folder itself.
    OtherFolder,
    /// The mode is `rw`.
    Rw,
    /// The address is not a loopback address.
    NotLoopback,
    /// The executor is not the built-in agent loop.
    OtherExecutor,
    /// The key `executor` beside it is `cli`.
    Cli,
    /// The agent has `Bash`, and `Bash` is enabled.
    Bash,
    /// The same, and its commands reach the machine's network.
    BashNetwork,
}

/// A key that is a power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Power {
    /// The key, such as `mcp_servers.*.command`; `*` is any name or index.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key: String,
    /// The words of its line; `{}` stands for the value.
    pub(crate) words: String,
    #[serde(default, rename = "as", skip_serializing_if = "is_default")]
    pub(crate) shown: Shown,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) when: When,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) default: Value,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The keys that are powers.
pub(crate) fn powers() -> &'static [Power] {
    static POWERS: OnceLock<Vec<Power>> = OnceLock::new();
    POWERS.get_or_init(|| {
        serde_json::from_str(include_str!("powers.json")).expect("a test compares it with what is made")
    })
}

/// The schema of the config's types, and what its keys say of themselves.
pub(crate) fn made() -> (Value, Declared) {
    let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<super::Config>().to_value();
    let declared = Declared::take_from(&mut schema);
    (schema, declared)
}

/// What a schema's keys say.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) powers: Vec<Power>,
    /// Keys that are no powers, with the reason.
    pub(crate) harmless: BTreeMap<String, String>,
    /// Keys that say nothing, both, or something that cannot be read.
    pub(crate) mistakes: Vec<String>,
}

impl Declared {
    /// Takes what the keys say out of the schema of a config.
    pub(crate) fn take_from(schema: &mut Value) -> Self {
        let mut declared = Self::default();
        let definitions = schema.get("$defs").cloned().unwrap_or_default();
        declared.section(&definitions, schema, &mut Vec::new());
        declared.powers.sort_by(|left, right| left.key.cmp(&right.key));
        strip(schema);
        declared
    }

    /// Reads the keys of a value that is a section, or holds sections; says whether it does.
    fn section(&mut self, definitions: &Value, schema: &Value, path: &mut Vec<String>) -> bool {
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return self.section(definitions, &definitions[name], path);
        }
        let mut found = false;
        for alternative in ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()).flatten() {
            found |= self.section(definitions, alternative, path);
        }
        for inner in [&schema["items"], &schema["additionalProperties"]].into_iter().filter(|inner| inner.is_object()) {
            path.push("*".into());
            found |= self.section(definitions, inner, path);
            path.pop();
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            path.push(key.clone());
            self.key(definitions, property, path);
            path.pop();
            found = true;
        }
        found
    }

    fn key(&mut self, definitions: &Value, property: &Value, path: &mut Vec<String>) {
        let key = path.join(".");
        let mut mistake = |what: String| self.mistakes.push(format!("{key}: {what}"));
        match (&property["x-power"], &property["x-harmless"]) {
            (Value::Null, Value::Null) => {
                if !self.section(definitions, property, path) {
                    self.mistakes.push(format!("{key}: says neither x-power nor x-harmless"));
                }
            }
            (Value::Null, Value::String(reason)) if !reason.is_empty() => {
                self.harmless.insert(key, reason.clone());
            }
            (power @ Value::Object(_), Value::Null) => match Power::deserialize(power) {
                Ok(power) => self.powers.push(Power { key, default: property["default"].clone(), ..power }),
                Err(error) => mistake(format!("x-power: {error}")),
            },
            _ => mistake("x-power is an object, x-harmless a reason, and a key has one of them".into()),
        }
    }
}

/// Removes what the keys say: a schema for people and editors does not need it.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.retain(|key, _| key != "x-power" && key != "x-harmless");
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// A value of a config and where it stands.
pub(crate) struct Found<'a> {
    /// Keys and indices.
    pub(crate) path: Vec<String>,
    pub(crate) value: &'a Value,
    /// The section that the key is in.
    pub(crate) beside: &'a Map<String, Value>,
}

/// The values of `key` in a config.
pub(crate) fn find<'a>(config: &'a Value, key: &str) -> Vec<Found<'a>> {
    let steps: Vec<&str> = key.split('.').collect();
    let mut found = Vec::new();
    collect(config, &steps, &mut Vec::new(), &mut found);
    found
}

fn collect<'a>(node: &'a Value, steps: &[&str], path: &mut Vec<String>, found: &mut Vec<Found<'a>>) {
    let Some((step, rest)) = steps.split_first() else { return };
    let children: Vec<(String, &Value)> = match (node, *step) {
        (Value::Object(map), "*") => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        (Value::Array(items), "*") => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        (Value::Object(map), key) => map.get(key).map(|value| (key.to_owned(), value)).into_iter().collect(),
        _ => Vec::new(),
    };
    for (key, value) in children {
        path.push(key);
        match (rest.is_empty(), node) {
            (true, Value::Object(beside)) => found.push(Found { path: path.clone(), value, beside }),
            _ => collect(value, rest, path, found),
        }
        path.pop();
    }
}
