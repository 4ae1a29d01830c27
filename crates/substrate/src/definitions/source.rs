//! Sources of definitions as values: in one form for the same content, merged, and shown with their version.

use drawloom_contract::definition::DefinitionKind;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::version::{NameRecord, Version, version_name};
use crate::{agents::AgentConfig, channels::ChannelConfig};

/// A version as callers see it, without its source.
pub(super) fn shown(kind: DefinitionKind, version: &Version, record: &NameRecord) -> Value {
    let is_retired = record.find(version.version).is_some_and(|summary| summary.retired);
    json!({
        "kind": kind,
        "name": version.name,
        "version": version.version,
        "def_id": version_name(&version.name, version.version),
        "content_sha256": version.digest,
        "parent": version.parent,
        "description": version.description,
        "created_at": version.created_at.to_rfc3339(),
        "maker": version.maker,
        "bounded_by": version.under,
        "retired": is_retired,
        "active": record.active == Some(version.version),
    })
}

/// The same content in the same words: what equals a default is left out.
pub(super) fn canonical(kind: DefinitionKind, source: Value) -> Value {
    let plain = match kind {
        DefinitionKind::Agent => serde_json::from_value(source.clone()).ok().map(|config| plain_agent(&config)),
        DefinitionKind::Channel => {
            serde_json::from_value::<ChannelConfig>(source.clone()).ok().map(|config| config.source())
        }
        DefinitionKind::Skill | DefinitionKind::Volume => None,
    };
    plain.unwrap_or_else(|| match source {
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Value::Object(fields)
        }
        other => other,
    })
}

pub(super) fn plain_agent(config: &AgentConfig) -> Value {
    let mut fields = without_defaults(config);
    if let Some(budget) = fields.get_mut("budget").and_then(Value::as_object_mut) {
        budget.retain(|_, value| !value.is_null());
    }
    fields
}

/// The fields that differ from the defaults.
pub(crate) fn without_defaults<T: Serialize + Default>(value: &T) -> Value {
    let json = |value: &T| serde_json::to_value(value).expect("a definition has only text keys");
    let (mut fields, usual) = (json(value), json(&T::default()));
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|key, value| usual.get(key) != Some(value));
    }
    fields
}

/// The part of a source with mistakes that can be read: without what stands at `mistakes` (paths such as `tools[1]`), and without fields
/// that have no valid value. Nothing for kinds whose source has no fields that can stand alone.
pub(super) fn readable<'a>(kind: DefinitionKind, source: &Value, mistakes: impl Iterator<Item = &'a str>) -> Value {
    let mut source = source.clone();
    for path in mistakes {
        blank(&mut source, path);
    }
    remove_blanks(&mut source);
    if let Some(fields) = source.as_object_mut() {
        fields.retain(|key, value| {
            let alone = json!({ key: value });
            match kind {
                DefinitionKind::Agent => is_valid::<AgentConfig>(alone),
                DefinitionKind::Channel => is_valid::<ChannelConfig>(alone),
                DefinitionKind::Skill | DefinitionKind::Volume => false,
            }
        });
    }
    source
}

fn is_valid<T: DeserializeOwned>(source: Value) -> bool {
    serde_json::from_value::<T>(source).is_ok()
}

/// Replaces what stands at a path by null.
fn blank(source: &mut Value, path: &str) {
    let steps = path.split(['.', '[']).filter(|step| !step.is_empty());
    let mut at = Some(source);
    for step in steps {
        at = at.and_then(|value| match step.strip_suffix(']') {
            Some(index) => value.get_mut(index.parse::<usize>().ok()?),
            None => value.get_mut(step),
        });
    }
    if let Some(value) = at.filter(|_| !path.is_empty()) {
        *value = Value::Null;
    }
}

fn remove_blanks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_blanks);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(remove_blanks);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A merge patch (RFC 7396): `null` removes a field.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (key, value) in patch {
        match value {
            Value::Null => drop(fields.remove(key)),
            Value::Object(_) => merge(fields.entry(key.clone()).or_insert_with(|| json!({})), value),
            other => drop(fields.insert(key.clone(), other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_mistake_can_be_read() {
        let source = json!({
            "tools": ["Read", 7, "Bash"], "hosts": ["*"], "max_iterations": 0, "memory_scopes": "agent", "tols": [],
            "budget": { "tokens": -1, "cost": 2 },
        });
        let mistakes = ["tools[1]", "max_iterations", "memory_scopes", "budget.tokens", "", "nowhere[3].x"];
        let found = readable(DefinitionKind::Agent, &source, mistakes.into_iter());
        assert_eq!(found, json!({ "tools": ["Read", "Bash"], "hosts": ["*"], "budget": { "cost": 2 } }));
        let found =
            readable(DefinitionKind::Channel, &json!({ "dead_letter": "d", "scope": 3 }), ["scope"].into_iter());
        assert_eq!(found, json!({ "dead_letter": "d" }));
    }
}
