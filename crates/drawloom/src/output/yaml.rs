//! Answers as YAML, for `-o yaml`.

use serde_json::Value;

use crate::import::emit::{block, is_block, scalar};

/// A value as a document in block style, with a line end.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

/// Writes a value that begins at the start of its line, or after `- `.
fn write(text: &mut String, value: &Value, indent: usize) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (place, (key, value)) in map.iter().enumerate() {
                if place > 0 {
                    text.push_str(&pad);
                }
                text.push_str(&scalar(key));
                text.push(':');
                if is_nested(value) {
                    text.push_str(&format!("\n{pad}  "));
                    write(text, value, indent + 2);
                } else {
                    text.push(' ');
                    text.push_str(&single(value, indent + 2));
                    text.push('\n');
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push_str(&pad);
                }
                text.push_str("- ");
                write(text, item, indent + 2);
            }
        }
        other => {
            text.push_str(&single(other, indent));
            text.push('\n');
        }
    }
}

fn is_nested(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// A scalar, an empty list or an empty map; `indent` is for the lines of a block.
fn single(value: &Value, indent: usize) -> String {
    match value {
        Value::String(text) if is_block(text) => block(text, indent.max(2)),
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::yaml;

    #[test]
    fn answers_are_yaml_that_reads_back_as_the_same_value() {
        let value = json!({
            "runs": [{ "run_id": "r_01", "final_text": "one\n\n  two\n", "usage": { "input": 3, "cost": 0.5 } }, [1, [2]], "x: y", {}],
            "empty": [], "none": null, "key with: colon": true, "lines": ["a\nb", "yes", "\u{1b}[2J\u{9b}\u{202e}\u{200b}\u{7f}\u{e0041}\r", "two\n\u{2028}lines\n\u{feff}"], "deep": { "er": { "est": "1" } },
        });
        for value in [value, json!("a\nb"), json!([]), json!([[["a"], []], {}]), json!("plain")] {
            let text = document(&value);
            let (node, faults) = yaml::parse(0, text.as_bytes()).unwrap_or_else(|fault| panic!("{fault:?} in\n{text}"));
            assert!(faults.is_empty(), "{faults:?}");
            assert_eq!(node.to_value(), value, "{text}");
        }
        let run = json!({ "runs": [{ "run_id": "r_01", "usage": { "input": 3 } }], "next": null });
        assert_eq!(document(&run), "next: null\nruns:\n  - run_id: r_01\n    usage:\n      input: 3\n");
    }
}
