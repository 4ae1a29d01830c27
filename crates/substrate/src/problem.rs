//! A mistake in the config that its shape does not show.

use std::fmt;

/// Something that cannot be as the config says, with its place in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// Keys and indices from the top of the config down to the value.
    pub at: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What to try next.
    pub hint: Option<String>,
    /// The section and the name, when the problem is that the section has no such name.
    pub unknown: Option<(&'static str, String)>,
    /// Whether the last key of `at` is wrong, and not its value.
    pub is_key: bool,
}

impl Problem {
    /// A problem at a place, without a hint.
    pub fn new<S: Into<String>>(at: impl IntoIterator<Item = S>, message: impl Into<String>) -> Self {
        Self {
            at: at.into_iter().map(Into::into).collect(),
            message: message.into(),
            hint: None,
            unknown: None,
            is_key: false,
        }
    }

    /// The same problem, saying what to try next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same problem, pointing at the last key of its place.
    #[must_use]
    pub fn of_key(mut self) -> Self {
        self.is_key = true;
        self
    }

    /// The same problem, naming the section of the config that has no such name.
    #[must_use]
    pub(crate) fn of_unknown(mut self, section: &'static str, name: &str) -> Self {
        self.unknown = Some((section, name.to_owned()));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at.join("."), self.message)
    }
}
