//! `--set KEY=VALUE` of `drawloom defs fork`, as one merge patch.

use serde_json::{Map, Value, map::Entry};

use crate::{commands::check_numbers, config, exit::CommandError};

/// The merge patch that all fields together are. Dots in a key lead into objects; a key that is given twice is refused.
pub(super) fn patch(fields: &[String]) -> Result<Value, CommandError> {
    let mut patch = Map::new();
    for text in fields {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| key.split('.').all(|part| !part.is_empty()))
        else {
            return Err(CommandError::usage("bad_field", format!("invalid field {text:?}"))
                .with_hint("write KEY=VALUE, such as max_iterations=8 or budget.tokens=500"));
        };
        let mut parts = key.split('.');
        let first = parts.next().unwrap_or_default().to_owned();
        let value = parts.rev().fold(read(value)?, |value, part| Map::from_iter([(part.to_owned(), value)]).into());
        add(&mut patch, first.clone(), value, &first)?;
    }
    Ok(patch.into())
}

/// JSON, or a YAML list or object on one line such as `[Memory, Channel]`, or text.
fn read(text: &str) -> Result<Value, CommandError> {
    if let Ok(value) = serde_json::from_str(text) {
        return check_numbers(text).map(|()| value);
    }
    let read_yaml = || config::parse_value(text).filter(|value| value.is_array() || value.is_object());
    let is_flow = text.trim_start().starts_with(['[', '{']);
    Ok(is_flow.then(read_yaml).flatten().unwrap_or_else(|| text.into()))
}

/// Adds a field to an object, and the fields of an object to those of the object that it has.
fn add(object: &mut Map<String, Value>, key: String, value: Value, path: &str) -> Result<(), CommandError> {
    let mut there = match object.entry(key) {
        Entry::Vacant(free) => {
            free.insert(value);
            return Ok(());
        }
        Entry::Occupied(there) => there,
    };
    match (there.get_mut(), value) {
        (Value::Object(known), Value::Object(more)) => {
            for (key, value) in more {
                let path = format!("{path}.{key}");
                add(known, key, value, &path)?;
            }
            Ok(())
        }
        _ => Err(CommandError::usage("bad_field", format!("--set gives {path} twice"))
            .with_hint(format!("keep one value of {path}; items of a list go into one value: {path}=[a, b]"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(fields: &[&str]) -> Result<Value, String> {
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        patch(&fields).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_of_one_object_are_all_kept() {
        let gates = of(&[r#"channels.publish=["talk"]"#, r#"channels.subscribe=["talk"]"#, "max_iterations=8"]);
        let wanted = json!({"channels": {"publish": ["talk"], "subscribe": ["talk"]}, "max_iterations": 8});
        assert_eq!(gates, Ok(wanted));
        assert_eq!(
            of(&["budget.tokens=500", "budget={\"cost\": 1}"]),
            Ok(json!({"budget": {"tokens": 500, "cost": 1}}))
        );
    }

    #[test]
    fn a_key_that_is_given_twice_is_refused() {
        for (fields, path) in [
            (&["tools=[]", "tools=[Memory]"][..], "tools"),
            (&["budget.tokens=1", "budget.tokens=2"], "budget.tokens"),
            (&["budget=null", "budget.tokens=2"], "budget"),
            (&["budget.tokens=2", "budget={\"tokens\": 2}"], "budget.tokens"),
        ] {
            let refused = of(fields).expect_err("it is given twice");
            assert!(refused.contains(&format!("{path} twice")), "{refused}");
        }
        assert!(of(&["max_iterations"]).is_err() && of(&["=1"]).is_err() && of(&["budget.=1"]).is_err());
    }

    #[test]
    fn lists_are_read_as_json_and_as_yaml_and_the_rest_is_text() {
        assert_eq!(of(&["tools=[Bash, Memory]"]), Ok(json!({"tools": ["Bash", "Memory"]})));
        assert_eq!(of(&["budget={tokens: 5}"]), Ok(json!({"budget": {"tokens": 5}})));
        assert_eq!(of(&["effort=null"]), Ok(json!({"effort": null})));
        for text in ["Be brief: always.", "{{prompt}}", "[note] be brief", "a, b", "yes", ""] {
            assert_eq!(of(&[&format!("system_prompt={text}")]), Ok(json!({"system_prompt": text})), "{text}");
        }
    }
}
