//! Sources of definitions as values: in one form for the same content, merged, and shown with their version.

use drawloom_contract::definition::DefinitionKind;
use serde_json::{Value, json};

use super::version::{NameRecord, Version, version_name};
use crate::agents::AgentConfig;

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
    match (kind, serde_json::from_value::<AgentConfig>(source.clone())) {
        (DefinitionKind::Agent, Ok(config)) => plain_agent(&config),
        _ => match source {
            Value::Object(mut fields) => {
                fields.retain(|_, value| !value.is_null());
                Value::Object(fields)
            }
            other => other,
        },
    }
}

pub(super) fn plain_agent(config: &AgentConfig) -> Value {
    let json = |config: &AgentConfig| serde_json::to_value(config).expect("an agent has only text keys");
    let (mut fields, usual) = (json(config), json(&AgentConfig::default()));
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|key, value| usual.get(key) != Some(value));
        if let Some(budget) = fields.get_mut("budget").and_then(Value::as_object_mut) {
            budget.retain(|_, value| !value.is_null());
        }
    }
    fields
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
