//! Schemas as models need them: one self-contained object without references, with the parameters that a model is told of.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::operation::Parameter;

/// An operation's schema, self-contained.
pub(super) fn self_contained(make: fn(&mut SchemaGenerator) -> Schema) -> Map<String, Value> {
    let mut generator = SchemaGenerator::default();
    let schema = make(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let mut open = Vec::new();
    match inline(schema, &definitions, &mut open) {
        Value::Object(mut map) => {
            map.entry("type").or_insert_with(|| json!("object"));
            map
        }
        _ => Map::from_iter([("type".to_owned(), json!("object"))]),
    }
}

/// What a model is told of an input: these parameters only, in their own words, without what the validator checks anyway.
pub(super) fn for_model(schema: &mut Map<String, Value>, parameters: &[Parameter]) {
    schema.remove("description");
    if !parameters.is_empty() {
        narrow(schema, "", parameters);
    }
    without_checks(schema);
}

fn narrow(schema: &mut Map<String, Value>, above: &str, parameters: &[Parameter]) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let mut needed = Vec::new();
    let is_any_inside = |above: &str| parameters.iter().any(|one| one.path.starts_with(above));
    properties.retain(|name, property| {
        let path = format!("{above}{name}");
        let Some(parameter) = parameters.iter().find(|one| one.path == path) else { return false };
        if parameter.is_needed {
            needed.push(json!(name));
        }
        let Value::Object(property) = property else { return true };
        property.insert("description".into(), parameter.words.into());
        let (fields, items) = (format!("{path}."), format!("{path}[]."));
        if is_any_inside(&fields) {
            narrow(property, &fields, parameters);
        }
        if let Some(Value::Object(item)) = property.get_mut("items") {
            item.remove("description");
            if is_any_inside(&items) {
                narrow(item, &items, parameters);
            }
        }
        true
    });
    match needed.is_empty() {
        true => schema.remove("required"),
        false => schema.insert("required".into(), needed.into()),
    };
}

/// A schema without the checks that tell a model nothing: the validator makes them, and its errors say what to do.
fn without_checks(schema: &mut Map<String, Value>) {
    for keyword in ["pattern", "format", "minLength", "maxLength", "minItems"] {
        // A property can be called so: only keywords are texts and numbers.
        if schema.get(keyword).is_some_and(|value| !value.is_object()) {
            schema.remove(keyword);
        }
    }
    for (keyword, value) in [("additionalProperties", json!(false)), ("minimum", json!(0))] {
        if schema.get(keyword) == Some(&value) {
            schema.remove(keyword);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(keyword) {
            without_checks(inner);
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for one in schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten() {
            one.as_object_mut().into_iter().for_each(without_checks);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(without_checks);
    }
}

fn inline(schema: Value, definitions: &Map<String, Value>, open: &mut Vec<String>) -> Value {
    let Value::Object(mut map) = schema else { return schema };
    map.retain(|key, value| {
        let ours = key.starts_with("x-") || matches!(key.as_str(), "$schema" | "title" | "$defs" | "default");
        let number =
            key == "format" && value.as_str().is_some_and(|format| format.contains("int") || format == "double");
        !ours && !number
    });
    if let Some(Value::String(reference)) = map.remove("$ref") {
        let name = reference.rsplit('/').next().unwrap_or_default().to_owned();
        if open.contains(&name) {
            // It contains itself: from here on anything goes, and the validator knows better.
            return json!({});
        }
        let Some(found) = definitions.get(&name) else { return json!({}) };
        open.push(name);
        let mut found = inline(found.clone(), definitions, open);
        open.pop();
        if let Value::Object(found) = &mut found {
            // Words at the place of use say more than words at the type.
            found.extend(map);
        }
        return found;
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(alternatives)) = map.get_mut(keyword) else { continue };
        let kept: Vec<Value> = std::mem::take(alternatives)
            .into_iter()
            .filter(|one| one.get("type") != Some(&json!("null")))
            .map(|one| inline(one, definitions, open))
            .collect();
        match <[Value; 1]>::try_from(kept) {
            Ok([Value::Object(only)]) => {
                map.remove(keyword);
                let mut only = only;
                only.extend(map);
                map = only;
            }
            Ok([_]) => {
                map.remove(keyword);
            }
            Err(kept) => {
                map.insert(keyword.into(), kept.into());
            }
        }
    }
    if let Some(Value::Array(choices)) = map.get("oneOf")
        && let Some(words) = choices.iter().map(|one| one.get("const").cloned()).collect::<Option<Vec<Value>>>()
    {
        // One of some words, as every client understands it.
        map.remove("oneOf");
        map.insert("type".into(), json!("string"));
        map.insert("enum".into(), words.into());
    }
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".into(), only);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(keyword) {
            *inner = inline(inner.take(), definitions, open);
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for property in properties.values_mut() {
            *property = inline(property.take(), definitions, open);
        }
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use drawloom_wire::batches::SpawnRuns;
    use schemars::JsonSchema as _;

    use super::*;

    #[test]
    fn a_model_is_told_of_the_named_parameters_in_their_own_words() {
        let mut schema = self_contained(SpawnRuns::json_schema);
        for_model(
            &mut schema,
            &[
                Parameter::needs("spawns", "The tasks."),
                Parameter::needs("spawns[].agent", "Who."),
                Parameter::takes("spawns[].budget", "How much."),
                Parameter::takes("spawns[].budget.tokens", "Tokens."),
                Parameter::takes("mode", "Stay or go."),
            ],
        );
        let tokens = json!({ "type": "integer", "minimum": 1, "description": "Tokens." });
        let budget = json!({ "type": "object", "description": "How much.", "properties": { "tokens": tokens } });
        let spawn = json!({
            "type": "object",
            "properties": { "agent": { "type": "string", "description": "Who." }, "budget": budget },
            "required": ["agent"],
        });
        let spawns = json!({ "type": "array", "items": spawn, "maxItems": 32, "description": "The tasks." });
        let mode = json!({ "type": "string", "enum": ["join", "detach"], "description": "Stay or go." });
        let whole = json!({
            "type": "object", "properties": { "mode": mode, "spawns": spawns }, "required": ["spawns"],
        });
        assert_eq!(Value::Object(schema), whole);
    }
}
