//! How many tokens a turn may take, and how many it took when its provider does not say.

use drawloom_contract::{
    executor::TurnPlan,
    message::{Message, Part, ToolUse},
    model::Turn,
    tool::ToolCard,
    usage::Usage,
};

/// What an image counts for at most.
const MOST_IMAGE_TOKENS: usize = 25_000;

/// What a provider adds by itself when tools are offered.
const TOOL_PREAMBLE_TOKENS: usize = 512;

/// Tokens that a conversation may take to read: rather too many, because what is set aside must be enough. Plain words
/// have about one for four bytes, dense ones one for two; digits, signs and other scripts up to one a byte.
pub(crate) fn input_tokens(plan: &TurnPlan, cards: &[ToolCard]) -> u64 {
    let message = |message: &Message| match message {
        Message::User(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(said) => text(said),
                Part::Image { .. } => MOST_IMAGE_TOKENS,
            })
            .sum::<usize>(),
        Message::Assistant { text: said, thoughts, calls } => {
            text(said)
                + thoughts.iter().map(|thought| text(&thought.text)).sum::<usize>()
                + calls.iter().map(call).sum::<usize>()
        }
        Message::Results(results) => results.iter().map(|result| text(&result.text)).sum(),
    };
    let said: usize = plan.messages.iter().map(|said| message(said) + 16).sum();
    let offered: usize = cards
        .iter()
        .map(|card| text(&card.name) + text(&card.description) + text(&card.input_schema.to_string()) + 16)
        .sum();
    let preamble = if cards.is_empty() { 0 } else { TOOL_PREAMBLE_TOKENS };
    (text(&plan.system) + said + offered + preamble) as u64
}

/// Output tokens that still fit into `context` after a prompt of at most `input`. The estimate may be twice too high, so a prompt that
/// seems to fill the context leaves an eighth of it: the provider knows better whether that fits.
pub(crate) fn room(context: u64, input: u64) -> u32 {
    u32::try_from(context.saturating_sub(input).max(context / 8).max(1)).unwrap_or(u32::MAX)
}

/// What a finished turn likely took: half of what it takes at most, which is one token for four bytes of plain words.
pub(crate) fn usage(input: u64, turn: &Turn) -> Usage {
    let thoughts: usize = turn.thoughts.iter().map(|thought| text(&thought.text)).sum();
    let output = text(&turn.text) + thoughts + turn.calls.iter().map(call).sum::<usize>();
    Usage { input_tokens: input.div_ceil(2), output_tokens: (output as u64).div_ceil(2).max(1), ..Usage::default() }
}

fn text(text: &str) -> usize {
    let light = text.bytes().filter(|byte| byte.is_ascii_alphabetic() || *byte == b' ').count();
    light.div_ceil(2) + text.len() - light
}

fn call(call: &ToolUse) -> usize {
    text(&call.name) + text(&call.input.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_estimate_is_rather_too_large() {
        let plan = |text: &str| TurnPlan {
            turn: 1,
            attempt: 1,
            tools: true,
            system: "".into(),
            messages: vec![Arc::new(Message::user(text))],
        };
        assert_eq!(input_tokens(&plan("plain words"), &[]), 6 + 16);
        assert_eq!(input_tokens(&plan("\u{6f22}\u{5b57}"), &[]), 6 + 16);
        let card =
            ToolCard { name: "T".into(), description: "Does.".into(), input_schema: serde_json::json!({}).into() };
        assert!(input_tokens(&plan(""), &[card]) > TOOL_PREAMBLE_TOKENS as u64);
    }

    #[test]
    fn the_output_fits_beside_the_prompt() {
        assert_eq!((room(4_096, 1_096), room(4_096, 4_000), room(4_096, 9_000)), (3_000, 512, 512));
        assert_eq!((room(200_000, 0), room(1, 9)), (200_000, 1));
    }

    #[test]
    fn a_turn_without_usage_took_about_a_token_for_four_letters() {
        let turn = Turn { text: "plain words".into(), ..Turn::default() };
        assert_eq!(usage(1_000, &turn), Usage { input_tokens: 500, output_tokens: 3, ..Usage::default() });
        assert_eq!(usage(0, &Turn::default()).total(), 1);
    }
}
