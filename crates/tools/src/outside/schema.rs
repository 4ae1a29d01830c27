//! Whether what a server calls a JSON Schema is one that a model's provider will take. A wrong one would fail every turn of
//! every run that is offered the tool, so it is better found here.

mod plain;

use serde_json::{Map, Value};

use plain::{COUNTS, decoded, plain};

/// The deepest nesting.
pub(super) const DEEPEST: usize = 24;

/// The longest schema as text, in bytes.
pub(super) const LONGEST: usize = 64 * 1024;

/// The longest name of a property that providers take.
pub(super) const LONGEST_PROPERTY: usize = 64;

/// What a value may be.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// What providers do not take at the top of a tool's schema, and what means nothing without it.
const NOT_AT_THE_TOP: [&str; 8] = ["oneOf", "anyOf", "allOf", "not", "if", "then", "else", "enum"];

/// A schema that can be offered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Usable {
    pub(super) schema: Value,
    /// Rules that had to be taken off the top; the tool's description must say them.
    pub(super) moved: Option<Value>,
    /// How long both are as text, in bytes.
    pub(super) length: usize,
}

/// The schema of a tool's input as it can be offered, or what is wrong with it.
pub(super) fn usable(schema: &Value) -> Result<Usable, String> {
    if !schema.is_object() {
        return Err("its input schema is not a JSON object".into());
    }
    let length = schema.to_string().len();
    if length > LONGEST {
        return Err(format!("its input schema has {length} bytes; the limit is {LONGEST}"));
    }
    let Some(schema) = plain(schema, LONGEST) else {
        return Err(format!("the paths of its anchors have more than {LONGEST} bytes"));
    };
    // References to anchors may have become longer.
    let length = length.max(schema.to_string().len());
    check(&schema, &schema, DEEPEST).map_err(|problem| format!("invalid input schema: {problem}"))?;
    let Value::Object(mut map) = schema else { return Err("its input schema is not a JSON object".into()) };
    match map.get("type") {
        None => drop(map.insert("type".into(), "object".into())),
        Some(kind) if kind == "object" => {}
        Some(kind) => return Err(format!("its input schema is of type {kind}, not object")),
    }
    map.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    map.remove("$schema");
    let moved: Map<String, Value> =
        NOT_AT_THE_TOP.iter().filter_map(|key| Some(((*key).to_owned(), map.remove(*key)?))).collect();
    let schema = Value::Object(map);
    if moved.is_empty() {
        return Ok(Usable { schema, moved: None, length });
    }
    // A reference may have led to what is not there any more.
    check(&schema, &schema, DEEPEST).map_err(|problem| format!("without its top-level rules, {problem}"))?;
    Ok(Usable { schema, moved: Some(Value::Object(moved)), length })
}

fn check(schema: &Value, root: &Value, deeper: usize) -> Result<(), String> {
    let map = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(map) => map,
        other => return Err(format!("{} is not a schema", short(other))),
    };
    let Some(deeper) = deeper.checked_sub(1) else {
        return Err(format!("it is nested more than {DEEPEST} levels deep"));
    };
    for (key, value) in map {
        match key.as_str() {
            "type" => check_type(value)?,
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let Value::Object(named) = value else { return Err(format!("`{key}` is not an object")) };
                if key == "properties" {
                    named.keys().try_for_each(|name| check_property(name))?;
                }
                named.values().try_for_each(|below| check(below, root, deeper))?;
            }
            "items"
            | "additionalProperties"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "additionalItems"
            | "unevaluatedProperties"
            | "unevaluatedItems" => match value {
                Value::Array(_) if key == "items" => {
                    return Err("`items` is a list, as in drafts before 2020-12".into());
                }
                below => check(below, root, deeper)?,
            },
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value {
                Value::Array(list) if !list.is_empty() => {
                    list.iter().try_for_each(|below| check(below, root, deeper))?
                }
                _ => return Err(format!("`{key}` is not a list of schemas")),
            },
            "required" => {
                let names = value.as_array().is_some_and(|list| list.iter().all(Value::is_string) && is_unique(list));
                if !names {
                    return Err("`required` is not a list of unique names".into());
                }
            }
            "enum" if !value.is_array() => return Err("`enum` is not a list".into()),
            "description" | "title" | "format" if !value.is_string() => return Err(format!("`{key}` is not a string")),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" if !value.is_number() => {
                return Err(format!("`{key}` is not a number"));
            }
            count if COUNTS.contains(&count) && !value.is_u64() => {
                return Err(format!("`{key}` is not a non-negative integer"));
            }
            "pattern" if !value.is_string() => return Err("`pattern` is not a string".into()),
            "$ref" => check_reference(value, root)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_type(value: &Value) -> Result<(), String> {
    let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let fits = match value {
        Value::Array(list) => !list.is_empty() && list.iter().all(known) && is_unique(list),
        value => known(value),
    };
    if fits { Ok(()) } else { Err(format!("unknown type {}", short(value))) }
}

