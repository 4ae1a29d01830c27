//! What a run of a CLI is told beside its prompt: `input` of the start request.

use std::{fmt, path::PathBuf};

use drawloom_contract::ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::LONGEST_TIME_LIMIT_SECONDS;

/// What a CLI may do in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Read and run what changes nothing. The sandbox enforces it too.
    ReadOnly,
    /// Edit files in the directory, without questions.
    Edit,
    /// Everything that the sandbox allows. Only in an isolated checkout.
    SkipPermissions,
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ReadOnly => "read_only",
            Self::Edit => "edit",
            Self::SkipPermissions => "skip_permissions",
        })
    }
}

/// `input` of a run with the executor `cli`. All of it is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunInput {
    /// Where it works: a directory inside the checkouts of the run's own tree. Without it, the agent's default volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Without it: `edit`, or `read_only` in a volume that is read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// More for the system prompt, after the agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Time limit of each process, within that of the CLI's config; 0 for none but that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<u32>,
    /// A run of the same tree whose session is continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_run: Option<RunId>,
    /// Where the raw output is kept: a directory inside the checkouts of the run's own tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_dir: Option<PathBuf>,
    /// The name of the files there, without `.out` and `.err`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_name: Option<String>,
    /// The model, in place of the agent's and the CLI's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// More variables, such as leased ports. Only in a checkout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// What it may read and change besides. Only in a checkout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<PathBuf>,
    /// A JSON Schema for the final answer, for CLIs that can be given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

impl RunInput {
    /// Reads and checks it; an error is a sentence.
    pub(crate) fn read(input: Option<&Value>) -> Result<Self, String> {
        let Some(input) = input else { return Ok(Self::default()) };
        let input: Self = serde_json::from_value(input.clone()).map_err(|error| format!("invalid input: {error}"))?;
        for (key, path) in [("directory", &input.directory), ("output_dir", &input.output_dir)] {
            if let Some(path) = path.as_ref().filter(|path| !path.is_absolute()) {
                return Err(format!("invalid input: {key} {:?} is not an absolute path", path.display()));
            }
        }
        if let Some(seconds) = input.time_limit_seconds.filter(|seconds| *seconds > LONGEST_TIME_LIMIT_SECONDS) {
            return Err(format!(
                "invalid input: time_limit_seconds {seconds} is not between 0 and {LONGEST_TIME_LIMIT_SECONDS}"
            ));
        }
        let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
        let is_bad =
            |name: &&String| name.is_empty() || name.len() > 100 || !name.chars().all(plain) || name.starts_with('.');
        if let Some(name) = input.output_name.as_ref().filter(is_bad) {
            return Err(format!(
                "invalid input: output_name {name:?} is not a name of letters, digits, `-`, `_` and `.`"
            ));
        }
        let surroundings = !(input.environment.is_empty() && input.readable.is_empty() && input.writable.is_empty());
        if surroundings && input.directory.is_none() {
            return Err("invalid input: environment, readable and writable need a directory".into());
        }
        if input.schema.as_ref().is_some_and(|schema| !schema.is_object()) {
            return Err("invalid input: schema is not an object".into());
        }
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_is_checked_before_anything_starts() {
        let said = |input: Value| RunInput::read(Some(&input)).expect_err("a mistake");
        assert!(said(json!({ "dir": "/x" })).contains("unknown field `dir`"));
        assert_eq!(said(json!({ "directory": "x" })), "invalid input: directory \"x\" is not an absolute path");
        assert!(said(json!({ "time_limit_seconds": 86_401 })).contains("86401 is not between 0 and 86400"));
        for name in ["", "../x", "a/b", ".hidden"] {
            assert!(said(json!({ "output_name": name })).contains("output_name"), "{name}");
        }
        assert!(said(json!({ "mode": "plan" })).contains("unknown variant `plan`"));
        let read =
            RunInput::read(Some(&json!({ "mode": "read_only", "output_name": "i01-a1-003-slug" }))).expect("valid");
        assert_eq!(read.mode, Some(Mode::ReadOnly));
        assert_eq!(RunInput::read(None), Ok(RunInput::default()));
    }
}
