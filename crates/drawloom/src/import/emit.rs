//! Values as YAML that people like to read: plain words, lists on a line, long texts as blocks.

use serde_json::{Map, Value};

/// Most columns of a list on one line.
const WIDTH: usize = 100;

/// A key with its value, indented, with a line end.
pub(super) fn entry(key: &str, value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let key = scalar(key);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let below: String = ordered(map).map(|(key, value)| entry(key, value, indent + 2)).collect();
            format!("{pad}{key}:\n{below}")
        }
        _ => format!("{pad}{key}:{}\n", after_key(value, indent)),
    }
}

/// What stands after a key and its colon, without the last line end: a space and a value, or lines below.
pub(super) fn after_key(value: &Value, indent: usize) -> String {
    match value {
        Value::String(text) if is_block(text) => format!(" {}", block(text, indent + 2)),
        Value::Array(items) if !items.is_empty() && !fits(value, indent) => {
            let pad = " ".repeat(indent + 2);
            items.iter().map(|item| format!("\n{pad}- {}", flow(item))).collect()
        }
        Value::Object(map) if !map.is_empty() => {
            let below: String = ordered(map).map(|(key, value)| entry(key, value, indent + 2)).collect();
            format!("\n{}", below.trim_end_matches('\n'))
        }
        _ => format!(" {}", flow(value)),
    }
}

/// Keys in the order in which people look for them; others stay in theirs.
fn ordered(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    const FIRST: [&str; 14] = [
        "description",
        "argument_hint",
        "driver",
        "command",
        "url",
        "tier",
        "provider",
        "model",
        "tools",
        "agents",
        "hosts",
        "skills",
        "bundled_skills",
        "directories",
    ];
    const LAST: [&str; 2] = ["system_prompt", "text"];
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| match (FIRST.iter().position(|first| first == key), LAST.contains(&key.as_str())) {
        (Some(place), _) => place,
        (None, false) => FIRST.len(),
        (None, true) => FIRST.len() + 1,
    });
    entries.into_iter()
}

fn fits(value: &Value, indent: usize) -> bool {
    flow(value).len() + indent < WIDTH
}

/// A value on one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) if map.is_empty() => "{}".into(),
        Value::Object(map) => {
            let parts = ordered(map).map(|(key, value)| format!("{}: {}", scalar(key), flow(value)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A text on one line: as it is when nothing in it means anything to YAML, else quoted.
pub(crate) fn scalar(text: &str) -> String {
    let begins = text.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_');
    let plain = |sign: char| {
        sign.is_ascii_alphanumeric() || "_-./@() ;!?".contains(sign) || (sign > '\u{a0}' && is_printable(sign))
    };
    let is_word = !matches!(
        text.to_ascii_lowercase().as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "nan" | "inf"
    );
    match begins && is_word && text.chars().all(plain) && !text.ends_with(' ') {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// A text in quotes, with everything escaped that YAML would not take as it is.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for sign in text.chars() {
        match sign {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if is_printable(sign) => out.push(sign),
            _ if u32::from(sign) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(sign))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(sign))),
        }
    }
    out.push('"');
    out
}

/// Whether a sign may stand in YAML as it is, in quotes or in a block.
fn is_printable(sign: char) -> bool {
    !crate::output::is_unsafe(sign)
        && matches!(sign, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(sign, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a text of several lines can be a block, which keeps it as it is.
pub(crate) fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.trim().is_empty()
        && text.chars().all(|sign| is_printable(sign) || sign == '\n' || sign == '\t')
        // Blank lines at the end would need a marker that is easily overlooked.
        && !text.ends_with("\n\n")
}

/// A literal block: its header, and its lines.
pub(crate) fn block(text: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    // Else the first line's blanks would count as indentation.
    let marker = if text.starts_with(['\n', ' ', '\t']) || first.starts_with([' ', '\t']) { "2" } else { "" };
    let (text, chomp) = match text.strip_suffix('\n') {
        Some(text) => (text, ""),
        None => (text, "-"),
    };
    let lines = text.split('\n').map(|line| if line.is_empty() { "\n".to_owned() } else { format!("\n{pad}{line}") });
    format!("|{marker}{chomp}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::config::yaml;

    fn back(text: &str) -> Value {
        let (node, faults) = yaml::parse(0, text.as_bytes()).unwrap_or_else(|fault| panic!("{fault:?} in\n{text}"));
        assert!(faults.is_empty(), "{faults:?}");
        node.to_value()
    }

    #[test]
    fn values_look_as_people_write_them() {
        let value = json!({
            "description": "Reviews: code", "tools": ["Read", "mcp__x__*"], "agents": [], "tier": "high",
            "system_prompt": "One.\n\n  Two: # three\n", "max_iterations": 3
        });
        assert_eq!(
            entry("code-reviewer", &value, 2),
            "  code-reviewer:\n    description: \"Reviews: code\"\n    tier: high\n    tools: [Read, \"mcp__x__*\"]\n    agents: []\n    \
             max_iterations: 3\n    system_prompt: |\n      One.\n\n        Two: # three\n"
        );
        assert_eq!(back(&entry("a", &value, 0)), json!({ "a": value }));
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[ -~\n\t]{0,40}",
            "[-?:,\\[\\]{}#&*!|>'\"%@` \n]{0,12}",
            "( |\t|\n|x){0,8}",
            Just("---".to_owned()),
            Just("1_000".to_owned()),
            Just("0x1F".to_owned()),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any_text().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any_text(), inner, 0..5)
                    .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(key in any_text(), value in any_value(), indent in 0..3_usize) {
            // A merge key is refused by the config's own rules.
            prop_assume!(!entry(&key, &value, 0).contains("<<"));
            let text = entry(&key, &value, indent * 2);
            let text = if indent > 0 { format!("top:\n{text}") } else { text };
            let expected = json!({ key: value });
            let expected = if indent > 0 { json!({ "top": expected }) } else { expected };
            prop_assert_eq!(back(&text), expected, "{}", text);
        }
    }
}
