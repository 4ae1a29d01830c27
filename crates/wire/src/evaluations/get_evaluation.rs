//! `get_evaluation`: one evaluation with its texts.

use std::collections::BTreeMap;

use drawloom_contract::ids::{AgentName, RunId, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::{Changes, Request, Route};

/// Reads one evaluation, with judgement and rationale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetEvaluation {
    /// The evaluation.
    #[schemars(regex(pattern = r"^e_[0-9a-f]{64}$"))]
    pub eval_id: String,
}

/// What somebody thinks of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// Its id.
    pub eval_id: String,
    /// The evaluated run.
    pub run_id: RunId,
    /// The content hash of the definition that the run pins.
    pub def_id: String,
    /// The agent of the run.
    pub agent: AgentName,
    /// The user of the run.
    pub user_id: UserId,
    /// Who submitted it.
    pub emitter: Emitter,
    /// Who submitted it, seen from the run.
    pub emitter_role: EmitterRole,
    /// What was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The overall score, from 0 to 1.
    pub score: f64,
    /// Scores from 0 to 1 by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, f64>,
    /// Any JSON. Lists by definition leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Value>,
    /// The reason in words. Lists by definition leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// When this revision was submitted (RFC 3339, UTC).
    pub created_at: String,
    /// How often it was submitted with other content, from 1.
    pub revision: u32,
    /// The revision that it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<ReplacedEvaluation>,
}

/// Who submitted an evaluation: the run of an agent, or a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Emitter {
    /// The run whose agent submitted it; absent for a caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The agent of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The user of that run, or the caller.
    pub user_id: UserId,
}

/// Who submitted an evaluation, seen from the evaluated run. The server derives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmitterRole {
    /// A caller, not a run.
    External,
    /// The evaluated run.
    #[serde(rename = "self")]
    This,
    /// A run above it.
    Parent,
    /// Another run of the same parent run.
    Sibling,
    /// Any other run.
    Unrelated,
}

impl EmitterRole {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::This => "self",
            Self::Parent => "parent",
            Self::Sibling => "sibling",
            Self::Unrelated => "unrelated",
        }
    }
}

/// The revision of an evaluation before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacedEvaluation {
    /// Its overall score.
    pub score: f64,
    /// When it was submitted (RFC 3339, UTC).
    pub created_at: String,
}

impl Request for GetEvaluation {
    const NAME: &'static str = "get_evaluation";
    const ROUTES: &'static [Route] = &[Route::get("/v1/evaluations/{eval_id}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = Evaluation;
}
