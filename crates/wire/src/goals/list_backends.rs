//! `list_backends`: what can execute the roles of goals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Lists what can execute the roles of goals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListBackends {
    /// Who calls, for `auto`: the name of a coding CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = r"^[^\x00]*$"))]
    pub caller_agent: Option<String>,
}

/// What can execute the roles of goals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendList {
    /// The backends.
    pub backends: Vec<BackendInfo>,
    /// The backend of a goal that names none.
    pub default: String,
    /// What that means for this caller.
    pub resolved_default: String,
    /// The three limits of time that a caller meets, each in a sentence.
    pub timeouts: Vec<String>,
}

/// A backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendInfo {
    /// Its name.
    pub name: String,
    /// `cli`, `model` or `mock`.
    pub kind: String,
    /// Whether it can be used: its program is there, its model is configured.
    pub available: bool,
    /// The program, of a coding CLI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The program's version, if it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the program is logged in: `yes`, `no` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged_in: Option<String>,
    /// What can stand after `model:`, of the backend `model`: aliases, tiers, and models as PROVIDER/MODEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// What is wrong with it, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Request for ListBackends {
    const NAME: &'static str = "list_backends";
    const ROUTES: &'static [Route] = &[Route::get("/v1/goal-backends")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = BackendList;
}
