//! How many tokens a turn may take to read.

use drawloom_contract::{
    executor::TurnPlan,
    message::{Message, Part},
    tool::ToolCard,
};

/// What an image counts for at most.
const MOST_IMAGE_TOKENS: usize = 25_000;

/// What a provider adds by itself when tools are offered.
const TOOL_PREAMBLE_TOKENS: usize = 512;

/// Tokens that a conversation may take to read: rather too many, because what is set aside must be enough. Plain words
/// have about one for four bytes, dense ones one for two; digits, signs and other scripts up to one a byte.
pub(crate) fn input_tokens(plan: &TurnPlan, cards: &[ToolCard]) -> u64 {
    let text = |text: &str| {
        let light = text.bytes().filter(|byte| byte.is_ascii_alphabetic() || *byte == b' ').count();
        light.div_ceil(2) + text.len() - light
    };
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
                + calls.iter().map(|call| text(&call.name) + text(&call.input.to_string())).sum::<usize>()
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
}
