//! The scripted model: rules choose what it says, so that demos, tests and loads need no provider.
//!
//! It is a function of agent, turn, attempt, conversation and seed: it remembers nothing, so a restart changes nothing.

mod results;
mod rules;
mod template;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    choice::{Effort, Sampling},
    message::{Message, Part, Thought, ToolUse},
    model::{DeltaKind, Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    record::StopReason,
    time::Clock,
    usage::Usage,
};

use crate::{Error, Options, trace};

use self::rules::Compiled;
pub use self::rules::{Call, Fail, Rule, When};

/// An image counts like this much text at most.
const MOST_IMAGE_SIZE: usize = 8 * 1024;

/// A model that says what its rules say.
pub struct Script {
    provider: String,
    seed: u64,
    rules: Vec<Compiled>,
    clock: Arc<dyn Clock>,
}

impl Script {
    /// The model of a provider's options.
    pub fn new(provider: &str, options: &Options, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let rules = options
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                Compiled::new(rule).map_err(|problem| Error::BadRule {
                    provider: provider.into(),
                    rule: index,
                    problem,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { provider: provider.into(), seed: options.seed, rules, clock })
    }

    async fn pause(&self, millis: u64) {
        if millis > 0 {
            self.clock.sleep_awake_until(self.clock.awake().after(Duration::from_millis(millis))).await;
        }
    }
}

/// The model that a script says it has.
const ONLY_MODEL: &str = "script";

#[async_trait]
impl Model for Script {
    fn card(&self, _: &str) -> ModelCard {
        ModelCard {
            context_tokens: None,
            max_tokens: 8192,
            thinks: true,
            thinks_with_tools: true,
            takes_tools: Some(true),
            counts_tools: false,
            vision: true,
            native_cache: false,
            plain_sibling: None,
            price: None,
        }
    }

    async fn look_up(&self, _: &str) {}

    fn ignored(&self, _: &str, _: &Sampling, _: Option<Effort>) -> Vec<&'static str> {
        Vec::new()
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        Ok(vec![ListedModel { id: ONLY_MODEL.into(), ..ListedModel::default() }])
    }

    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError> {
        trace::in_span(&self.provider, &request, self.answer(&request, deltas)).await
    }
}

impl Script {
    async fn answer(&self, request: &TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError> {
        let scene = template::Scene::new(request);
        let fitting = self.rules.iter().enumerate().find_map(|(index, rule)| {
            let dice = dice(self.seed, request, &scene, index);
            rule.fits(request, &scene, dice).map(|captures| (rule, captures, dice))
        });
        let Some((rule, captures, dice)) = fitting else {
            if self.rules.is_empty() {
                let text = scene.prompt.to_string();
                deltas.push(DeltaKind::Text, &text);
                let usage = usage(request, &text);
                return Ok(Turn { text, usage, ..Turn::default() });
            }
            return Err(TurnError::BadRequest {
                message: format!("no script rule matches agent {} in turn {}", request.agent, request.turn),
            });
        };
        let rule = &rule.rule;
        let fill = |text: &str| template::fill(text, &scene, &captures, request);
        let text = rule.text.as_deref().map(fill).unwrap_or_default();
        let thinking = rule.thinking.as_deref().map(fill).unwrap_or_default();
        let calls: Vec<ToolUse> = rule
            .calls
            .iter()
            .enumerate()
            .map(|(index, call)| ToolUse {
                id: format!("call_{}_{index}", request.turn),
                name: call.tool.clone(),
                input: template::fill_value(&call.input, request, &fill),
            })
            .collect();
        let reckoned = usage(request, &text);
        self.pause(rule.delay_ms.saturating_add(if rule.jitter_ms > 0 { dice % (rule.jitter_ms + 1) } else { 0 }))
            .await;
        if !thinking.is_empty() {
            deltas.push(DeltaKind::Thinking, &thinking);
        }
        let streamed = match &rule.fail {
            Some(fail) => fail.after_chunks.min(rule.chunks),
            None => rule.chunks,
        };
        for (index, piece) in pieces(&text, rule.chunks.max(1)).into_iter().enumerate() {
            if index as u64 >= u64::from(streamed) {
                break;
            }
            if index > 0 {
                self.pause(rule.chunk_delay_ms).await;
            }
            deltas.push(DeltaKind::Text, piece);
        }
        if let Some(fail) = &rule.fail {
            return Err(fail.error());
        }
        let mut usage = rule.usage.unwrap_or(reckoned);
        // As a provider does: what does not fit is not written, and the stop reason says so.
        let clipped = usage.output_tokens > u64::from(request.max_tokens);
        usage.output_tokens = usage.output_tokens.min(u64::from(request.max_tokens));
        let stop_reason = rule.stop_reason.unwrap_or(match (calls.is_empty(), clipped) {
            (true, false) => StopReason::EndTurn,
            (true, true) => StopReason::MaxTokens,
            (false, _) => StopReason::ToolUse,
        });
        let thoughts = if thinking.is_empty() { vec![] } else { vec![Thought::plain(thinking)] };
        Ok(Turn { text, thoughts, calls, stop_reason, usage, ..Turn::default() })
    }
}

/// Tokens as a rule of thumb has them: one for four bytes.
fn usage(request: &TurnRequest, text: &str) -> Usage {
    let bytes: usize = request.messages.iter().map(|message| size(message)).sum();
    Usage {
        input_tokens: ((request.system.len() + bytes) as u64).div_ceil(4),
        output_tokens: (text.len() as u64).div_ceil(4),
        ..Usage::default()
    }
}

/// Bytes of what a message says.
fn size(message: &Message) -> usize {
    match message {
        Message::User(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.len(),
                // What an image counts for is bounded by its pixels, not by its bytes.
                Part::Image { data, .. } => data.len().min(MOST_IMAGE_SIZE),
            })
            .sum(),
        Message::Assistant { text, thoughts, calls } => {
            text.len()
                + thoughts.iter().map(|thought| thought.text.len()).sum::<usize>()
                + calls.iter().map(|call| call.name.len() + call.input.to_string().len()).sum::<usize>()
        }
        Message::Results(results) => results.iter().map(|result| result.text.len()).sum(),
    }
}

/// `text` in about `count` pieces, cut between characters.
fn pieces(text: &str, count: u32) -> Vec<&str> {
    let size = text.len().div_ceil(count as usize).max(1);
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = size.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// A number that depends on the seed and on what is asked, and on nothing else.
fn dice(seed: u64, request: &TurnRequest, scene: &template::Scene<'_>, rule: usize) -> u64 {
    let mut hash = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    };
    eat(request.agent.as_str().as_bytes());
    eat(&request.turn.to_le_bytes());
    eat(&request.attempt.to_le_bytes());
    eat(scene.prompt.as_bytes());
    eat(&rule.to_le_bytes());
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests;