/// Whether nothing is there twice.
fn is_unique(list: &[Value]) -> bool {
    list.iter().enumerate().all(|(at, value)| !list[..at].contains(value))
}

/// A property's name must be one that providers take.
fn check_property(name: &str) -> Result<(), String> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
    match !name.is_empty() && name.len() <= LONGEST_PROPERTY && name.chars().all(plain) {
        true => Ok(()),
        false => Err(format!(
            "providers reject the property name {}: use 1 to {LONGEST_PROPERTY} letters, digits, `_`, `.` and `-`",
            short(&Value::from(name))
        )),
    }
}

/// A reference must lead to a place in the same schema: others are not fetched.
fn check_reference(value: &Value, root: &Value) -> Result<(), String> {
    let Some(pointer) = value.as_str().and_then(|text| text.strip_prefix('#')) else {
        return Err(format!("`$ref` points outside the schema: {}", short(value)));
    };
    match root.pointer(pointer).is_some() || decoded(pointer).is_some_and(|pointer| root.pointer(&pointer).is_some()) {
        true => Ok(()),
        false => Err(format!("`$ref` points to nothing: {}", short(value))),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_good_schema_stays_as_it_is() {
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "many": {"type": ["array", "null"], "items": {"$ref": "#/$defs/one"}}},
            "required": ["path"],
            "additionalProperties": false,
            "$defs": {"one": {"anyOf": [{"type": "integer"}, true]}}
        });
        let length = schema.to_string().len();
        assert_eq!(usable(&schema), Ok(Usable { schema, moved: None, length }));
    }

    #[test]
    fn what_is_missing_is_filled_in_and_what_providers_refuse_is_moved() {
        let made = usable(&json!({"$schema": "x", "anyOf": [{"required": ["a"]}]})).expect("usable");
        assert_eq!(made.schema, json!({"type": "object", "properties": {}}));
        assert_eq!(made.moved, Some(json!({"anyOf": [{"required": ["a"]}]})));
        let rules = json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}});
        let made = usable(&rules).expect("usable");
        assert_eq!((made.schema, made.moved), (json!({"type": "object", "properties": {}}), Some(rules)));
    }

    #[test]
    fn references_are_found_in_every_way_of_writing_them() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"$ref": "#/$defs/with%20space"}, "b": {"$ref": "#here"}, "c": {"$ref": "#"},
                "d": {"type": "string", "minLength": 1.0},
            },
            "$defs": {"with space": {"$anchor": "here", "type": "string"}},
        });
        let made = usable(&schema).expect("usable");
        assert_eq!(made.schema["properties"]["b"], json!({"$ref": "#/$defs/with space"}));
        assert_eq!(made.schema["properties"]["d"], json!({"type": "string", "minLength": 1}));
    }

    #[test]
    fn every_lie_is_found() {
        let deep = (0..30).fold(json!({}), |below, _| json!({"items": below}));
        for lie in [
            json!("object"),
            json!(null),
            json!({"type": "string"}),
            json!({"type": 5}),
            json!({"type": "objekt"}),
            json!({"properties": [1]}),
            json!({"properties": {"a": "string"}}),
            json!({"properties": {"a": {"type": "thing"}}}),
            json!({"required": "a"}),
            json!({"anyOf": []}),
            json!({"properties": {"a": {"$ref": "https://elsewhere/schema"}}}),
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
            json!({"properties": {"a": {"$ref": "#nowhere"}}}),
            json!({"properties": {"a": {"minLength": -1}}}),
            json!({"properties": {"a": {"minLength": 1.5}}}),
            json!({"properties": {"a": {"enum": "x"}}}),
            json!({"properties": {"a": deep}}),
            json!({"properties": {"$filter": {}}}),
            json!({"properties": {"": {}}}),
            json!({"properties": {"a": {"properties": {"x".repeat(65): {}}}}}),
            json!({"properties": {"a": {"items": [{"type": "string"}]}}}),
            json!({"properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}),
            json!({"properties": {"a": {}}, "required": ["a", "a"]}),
            json!({"properties": {"a": {"type": ["string", "string"]}}}),
            json!({"properties": {"a": {"$ref": "#/anyOf/0"}}, "anyOf": [{"type": "object"}]}),
            json!({"description": "x".repeat(LONGEST)}),
        ] {
            assert!(usable(&lie).is_err(), "{}", short(&lie));
        }
    }
}
