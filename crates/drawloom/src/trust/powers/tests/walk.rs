//! Changes each key of a config, one after the other: a power must change the list, and a key that calls itself harmless must not.

use serde_json::Value;

use super::{EVERYTHING, Powers, declared};
use crate::config::{self, Config, Loaded};

/// Values of keys that [`EVERYTHING`] does not set: what is harmless, or not part of one and the same config.
const OTHERS: &str = r#"
defaults: { provider: usual, model: m }
models: { fast: { provider: usual, model: m } }
tiers: { low: [fast] }
user_tiers: { default: { provider_priority: [usual], tiers: { low: [fast] }, retry_attempts: 1 } }
provider_priority: [usual]
pricing: { currency: EUR, models: { usual/m: { input: 1, output: 2, cache_read: 1, cache_write: 1 } } }
providers:
  usual:
    driver: anthropic
    max_concurrent: 1
    options:
      seed: 1
      rules: [{ text: hello }]
      header_timeout_ms: 1
      idle_timeout_ms: 1
      api: responses
      key_header: x-key
      reasoning_summary: auto
      capabilities: { supports_thinking: true, supports_vision: true, native_prompt_cache: true, parallel_tool_calls: true, supports_tools: true, max_context_tokens: 1 }
agents:
  full:
    description: d
    model: m
    tier: low
    providers: [usual]
    models: { low: [fast] }
    effort: low
    sampling: { temperature: 1, top_p: 1, top_k: 1, frequency_penalty: 1, presence_penalty: 1, seed: 1, stop: [a] }
    system_prompt: p
    agents: [coder]
    volumes: [inside]
    memory_scopes: [agent]
    evaluation_scopes: [submit_self]
    channels: { publish: [a], subscribe: [a] }
    skills: [s]
    bundled_skills: [s]
    definitions: [agent]
    max_tokens: 1
    run_timeout_seconds: 1
    budget: { tokens: 1, cost: 1 }
prompts: { p: { description: d, argument_hint: h, text: t } }
sources: [{ claude: inside, grant: { tools: [Read], volumes: [inside], agents: [coder], hosts: [a], memory_scopes: [agent],
            evaluation_scopes: [submit_self], mcp_servers: [m] } }]
tools: { bash: { max_memory_bytes: 1, max_file_bytes: 1 } }
clis:
  mine:
    model: m
    max_cost: 1
    max_memory_bytes: 1
    max_processes: 1
    time_limit_seconds: 1
    state:
      - { path: /srv/state, variable: A, settings: [a], shared: [a], sessions: [a], login: [{ file: a, fields: [a], account: /a, newer: /a }] }
channels: { c: { description: d, default_ttl: 1, dead_letter: d } }
memory: { default_ttl_seconds: 1, max_ttl_seconds: 1 }
definitions: { grant: { definitions: [agent] }, volumes_under: [{ path: inside, mode: rw, tenant: acme }] }
goals: { quota_bytes: 1, keep_days: 1, readable_paths: [/srv], writable_paths: [/srv], max_memory_bytes: 1, max_processes: 1 }
redaction: { values_env: [A] }
"#;

/// Lays one value over another.
fn lay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(map), Value::Object(more)) => {
            for (key, value) in more {
                lay(map.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// A config with a value for every key, which no file could have, because some keys exclude each other.
fn complete(loaded: &Loaded) -> Value {
    let mut whole = serde_json::to_value(&loaded.config).expect("plain data");
    lay(&mut whole, config::parse_value(OTHERS).expect("YAML"));
    // What the entries leave out gets its default.
    let config: Config = serde_json::from_value(whole).expect("a config");
    serde_json::to_value(config).expect("plain data")
}

/// Other values to try in place of one; the config may not take all of them.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(flag) => vec![(!flag).into()],
        Value::Number(_) => vec![7.into(), 8.into()],
        Value::String(text) => {
            let words = [
                "/opt",
                "Bash",
                "*",
                "memory:read",
                "agent",
                "all",
                "cli",
                "codex",
                "high",
                "low",
                "medium",
                "model",
                "openai",
                "aider",
                "none",
                "user",
                "volume",
                "tenant",
                "read_any",
                "ro",
                "anthropic",
                "broadcast",
                "runs:create",
                "skill",
                "chat",
                "detailed",
                "0.0.0.0:1",
            ];
            words.iter().filter(|word| *word != text).map(|word| Value::from(*word)).collect()
        }
        Value::Array(items) => {
            // One item that was not there, made like those that are.
            let made = items.first().map(others).unwrap_or_default().into_iter().filter(|item| !items.contains(item));
            let longer = made.map(|item| items.iter().cloned().chain([item]).collect());
            longer.chain(items.split_last().map(|(_, rest)| rest.to_vec().into())).collect()
        }
        Value::Object(entries) => {
            let first = entries.values().next().cloned().unwrap_or(Value::Null);
            let mut more = entries.clone();
            more.insert("low".into(), first.clone());
            let mut more_still = entries.clone();
            more_still.insert("another".into(), first.clone());
            let replaced = entries.keys().next().map(|key| {
                others(&first).into_iter().map(|other| {
                    let mut changed = entries.clone();
                    changed.insert(key.clone(), other);
                    Value::Object(changed)
                })
            });
            replaced.into_iter().flatten().chain([Value::Object(more), Value::Object(more_still)]).collect()
        }
        Value::Null => Vec::new(),
    }
}

/// The powers for each other value that is possible at `path`.
fn changed(loaded: &mut Loaded, whole: &Value, path: &[String]) -> Vec<Powers> {
    let pointer: String = path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
    let before: Config = serde_json::from_value(whole.clone()).expect("a config");
    let value = whole.pointer(&pointer).expect("it was found there");
    let configs = others(value).into_iter().filter_map(|other| {
        let mut tried = whole.clone();
        *tried.pointer_mut(&pointer)? = other;
        serde_json::from_value::<Config>(tried).ok().filter(|config| *config != before)
    });
    let mut powers = Vec::new();
    for config in configs.collect::<Vec<_>>() {
        loaded.config = config;
        powers.push(Powers::of(loaded));
    }
    powers
}

#[test]
fn a_change_of_a_power_changes_the_list_and_of_a_harmless_key_does_not() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let file = temporary.path().join("drawloom.yaml");
    let lookup = |name: &str| (name == "PLAIN").then(|| "plain".to_owned());
    let mut loaded = config::join(vec![(file, EVERYTHING.as_bytes().to_vec())], &lookup).expect("no mistakes");
    let whole = complete(&loaded);
    loaded.config = serde_json::from_value(whole.clone()).expect("a config");
    let before = Powers::of(&loaded);
    let (_, declared) = declared::made();
    let mut missing = Vec::new();
    for power in &declared.powers {
        let places = declared::find(&whole, &power.key);
        let lists = places.iter().flat_map(|found| changed(&mut loaded, &whole, &found.path)).any(|now| now != before);
        if !lists {
            missing.push(format!("{}: a change of it changes no line", power.key));
        }
    }
    for key in declared.harmless.keys() {
        let places = declared::find(&whole, key);
        let now: Vec<Powers> = places.iter().flat_map(|found| changed(&mut loaded, &whole, &found.path)).collect();
        if now.is_empty() {
            missing.push(format!("{key}: the configs of this test have no value that can be changed"));
        } else if now.iter().any(|now| *now != before) {
            missing.push(format!("{key}: calls itself harmless, and a change of it changes a line"));
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
