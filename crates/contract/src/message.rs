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
    /// A picture.
    Image {
        /// What it is, such as `image/png`.
        media_type: String,
        /// Its bytes, in base64.
        data: Arc<str>,
    },
}

/// A piece of reasoning. It is replayed only to the model that made it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thought {
    /// What was thought; empty when the provider keeps it to itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The provider's proof that it is unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What the provider sent instead of text, to be sent back as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// Where it stands in its turn: 0 before the text, `n` before the n-th call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub place: u32,
}

impl Thought {
    /// A thought with nothing but its text.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
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
    /// What the user says; at least one part.
    User(Vec<Part>),
    /// What the model said.
    Assistant {
        /// Its text.
        text: String,
        /// Its reasoning.
        thoughts: Vec<Thought>,
        /// The calls it asked for.
        calls: Vec<ToolUse>,
    },
    /// What the calls came to, in call order.
    Results(Vec<ToolResult>),
}

/// A part of what a user says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image {
        /// What it is, such as `image/png`.
        media_type: String,
        /// Its bytes, in base64.
        data: Arc<str>,
    },
}

impl Message {
    /// A user's plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Part::Text(text.into())])
    }

    /// Bytes of what it says, for estimates.
    pub fn size(&self) -> usize {
        match self {
            Self::User(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.len(),
                    // What an image counts for is bounded by its pixels, not by its bytes.
                    Part::Image { data, .. } => data.len().min(MOST_IMAGE_SIZE),
                })
                .sum(),
            Self::Assistant { text, thoughts, calls } => {
                text.len()
                    + thoughts.iter().map(|thought| thought.text.len()).sum::<usize>()
                    + calls.iter().map(|call| call.name.len() + call.input.to_string().len()).sum::<usize>()
            }
            Self::Results(results) => results.iter().map(|result| result.text.len()).sum(),
        }
    }
}

/// An image counts like this much text at most.
const MOST_IMAGE_SIZE: usize = 8 * 1024;

impl Texts for Thought {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(&mut self.text);
        self.signature.iter_mut().for_each(&mut *visit);
        self.sealed.iter_mut().for_each(visit);
    }
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
                // Pixels: a mask inside base64 would only break it.
                Block::Image { media_type, .. } => visit(media_type),
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
