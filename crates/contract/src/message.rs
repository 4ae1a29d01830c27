//! The conversation between a run and its model, in no provider's dialect.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{record::is_default, redact::Texts};

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
    #[serde(default, skip_serializing_if = "is_default")]
    pub place: u32,
}

impl Thought {
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub id: String,
    pub text: Arc<str>,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What the user says; at least one part.
    User(Vec<Part>),
    Assistant {
        text: String,
        thoughts: Vec<Thought>,
        calls: Vec<ToolUse>,
    },
    /// What the calls came to, in call order.
    Results(Vec<ToolResult>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Image {
        /// What it is, such as `image/png`.
        media_type: String,
        /// Its bytes, in base64.
        data: Arc<str>,
    },
}

impl Message {
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Part::Text(text.into())])
    }
}

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
