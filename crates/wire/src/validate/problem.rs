//! What is wrong with a value, and where.

use std::fmt::Write;

use serde::{Serialize, Serializer};

/// The most problems that one check lists.
pub const MAX_PROBLEMS: usize = 50;

/// One step from a value into it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// A key, as it was written.
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

/// Something wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, such as `spawns[3].agent`; empty for the value itself. For an unknown key it is the key's own place; for
    /// a missing one, the place where it should be.
    #[serde(rename = "path", serialize_with = "as_text")]
    pub steps: Vec<Step>,
    /// A stable word for programs.
    pub code: &'static str,
    /// What is wrong, with its place.
    pub message: String,
    /// What to try next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// Where it is, as text.
    pub fn path(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                Step::Index(index) => write!(text, "[{index}]").expect("text takes text"),
                Step::Key(key) if is_plain(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(key);
                }
                Step::Key(key) => write!(text, "[{key:?}]").expect("text takes text"),
            }
        }
        text
    }
}

/// Whether a key can stand in a path without quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | ':' | '$'))
}

fn as_text<S: Serializer>(steps: &[Step], serializer: S) -> Result<S::Ok, S::Error> {
    let problem = Problem { steps: steps.to_vec(), code: "", message: String::new(), hint: None };
    serializer.serialize_str(&problem.path())
}
