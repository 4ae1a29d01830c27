//! Agents, channels, skills and volumes that are defined at runtime: versioned, content-addressed, never more than their maker.
//!
//! The rules are pure (`rules.rs`, `excess.rs`). A change reads the name's record, asks the rules, and writes the record with
//! compare-and-swap together with the new version, under the key of its call or request. After the commit, and before the answer,
//! the layer in memory (`layers.rs`) has it, so that every run can use it.

mod agent;
mod ceiling;
mod change;
mod channel;
mod channel_changes;
mod channel_contents;
mod config;
mod error;
mod excess;
mod layer;
mod layers;
mod limits;
mod older;
mod partial;
mod power;
mod read;
pub mod rules;
mod source;
mod tool;
mod version;
mod write;

use std::{fmt, sync::Arc};

use drawloom_contract::{
    caller::{Caller, Visible},
    definition::{Definition, DefinitionKind},
    ids::{AgentName, Tenant},
    once::RequestKey,
    redact::Redactor,
    time::Clock,
    tool::ToolContext,
    values::KeyValue,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use ceiling::Ceiling;
pub use change::{Create, Fork, Promote, Retire};
pub use config::{ChannelGrant, DefinitionsConfig, Grant};
pub use error::DefinitionError;
pub use excess::{Excess, excess};
pub use layers::Layers;
pub use limits::LIMITS;
pub use power::{Authority, Principals, decides_gate};
pub use read::{Lineage, ListAsked, Verify};
pub use tool::TOOL;
pub use version::{Maker, NameRecord, Version, parse_reference, version_name};

pub(crate) use source::without_defaults;
pub(crate) use version::CONFIG;

use crate::{
    channels::Channels,
    lint::{Finding, Weight},
};

/// The gate that says what an agent may define.
pub const GATE: &str = "definitions";

/// Maximum bytes of a source, as JSON.
pub const MOST_SOURCE_BYTES: usize = 256 * 1024;

/// Maximum names of one list page.
pub const MOST_LISTED: u32 = 500;

/// Checks the form of a source with the validator that config files pass, and renames aliases in it. The binary implements it.
pub trait SourceCheck: Send + Sync {
    fn check(&self, kind: DefinitionKind, source: &mut Value) -> Vec<SourceProblem>;
}

/// A mistake in a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceProblem {
    /// Where in the source, such as `tools[1]`; empty for the source as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl SourceProblem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), hint: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for SourceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() && !self.message.starts_with(&self.path) {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Everything that is to say about a source.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// The resolved agent.
    pub(crate) definition: Option<Definition>,
    pub(crate) problems: Vec<SourceProblem>,
    pub(crate) excess: Vec<Excess>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) warnings: Vec<String>,
}

/// What runtime definitions are made of.
pub struct RuntimeParts {
    pub layers: Arc<Layers>,
    pub values: Arc<dyn KeyValue>,
    pub check: Arc<dyn SourceCheck>,
    /// What channels have in them, which goes with a channel that is deleted; absent where nothing is made.
    pub channels: Option<Arc<Channels>>,
    pub clock: Arc<dyn Clock>,
    pub redactor: Arc<Redactor>,
}

/// What was defined at runtime, and what changes it.
pub struct RuntimeDefinitions {
    parts: RuntimeParts,
    /// One name is read into memory at a time, so that an older record never replaces a newer one.
    refreshing: tokio::sync::Mutex<()>,
}

/// Who makes or changes a definition.
pub enum By<'a> {
    Call {
        context: &'a ToolContext,
        /// The agent as the run's request left it.
        definition: &'a Definition,
    },
    Request {
        caller: &'a Caller,
        /// The caller's idempotency key.
        key: Option<RequestKey>,
    },
}

impl By<'_> {
    fn tenant(&self) -> &Tenant {
        match self {
            Self::Call { context, .. } => &context.run.tenant,
            Self::Request { caller, .. } => &caller.tenant,
        }
    }

    /// Whose things they see.
    fn visible(&self) -> Visible {
        match self {
            Self::Call { context, definition } => definition.visible(&context.run.tenant),
            Self::Request { caller, .. } => caller.visible(),
        }
    }

    /// The agent, when one calls.
    fn agent(&self) -> Option<&AgentName> {
        match self {
            Self::Call { definition, .. } => Some(&definition.name),
            Self::Request { .. } => None,
        }
    }

    fn maker(&self) -> Maker {
        match self {
            Self::Call { context, definition } => Maker {
                user_id: Some(context.user.clone()),
                agent: Some(definition.name.clone()),
                run_id: Some(context.run.run),
            },
            Self::Request { caller, .. } => Maker { user_id: Some(caller.subject.clone()), ..Maker::default() },
        }
    }
}

impl RuntimeDefinitions {
    pub fn new(parts: RuntimeParts) -> Arc<Self> {
        Arc::new(Self { parts, refreshing: tokio::sync::Mutex::default() })
    }

    pub fn layers(&self) -> &Arc<Layers> {
        &self.parts.layers
    }
}

/// A finding as callers see it.
fn shown_finding(finding: &Finding) -> Value {
    let level = match finding.weight {
        Weight::Warning => "warning",
        Weight::Note => "note",
    };
    let path = finding.at.iter().skip(2).cloned().collect::<Vec<_>>().join(".");
    serde_json::json!({ "level": level, "path": path, "message": finding.message })
}

#[cfg(test)]
mod tests;
