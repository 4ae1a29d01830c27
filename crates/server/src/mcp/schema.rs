//! Schemas as MCP clients like them: one self-contained object without references, and without what only we read.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

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

/// A schema without the words that explain its fields: what comes back explains itself.
pub(super) fn without_words(schema: &mut Map<String, Value>) {
    // A property can be called "description": only keywords go.
    schema.remove("description");
    for keyword in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(keyword) {
            without_words(inner);
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for one in schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten() {
            one.as_object_mut().into_iter().for_each(without_words);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(without_words);
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
