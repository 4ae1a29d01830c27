//! `doctor`: whether goals can run here.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    goals::BackendInfo,
    request::{Changes, Request, Route},
};

/// Checks whether goals can run: programs and their logins, git, a directory, the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doctor {
    /// A directory of a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096), regex(pattern = r"^[^\x00]*$"))]
    pub cwd: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Whether a goal can run: at least one backend works, and the directory, if one was given.
    pub ok: bool,
    /// The backends.
    pub backends: Vec<BackendInfo>,
    /// What was checked, beside backends.
    pub checks: Vec<DiagnosisCheck>,
    /// The three limits of time that a caller meets, each in a sentence.
    pub timeouts: Vec<String>,
    /// What to do next.
    pub recommendations: Vec<String>,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosisCheck {
    /// What.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub found: String,
}

impl Request for Doctor {
    const NAME: &'static str = "doctor";
    const ROUTES: &'static [Route] = &[Route::get("/v1/goal-doctor")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = Diagnosis;
}
