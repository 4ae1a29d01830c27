//! Rules of a script: when they fit and what they say.

use std::{collections::BTreeMap, time::Duration};

use drawloom_contract::{
    definition::matches,
    model::{TurnError, TurnRequest},
    record::StopReason,
    usage::Usage,
};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    results,
    template::{Scene, value},
};
use crate::FailKind;

/// What the model does in matching turns. Texts can contain `{{prompt}}`, `{{last}}`, `{{last.lines}}`, `{{last.words}}`,
/// `{{last.first_line}}`, `{{agent}}`, `{{turn}}`, `{{attempt}}`, `{{run}}`, `{{tools}}` for the names of the offered tools,
/// `{{schema.TOOL/POINTER}}` for what the schema of one of them says at a JSON pointer, `{{1}}`… for the groups of
/// `when.matches`, and `{{result.TOOL/POINTER}}` for the newest value that a result of a tool has at a JSON pointer. Of results,
/// `{{max result.TOOL/LIST BY FIELD}}` is a field of the entry with the largest other field, `{{add result.TOOL/POINTER NUMBER}}` a sum and
/// `{{fixed result.TOOL/POINTER DIGITS}}` a number with that many digits. In inputs of tools, a text that is only `{{json …}}` becomes the
/// JSON value itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// When the rule applies; always by default.
    #[serde(default)]
    pub when: When,
    /// The model's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The model's reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The tools it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Delay before the first piece, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Maximum random extra delay, in milliseconds.
    #[serde(default)]
    pub jitter_ms: u64,
    /// Number of pieces in which the text is streamed.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub chunks: u32,
    /// Delay between two pieces, in milliseconds.
    #[serde(default)]
    pub chunk_delay_ms: u64,
    /// Tokens of the turn; by default estimated from the texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The stop reason; defaults to `tool_use` with calls and `end_turn` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Fail the turn after the given number of pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Fail>,
}

fn one() -> u32 {
    1
}

/// When a rule applies: all given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// The agent: its name, or `prefix*`.
    pub agent: Option<String>,
    /// The turn, from 1.
    pub turn: Option<u32>,
    /// The attempt, from 1.
    pub attempt: Option<u32>,
    /// Part of the prompt.
    pub contains: Option<String>,
    /// A regular expression that matches the prompt.
    pub matches: Option<String>,
    /// Part of the newest message: a tool's result, or the prompt.
    pub last_contains: Option<String>,
    /// The tool of the newest results; with several, one of them.
    pub last_tool: Option<String>,
    /// Placeholders, without braces, and the text that each must have, such as `{ "result.Channel/messages/0/value/hop": "5" }`.
    pub values: BTreeMap<String, String>,
    /// Whether tools are available; they are not in a final turn.
    pub tools: Option<bool>,
    /// Probability from 0 to 1, by the seed.
    pub chance: Option<f64>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its input; strings in it can contain `{{…}}`.
    #[serde(default)]
    pub input: Value,
}

/// A failure of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    /// The kind of failure.
    pub kind: FailKind,
    /// The error message.
    #[serde(default)]
    pub message: String,
    /// Retry-after of the provider, in milliseconds; only with `throttled` and `overloaded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Number of pieces streamed before the failure.
    #[serde(default)]
    pub after_chunks: u32,
}

impl Fail {
    /// The failure as a model returns it.
    pub(super) fn error(&self) -> TurnError {
        let message = match self.message.as_str() {
            "" => "scripted failure".to_owned(),
            message => message.to_owned(),
        };
        self.kind.error(message, self.retry_after_ms.map(Duration::from_millis))
    }
}

/// A rule, ready to be asked.
pub(super) struct Compiled {
    pub(super) rule: Rule,
    pattern: Option<Regex>,
}

impl Compiled {
    pub(super) fn new(rule: &Rule) -> Result<Self, String> {
        let pattern =
            rule.when.matches.as_deref().map(Regex::new).transpose().map_err(|e| format!("when.matches: {e}"))?;
        if rule.when.chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Err("when.chance must be between 0 and 1".into());
        }
        if rule.text.is_none() && rule.calls.is_empty() && rule.fail.is_none() {
            return Err("the rule has no effect: add `text`, `calls` or `fail`".into());
        }
        Ok(Self { rule: rule.clone(), pattern })
    }

    /// The groups that `matches` found, when the rule fits.
    pub(super) fn fits(&self, request: &TurnRequest, scene: &Scene<'_>, dice: u64) -> Option<Vec<String>> {
        let when = &self.rule.when;
        let holds = when.agent.as_deref().is_none_or(|pattern| matches(pattern, request.agent.as_str()))
            && when.turn.is_none_or(|turn| turn == request.turn)
            && when.attempt.is_none_or(|attempt| attempt == request.attempt)
            && when.tools.is_none_or(|tools| tools != request.tools.is_empty())
            && when.contains.as_deref().is_none_or(|part| scene.prompt.contains(part))
            && when.last_contains.as_deref().is_none_or(|part| scene.last.contains(part))
            && when.last_tool.as_deref().is_none_or(|tool| results::last_tools(request).contains(&tool))
            && when.values.iter().all(|(name, text)| value(name, scene, &[], request).is_some_and(|it| it == *text))
            && when.chance.is_none_or(|chance| (dice % 1_000_000) as f64 / 1_000_000.0 < chance);
        if !holds {
            return None;
        }
        let Some(pattern) = &self.pattern else { return Some(Vec::new()) };
        let captures = pattern.captures(&scene.prompt)?;
        Some(
            captures.iter().skip(1).map(|group| group.map_or(String::new(), |text| text.as_str().to_owned())).collect(),
        )
    }
}
