//! Records of model turns, and of changes of the model.

use serde::{Deserialize, Serialize};

use super::StopReason;
use crate::{
    choice::{Effort, ModelName},
    failure::RunError,
    message::{Thought, ToolUse},
    money::Cost,
    time::Timestamp,
};

/// Intent: a model turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// The turn, from 1.
    pub turn: u32,
    /// The try of that turn, from 1.
    pub attempt: u32,
    /// Whether tools are offered; not in a last turn.
    pub tools: bool,
    /// Tokens set aside from the tree's budget.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
    /// Money set aside from the tree's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cost: Option<Cost>,
}

/// Outcome: a whole model turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnDone {
    /// The turn.
    pub turn: u32,
    /// Its text.
    pub text: String,
    /// Its reasoning, as version 0.1.0 kept it: only its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// Its reasoning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    /// The calls it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolUse>,
    /// Calls whose input the redactor changed, by their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<u32>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

impl TurnDone {
    /// The text of its reasoning.
    pub fn reasoning(&self) -> String {
        self.thoughts.iter().map(|thought| thought.text.as_str()).chain([self.thinking.as_str()]).collect()
    }
}

/// Outcome: a model turn that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFailed {
    /// The turn.
    pub turn: u32,
    /// The try.
    pub attempt: u32,
    /// Why.
    pub error: RunError,
    /// When it is tried again; never, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Whether this try counts against `retry_attempts`; throttling and restarts do not.
    #[serde(default)]
    pub counted: bool,
    /// Whether the provider may charge for it and again for the next try.
    #[serde(default)]
    pub maybe_paid: bool,
}

/// Another model is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    /// The turn that failed.
    pub turn: u32,
    /// Which change of model this is, from 1.
    pub attempt: u32,
    /// Who was asked until now.
    pub from: ModelName,
    /// Who is asked from now on.
    pub to: ModelName,
    /// How hard it should think; absent when it does so in its own way, or must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Why.
    pub error: RunError,
}

/// What changed in a conversation on the way to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The provider's cache of the conversation is of no use any more.
    CacheInvalidated,
    /// Reasoning of another maker is not replayed.
    ReasoningInvalidated,
    /// A model that does not think is asked in place of one that does.
    ModelDowngraded,
    /// No other model was asked, although one is configured.
    FallbackSuppressed,
    /// The provider did not say what a turn cost, so that what was set aside for it is taken as spent.
    UsageAssumed,
    /// A thought held a secret: it was journaled without its text and is not replayed.
    ReasoningMasked,
    /// Tools that the run was accepted with are not there any more.
    ToolsMissing,
}

impl Notice {
    /// Every notice.
    pub const ALL: [Self; 7] = [
        Self::CacheInvalidated,
        Self::ReasoningInvalidated,
        Self::ModelDowngraded,
        Self::FallbackSuppressed,
        Self::UsageAssumed,
        Self::ReasoningMasked,
        Self::ToolsMissing,
    ];

    /// Its name as an event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CacheInvalidated => "cache_invalidated",
            Self::ReasoningInvalidated => "reasoning_invalidated",
            Self::ModelDowngraded => "model_downgraded",
            Self::FallbackSuppressed => "fallback_suppressed",
            Self::UsageAssumed => "usage_assumed",
            Self::ReasoningMasked => "reasoning_masked",
            Self::ToolsMissing => "tools_missing",
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
