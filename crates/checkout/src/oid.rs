//! Object ids.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The full id of a git object, in lower-case hexadecimal: 40 digits, or 64 in a repository with SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match is_hex && matches!(text.len(), 40 | 64) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::Invalid {
                what: "object id",
                value: text.to_owned(),
                reason: "it must have 40 or 64 lower-case hexadecimal digits",
            }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// What stands for "no object" in a repository with ids like this one.
    pub(crate) fn zero(&self) -> String {
        "0".repeat(self.0.len())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for Oid {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::parse(&text)
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}
