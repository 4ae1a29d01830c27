//! What is kept of a definition: one record per name, with a summary of its versions, and one record per version, with its source.

use drawloom_contract::{
    definition::DefinitionKind,
    ids::{AgentName, Digest, RunId, Tenant, UserId},
    time::Timestamp,
    values::{Space, ValueKey},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::power::Authority;

/// The records of names: small, all of them in memory.
pub(super) const NAMES: Space = Space::of("definitions");

/// The records of versions, which never change.
pub(super) const VERSIONS: Space = Space::of("definition_versions");

/// Who made a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Maker {
    /// The user who asked for it, or for whom the run was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The agent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The run of that agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// A version with its source. It never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    pub name: String,
    pub version: u32,
    /// Of the source.
    pub digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub maker: Maker,
    /// The agent of the config whose definition bounds it; the operator's grant, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub source: Value,
}

/// A version without its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub version: u32,
    pub digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
    /// Whose power bounds it, of an agent. Absent in what versions before 0.6 wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Authority>,
}

/// A name with its versions, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRecord {
    /// The version that runs use; none when it was retired.
    pub active: Option<u32>,
    /// The agent that made the first version: only it and callers may change the name. Absent when a caller did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<AgentName>,
    pub versions: Vec<Summary>,
}

impl NameRecord {
    pub fn find(&self, version: u32) -> Option<&Summary> {
        self.versions.iter().find(|summary| summary.version == version)
    }
}

pub(super) fn name_key(tenant: &Tenant, kind: DefinitionKind, name: &str) -> ValueKey {
    ValueKey { tenant: tenant.clone(), space: NAMES, owner: kind.as_str().into(), key: name.into() }
}

pub(super) fn version_key(tenant: &Tenant, kind: DefinitionKind, name: &str, version: u32) -> ValueKey {
    let key = version_name(name, version);
    ValueKey { tenant: tenant.clone(), space: VERSIONS, owner: kind.as_str().into(), key }
}

/// `NAME@VERSION`.
pub fn version_name(name: &str, version: u32) -> String {
    format!("{name}@{version}")
}

/// The name and version that `NAME@VERSION` means; no version for `NAME`, and for `NAME@config`.
pub fn parse_reference(text: &str) -> Option<(&str, Option<u32>)> {
    match text.split_once('@') {
        None => Some((text, None)),
        Some((name, CONFIG)) => Some((name, None)),
        Some((name, version)) => Some((name, Some(version.parse().ok()?))),
    }
}

/// What stands for the version of a definition of the config.
pub(crate) const CONFIG: &str = "config";
