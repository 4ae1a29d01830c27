//! An evaluation as it is kept, and its id.

use std::{collections::BTreeMap, fmt, str::FromStr};

use drawloom_contract::{
    ids::{AgentName, Digest, RunId, UserId},
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::scope::EmitterRole;

const PREFIX: &str = "e_";

/// The id of an evaluation: the evaluated run, and who evaluated it under which tag. Submitted again it has the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EvalId {
    pub run: RunId,
    pub(super) identity: Identity,
}

/// What tells evaluations of one run apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(pub(super) [u8; 16]);

impl Identity {
    /// From what must be the same for the evaluation to be the same.
    pub(super) fn of(parts: &Value) -> Self {
        let digest = Digest::of(parts.to_string().as_bytes());
        Self(digest.as_bytes()[..16].try_into().expect("a digest has 32 bytes"))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for EvalId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PREFIX}{:032x}{}", u128::from_be_bytes(*self.run.as_bytes()), self.identity)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid evaluation id {0:?}: expected e_ followed by 64 hex digits")]
pub struct BadEvalId(String);

impl FromStr for EvalId {
    type Err = BadEvalId;

    fn from_str(text: &str) -> Result<Self, BadEvalId> {
        let bad = || BadEvalId(text.chars().take(80).collect());
        let hex = text.strip_prefix(PREFIX).filter(|hex| hex.len() == 64 && hex.is_ascii()).ok_or_else(bad)?;
        let half = |text: &str| match text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            true => u128::from_str_radix(text, 16).map(u128::to_be_bytes).map_err(|_| bad()),
            false => Err(bad()),
        };
        let (run, identity) = hex.split_at(32);
        Ok(Self { run: RunId::from_bytes(half(run)?), identity: Identity(half(identity)?) })
    }
}

impl Serialize for EvalId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EvalId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Who submitted an evaluation: a run of an agent, or a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emitter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    pub user_id: UserId,
}

/// What somebody thinks of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub eval_id: EvalId,
    pub run_id: RunId,
    /// The definition that the run pins.
    pub def_id: Digest,
    /// The agent of the run.
    pub agent: AgentName,
    /// The user of the run, who may see it.
    pub user_id: UserId,
    pub emitter: Emitter,
    pub emitter_role: EmitterRole,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    pub score: f64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, f64>,
    /// Any JSON; left out in what is kept under the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Value>,
    /// Left out in what is kept under the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// When this revision was submitted.
    pub created_at: Timestamp,
    /// How often it was submitted with other content, from 1.
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
}

/// The revision before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replaced {
    pub score: f64,
    pub created_at: Timestamp,
}

impl Evaluation {
    /// Whether both say the same of the run.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.score == other.score
            && self.dimensions == other.dimensions
            && self.judgement == other.judgement
            && self.rationale == other.rationale
    }

    /// What is kept under the definition: numbers, not texts.
    pub(super) fn without_texts(&self) -> Self {
        Self { judgement: None, rationale: None, ..self.clone() }
    }

    /// As callers and models see it: times in words, no user.
    pub fn show(&self) -> Value {
        let mut shown = json!(self);
        let time = |value: &mut Value, at: Timestamp| value["created_at"] = at.to_rfc3339().into();
        time(&mut shown, self.created_at);
        if let Some(replaced) = &self.replaced {
            time(&mut shown["replaced"], replaced.created_at);
        }
        shown
    }
}
