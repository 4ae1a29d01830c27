//! What each change makes of a name's record. Nothing is read or written here.

use drawloom_contract::ids::{AgentName, Digest};

use super::{
    power::Authority,
    version::{NameRecord, Summary, version_name},
};

/// Most versions of one name. They are summed up in one record.
pub const MOST_VERSIONS_OF_NAME: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0} does not exist")]
    UnknownVersion(String),
    #[error("{0} is retired")]
    Retired(String),
    #[error("{name} has {count} versions; the limit is {MOST_VERSIONS_OF_NAME}")]
    TooManyVersions { name: String, count: usize },
    #[error("{name} was made by {}; this agent cannot change it", owner_text(owner.as_ref()))]
    NotOwner { name: String, owner: Option<AgentName> },
}

fn owner_text(owner: Option<&AgentName>) -> String {
    owner.map_or_else(|| "a caller".to_owned(), |owner| format!("agent {owner}"))
}

/// Whether a version becomes the active one at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promote {
    Yes,
    No,
}

/// A name's record after a version was added, which version that is, and whether it was there before with the same content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    pub record: NameRecord,
    pub version: u32,
    pub deduplicated: bool,
}

/// Adds a version, unless one that is not retired has the same content and the same authority.
pub fn add(
    record: Option<&NameRecord>,
    name: &str,
    new: &Summary,
    owner: Option<&AgentName>,
    promote: Promote,
) -> Result<Added, Refusal> {
    let mut next = record.cloned().unwrap_or_else(|| NameRecord { owner: owner.cloned(), ..NameRecord::default() });
    let is_same = |known: &&Summary| known.digest == new.digest && known.authority == new.authority && !known.retired;
    let same = next.versions.iter().rev().find(is_same).map(|known| known.version);
    let version = match same {
        Some(version) => version,
        None => {
            if next.versions.len() >= MOST_VERSIONS_OF_NAME {
                let count = next.versions.len();
                return Err(Refusal::TooManyVersions { name: name.to_owned(), count });
            }
            let version = next.versions.last().map_or(1, |last| last.version + 1);
            next.versions.push(Summary { version, ..new.clone() });
            version
        }
    };
    if promote == Promote::Yes {
        next.active = Some(version);
    }
    Ok(Added { record: next, version, deduplicated: same.is_some() })
}

/// Makes a version the active one. `authority` is that of a new maker, for a version whose own has no power any more.
pub fn promote(
    record: Option<&NameRecord>,
    name: &str,
    version: u32,
    authority: Option<&Authority>,
) -> Result<NameRecord, Refusal> {
    let (record, summary) = known(record, name, version)?;
    if summary.retired {
        return Err(Refusal::Retired(version_name(name, version)));
    }
    let mut next = NameRecord { active: Some(version), ..record.clone() };
    if let Some(authority) = authority {
        for summary in next.versions.iter_mut().filter(|summary| summary.version == version) {
            summary.authority = Some(authority.clone());
        }
    }
    Ok(next)
}

/// Retires a version, or takes that back. The active one is not active any more afterwards.
pub fn retire(record: Option<&NameRecord>, name: &str, version: u32, retired: bool) -> Result<NameRecord, Refusal> {
    let (record, _) = known(record, name, version)?;
    let mut next = record.clone();
    for summary in next.versions.iter_mut().filter(|summary| summary.version == version) {
        summary.retired = retired;
    }
    if retired && next.active == Some(version) {
        next.active = None;
    }
    Ok(next)
}

/// An agent may change only names that it made; callers may change all.
pub fn may_change(record: Option<&NameRecord>, name: &str, agent: Option<&AgentName>) -> Result<(), Refusal> {
    match (record, agent) {
        (Some(record), Some(agent)) if record.owner.as_ref() != Some(agent) => {
            Err(Refusal::NotOwner { name: name.to_owned(), owner: record.owner.clone() })
        }
        _ => Ok(()),
    }
}

fn known<'a>(
    record: Option<&'a NameRecord>,
    name: &str,
    version: u32,
) -> Result<(&'a NameRecord, &'a Summary), Refusal> {
    let found = record.and_then(|record| Some((record, record.find(version)?)));
    found.ok_or_else(|| Refusal::UnknownVersion(version_name(name, version)))
}

/// The version with this content, if there is one.
pub fn with_digest(record: &NameRecord, digest: &Digest) -> Option<u32> {
    record.versions.iter().rev().find(|summary| summary.digest == *digest).map(|summary| summary.version)
}
