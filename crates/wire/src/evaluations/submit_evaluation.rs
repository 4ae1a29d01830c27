//! `submit_evaluation`: says what a run is worth.

use std::collections::BTreeMap;

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    evaluations::{EmitterRole, ReplacedEvaluation},
    request::{Changes, Request, Route},
};

/// Submits an evaluation of a run. The same tag again replaces what the same caller submitted before; the same content changes
/// nothing. Durable when it is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitEvaluation {
    /// The run to evaluate.
    pub run_id: RunId,
    /// The overall score, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub score: f64,
    /// Scores from 0 to 1 by name; at most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, f64>,
    /// Any JSON, at most 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Value>,
    /// The reason in words, at most 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// What is evaluated, such as `hop3`: 1 to 128 bytes, without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub tag: Option<String>,
    /// Idempotency key: a request with the same key and body returns the first response again; with another body it fails with a
    /// conflict. Also the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// An evaluation that was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubmittedEvaluation {
    /// The evaluation.
    pub eval_id: String,
    /// The evaluated run.
    pub run_id: RunId,
    /// The content hash of the definition that the run pins.
    pub def_id: String,
    /// Who submitted it, seen from the run.
    pub emitter_role: EmitterRole,
    /// The overall score.
    pub score: f64,
    /// When this revision was submitted (RFC 3339, UTC).
    pub created_at: String,
    /// How often it was submitted with other content, from 1.
    pub revision: u32,
    /// Whether the same had been submitted before, so that nothing changed.
    pub unchanged: bool,
    /// The revision that it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<ReplacedEvaluation>,
    /// How many of the definition's oldest evaluations no longer count, because it has too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_oldest: Option<u64>,
    /// What the caller should know, such as a secret that was masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for SubmitEvaluation {
    const NAME: &'static str = "submit_evaluation";
    const ROUTES: &'static [Route] = &[Route::post("/v1/runs/{run_id}/evaluations")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = SubmittedEvaluation;
}
