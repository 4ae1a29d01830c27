//! `list_artifacts`: what the agents of a run's tree wrote.

use drawloom_contract::{
    ids::{AgentName, RunId},
    record::Seq,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// How many artifacts a page has, unless the request says otherwise.
const DEFAULT_LIMIT: u32 = 100;

/// Lists the artifacts of a run's tree, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArtifacts {
    /// A run of the tree.
    pub run_id: RunId,
    /// Only names that begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200), regex(pattern = r"^[A-Za-z0-9._/-]*$"))]
    pub prefix: Option<String>,
    /// Only names after this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200), regex(pattern = r"^[A-Za-z0-9._/-]*$"))]
    pub after: Option<String>,
    /// Maximum number of artifacts. Defaults to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub limit: Option<u32>,
}

impl ListArtifacts {
    pub fn new(run_id: RunId) -> Self {
        Self { run_id, prefix: None, after: None, limit: None }
    }

    /// How many artifacts the page may have.
    pub fn page_size(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactPage {
    /// The artifacts, by name.
    pub artifacts: Vec<WrittenArtifact>,
    /// `after` of the next page, when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A text that an agent wrote, without the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenArtifact {
    /// Its name, one in the tree.
    pub name: String,
    /// What kind of text the agent says it is, such as `text/markdown`.
    pub media_type: String,
    /// Its bytes, in UTF-8.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// The run that wrote it.
    pub run_id: RunId,
    /// The agent of that run.
    pub agent: AgentName,
    /// The record of the call that wrote it.
    pub call: Seq,
    /// When it was written.
    pub at: String,
    /// What it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<ReplacedArtifact>,
}

/// The artifact that had the name before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacedArtifact {
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// The run that wrote it.
    pub run_id: RunId,
}

impl Request for ListArtifacts {
    const NAME: &'static str = "list_artifacts";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs/{run_id}/artifacts")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ArtifactPage;
}
