//! What an agent may do with evaluations: the gate `evaluation_scopes`, and the role of who submits one.

use drawloom_contract::{definition::Definition, gate::Gate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the gate in the config and in `Definition.gates`.
pub const EVALUATION_SCOPES: &str = "evaluation_scopes";

pub(super) const GATE: Gate =
    Gate::new(EVALUATION_SCOPES, "evaluation_scopes: [submit_self, read_self]", "use evaluations", |gates| {
        gates.definition.gate(EVALUATION_SCOPES).is_empty()
    });

/// What an agent may do with evaluations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationScope {
    /// Evaluate its own run.
    SubmitSelf,
    /// Evaluate the runs below it.
    SubmitChildren,
    /// Another name of `submit_children`.
    SubmitDescendants,
    /// Evaluate other runs that its parent run spawned.
    SubmitSiblings,
    /// Evaluate every run of the tenant.
    SubmitAny,
    /// Read evaluations of its own run and its own definition.
    ReadSelf,
    /// Read every evaluation of the tenant.
    ReadAny,
}

impl EvaluationScope {
    pub const ALL: [Self; 7] = [
        Self::SubmitSelf,
        Self::SubmitChildren,
        Self::SubmitDescendants,
        Self::SubmitSiblings,
        Self::SubmitAny,
        Self::ReadSelf,
        Self::ReadAny,
    ];

    /// The name under which the gate keeps it; two names of one scope are kept as one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SubmitSelf => "submit_self",
            Self::SubmitChildren | Self::SubmitDescendants => "submit_children",
            Self::SubmitSiblings => "submit_siblings",
            Self::SubmitAny => "submit_any",
            Self::ReadSelf => "read_self",
            Self::ReadAny => "read_any",
        }
    }

    pub(super) fn is_given(self, definition: &Definition) -> bool {
        definition.allows(EVALUATION_SCOPES, self.as_str())
    }
}

/// Who submitted an evaluation, seen from the evaluated run. The server derives it; nobody can say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmitterRole {
    /// A caller, not a run.
    External,
    /// The evaluated run.
    #[serde(rename = "self")]
    This,
    /// A run above it.
    Parent,
    /// Another run of the same parent run.
    Sibling,
    /// Any other run.
    Unrelated,
}

impl EmitterRole {
    /// The narrowest scope with which an agent in this role may submit.
    pub(super) fn needs(self) -> EvaluationScope {
        match self {
            Self::This => EvaluationScope::SubmitSelf,
            Self::Parent => EvaluationScope::SubmitChildren,
            Self::Sibling => EvaluationScope::SubmitSiblings,
            Self::External | Self::Unrelated => EvaluationScope::SubmitAny,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::This => "self",
            Self::Parent => "parent",
            Self::Sibling => "sibling",
            Self::Unrelated => "unrelated",
        }
    }
}
