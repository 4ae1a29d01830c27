//! Roles and what they are told. The texts are files that users can replace; the loop itself is code.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Proposes success criteria.
    Criteria,
    /// Asks what must be known before planning.
    Clarifier,
    /// Makes the plan.
    Decomposer,
    /// Does one subgoal.
    Subagent,
    /// Judges the work.
    Reviewer,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Criteria, Self::Clarifier, Self::Decomposer, Self::Subagent, Self::Reviewer];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Criteria => "criteria",
            Self::Clarifier => "clarifier",
            Self::Decomposer => "decomposer",
            Self::Subagent => "subagent",
            Self::Reviewer => "reviewer",
        }
    }

    /// The instructions that it has when the project has none of its own.
    pub fn usual_prompt(self) -> &'static str {
        match self {
            Self::Criteria => include_str!("../prompts/criteria.md"),
            Self::Clarifier => include_str!("../prompts/clarifier.md"),
            Self::Decomposer => include_str!("../prompts/decomposer.md"),
            Self::Subagent => include_str!("../prompts/subagent.md"),
            Self::Reviewer => include_str!("../prompts/reviewer.md"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The instructions of each role.
#[derive(Debug, Clone, Default)]
pub struct Prompts(BTreeMap<Role, String>);

impl Prompts {
    /// These in place of the usual ones.
    pub fn replaced(own: BTreeMap<Role, String>) -> Self {
        Self(own)
    }

    pub(crate) fn of(&self, role: Role) -> &str {
        self.0.get(&role).map_or(role.usual_prompt(), String::as_str)
    }
}
