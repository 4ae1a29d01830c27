//! A skill that was defined at runtime: its texts are in the store, not in a folder.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The source of a skill that is defined at runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillSource {
    /// When to use it. Models choose by this.
    #[schemars(length(min = 1, max = 1024))]
    pub description: String,
    /// What an agent that loads it is told.
    #[schemars(length(min = 1, max = 131_072))]
    pub instructions: String,
    /// Text files that the instructions refer to, by name, such as `checklist.md`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// Most files of a skill that is defined at runtime.
pub(crate) const STORED_FILES_LIMIT: usize = 32;

/// A skill of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredSkill {
    pub(crate) name: String,
    pub(crate) source: SkillSource,
}

impl StoredSkill {
    pub(super) fn read(&self, file: &str) -> Result<String, String> {
        let found = self.source.files.get(file.trim_start_matches("./")).cloned();
        found.ok_or_else(|| format!("skill {:?} has no file {file:?}", self.name))
    }
}

/// What is wrong with the names of files: they must look like paths inside a folder.
pub(crate) fn problems(source: &SkillSource) -> Vec<(String, String)> {
    let is_bad = |name: &&String| {
        let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(char::is_control);
        name.len() > 256 || !name.split('/').all(is_part)
    };
    let bad = source.files.keys().filter(is_bad).map(|name| {
        let what = "not a name of a file in a skill: use a relative path of at most 256 bytes without hidden parts";
        (format!("files[{name:?}]"), what.to_owned())
    });
    let count = source.files.len();
    let many = (count > STORED_FILES_LIMIT)
        .then(|| ("files".to_owned(), format!("{count} files; the limit is {STORED_FILES_LIMIT}")));
    bad.chain(many).collect()
}
