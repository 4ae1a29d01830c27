//! The limits of definitions, with their defaults.

use drawloom_contract::limits::{
    Amount::{Bytes, Count},
    Limit,
};

use super::{
    MOST_LISTED, MOST_SOURCE_BYTES,
    config::{USUAL_BYTES, USUAL_VERSIONS},
    rules::MOST_VERSIONS_OF_NAME,
};
use crate::skills::STORED_FILES_LIMIT;

/// Every limit of definitions.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "definition_source_bytes",
        Bytes(MOST_SOURCE_BYTES as u64),
        "definition_too_large",
        "Size of the source of one definition made at runtime, as JSON.",
    ),
    Limit::new(
        "definition_versions",
        Count(USUAL_VERSIONS),
        "over_quota",
        "Versions of one kind of definition per tenant. Names are limited by the same number.",
    )
    .key("definitions.max_versions"),
    Limit::new(
        "definition_bytes",
        Bytes(USUAL_BYTES),
        "over_quota",
        "Total stored size of all versions of one kind of definition, per tenant.",
    )
    .key("definitions.max_bytes"),
    Limit::new(
        "definition_versions_of_name",
        Count(MOST_VERSIONS_OF_NAME as u64),
        "too_many_versions",
        "Versions of one name.",
    ),
    Limit::new(
        "definition_skill_files",
        Count(STORED_FILES_LIMIT as u64),
        "invalid_definition",
        "Files of a skill that is defined at runtime.",
    ),
    Limit::new(
        "definitions_listed",
        Count(MOST_LISTED as u64),
        "next",
        "Names per list page; the next page has the rest.",
    ),
];
