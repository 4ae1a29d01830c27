//! Records of model turns, and of changes of the model.

use serde::{Deserialize, Serialize};

use super::{StopReason, is_default};
use crate::{
    choice::{Effort, ModelName},
    failure::RunError,
    message::{Thought, ToolUse},
    money::Cost,
    named::named,
    time::Timestamp,
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    pub turn: u32,
    pub attempt: u32,
    /// Whether tools are offered; not in a last turn.
    pub tools: bool,
    /// Reserved from the tree's budget, as is `reserved_cost`; without a budget, the estimate of a turn that has a price.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reserved: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_cost: Option<Cost>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnDone {
    pub turn: u32,
    pub text: String,
    /// Its reasoning, as version 0.1.0 kept it: only its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolUse>,
    /// Calls whose input the redactor changed, by their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<u32>,
    pub stop_reason: StopReason,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFailed {
    pub turn: u32,
    pub attempt: u32,
    pub error: RunError,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Whether this try counts against `retry_attempts`; throttling and restarts do not.
    #[serde(default)]
    pub counted: bool,
    /// Whether the provider may charge for it and again for the next try.
    #[serde(default)]
    pub maybe_paid: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    pub turn: u32,
    /// Which change of model this is, from 1.
    pub attempt: u32,
    pub from: ModelName,
    pub to: ModelName,
    /// How hard it should think; absent when it does so in its own way, or must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    pub error: RunError,
}

named! {
    /// What changed in a conversation on the way to a model. `drawloom_wire::events::EVENTS` describes each.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Notice {
        CacheInvalidated = "cache_invalidated",
        ReasoningInvalidated = "reasoning_invalidated",
        ModelDowngraded = "model_downgraded",
        FallbackSuppressed = "fallback_suppressed",
        UsageAssumed = "usage_assumed",
        ReasoningMasked = "reasoning_masked",
        ToolsMissing = "tools_missing",
        ReasoningUnavailable = "reasoning_unavailable",
    }
}
