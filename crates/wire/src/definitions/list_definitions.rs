//! `list_definitions`: what is defined, or the versions of one name.

use drawloom_contract::definition::DefinitionKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Lists what is defined, in the config and at runtime; with a name, lists its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDefinitions {
    /// Only definitions of this kind. With a name, defaults to `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DefinitionKind>,
    /// List the versions of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"))]
    pub name: Option<String>,
    /// Only definitions after this one: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 160), regex(pattern = r"^[A-Za-z0-9_./@-]*$"))]
    pub after: Option<String>,
    /// Maximum number of definitions. Defaults to 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u32>,
}

/// A page of definitions, or the versions of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionPage {
    /// The definitions, by kind and name. Empty when a name was given.
    pub definitions: Vec<DefinitionRow>,
    /// The versions of the name, in order.
    pub versions: Vec<VersionRow>,
    /// `after` of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefinitionRow {
    /// What is defined.
    pub kind: DefinitionKind,
    /// Its name.
    pub name: String,
    /// `config` or `runtime`.
    pub origin: String,
    /// The active version; absent when there is none, and for the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<u32>,
    /// How many versions it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<u32>,
    /// What the active version is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Why it cannot be used; absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// What today's config takes away from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A version in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionRow {
    /// `NAME@VERSION`.
    pub def_id: String,
    /// The version.
    pub version: u32,
    /// Digest of the source.
    pub content_sha256: String,
    /// The version that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was made (RFC 3339, UTC).
    pub created_at: String,
    /// Whether it is retired.
    pub retired: bool,
    /// Whether it is the active one.
    pub active: bool,
}

impl Request for ListDefinitions {
    const NAME: &'static str = "list_definitions";
    const ROUTES: &'static [Route] = &[Route::get("/v1/definitions")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = DefinitionPage;
}
