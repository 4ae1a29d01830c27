//! The conversation between a run and its model, in no provider's dialect.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::redact::Texts;

/// Who speaks in a segment of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Added to the system prompt.
    System,
    /// What the user says.
    User,
}

/// A piece of the input with one voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
}

impl Segment {
    /// A user's plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Block::TrustedText { text: text.into() }] }
    }
}

/// A block of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Block {
    /// Text that the caller vouches for.
    TrustedText {
        /// The text.
        text: String,
    },
    /// Text from elsewhere: shown to the model inside a tag, with `<` escaped.
    UntrustedBlock {
        /// The text.
        text: String,
        /// The tag: what kind of thing it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
    },
}

/// A tool call that a model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUse {
    /// The provider's id of the call: shown, and sent back to that provider; never a key of ours.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// What a tool call came to, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The provider's id of the call.
    pub id: String,
    /// What the tool said.
    pub text: Arc<str>,
    /// Whether it failed.
    pub is_error: bool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What the user says.
    User(String),
    /// What the model said.
    Assistant {
        /// Its text.
        text: String,
        /// The calls it asked for.
        calls: Vec<ToolUse>,
    },
    /// What the calls came to, in call order.
    Results(Vec<ToolResult>),
}

impl Texts for Segment {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        for block in &mut self.content {
            match block {
                Block::TrustedText { text } => visit(text),
                Block::UntrustedBlock { text, kind } => {
                    visit(text);
                    kind.iter_mut().for_each(&mut *visit);
                }
            }
        }
    }
}

impl Texts for ToolUse {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(&mut self.id);
        visit(&mut self.name);
        self.input.each_text(visit);
    }
}

impl Texts for Value {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match self {
            Value::String(text) => visit(text),
            Value::Array(items) => items.iter_mut().for_each(|item| item.each_text(visit)),
            Value::Object(map) => {
                for value in map.values_mut() {
                    value.each_text(visit);
                }
                let keys: Vec<String> = map.keys().cloned().collect();
                for key in keys {
                    let mut cleaned = key.clone();
                    visit(&mut cleaned);
                    if cleaned != key
                        && let Some(value) = map.remove(&key)
                    {
                        map.insert(cleaned, value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
