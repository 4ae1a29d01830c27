//! `list_evaluations`: the evaluations of a run, or of all runs of a definition.

use drawloom_contract::ids::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evaluations::Evaluation,
    request::{Changes, Request, Route},
};

/// How many evaluations a page has, unless the request says otherwise.
const DEFAULT_LIMIT: u32 = 100;

/// Lists evaluations, newest first: those of a run with their texts, or those of a definition with their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEvaluations {
    /// The run. Give this or `def_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The definition: its digest, `name@version`, or the name of an agent for its current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub def_id: Option<String>,
    /// Only this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub tag: Option<String>,
    /// Of each tag only the newest, whoever submitted it; only with `run_id`.
    #[serde(default)]
    pub latest_per_tag: bool,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[0-9a-f]+/e_[0-9a-f]+$"))]
    pub after: Option<String>,
    /// Maximum number of evaluations. Defaults to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
}

impl ListEvaluations {
    /// How many evaluations the page may have.
    pub fn page_size(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }
}

/// A page of evaluations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationPage {
    /// The run, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The definition, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub def_id: Option<String>,
    /// The evaluations, newest first.
    pub evaluations: Vec<Evaluation>,
    /// Whether there are more.
    pub truncated: bool,
    /// `after` of the next page, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What the caller should know, such as that others' runs are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for ListEvaluations {
    const NAME: &'static str = "list_evaluations";
    const ROUTES: &'static [Route] = &[Route::get("/v1/evaluations"), Route::get("/v1/runs/{run_id}/evaluations")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = EvaluationPage;
}
