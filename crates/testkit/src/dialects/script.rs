//! What the models say, and what they remember of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Dice, KEY};
use crate::providers::{Asked, Ending, Refusal, Reply, ServerReply, Shape};

/// From here on a model calls no tools.
const LAST: usize = 7;

/// How servers fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failures {
    /// Also with keys that are rejected: a run goes on only while another provider is not in its cooldown.
    All,
    /// Only in ways that the same server recovers from.
    Transient,
}

/// What the models remember, so that it can be seen what others forgot.
#[derive(Default)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// How many times each model was asked at each place of each conversation.
    tries: HashMap<String, u32>,
    /// The conversations that were refused, by seed.
    refused: BTreeSet<u64>,
    /// For each turn of the Responses API, by its number: the model, and the reasoning that must come back with its calls.
    reasoned: BTreeMap<u64, (String, Vec<String>)>,
    /// Reasoning that should have come back and did not.
    forgotten: Vec<String>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the model refused to go on with a conversation.
    pub fn is_refused(&self, seed: u64) -> bool {
        self.lock().refused.contains(&seed)
    }

    /// Reasoning that did not come back with the calls that it led to.
    pub fn forgotten(&self) -> Vec<String> {
        self.lock().forgotten.clone()
    }

    /// Whether an item is reasoning that must come back.
    pub fn knows(&self, item: &Value) -> bool {
        let inner = self.lock();
        item["id"]
            .as_str()
            .is_some_and(|id| inner.reasoned.values().any(|(_, known)| known.iter().any(|one| one == id)))
    }

    /// The reasoning of its own that a model misses in a request of the Responses API, which itself does not notice that.
    pub fn missing(&self, asked: &Asked) -> Vec<String> {
        if asked.shape != Shape::Responses {
            return Vec::new();
        }
        let ids: BTreeSet<&str> = asked.items().iter().filter_map(|item| item["id"].as_str()).collect();
        let number = |item: &Value| item["call_id"].as_str()?.strip_prefix("call_r")?.split_once('_')?.0.parse().ok();
        let turns: BTreeSet<u64> = asked.items().iter().filter_map(number).collect();
        let inner = self.lock();
        let own = turns.iter().filter_map(|turn| inner.reasoned.get(turn)).filter(|(model, _)| model == asked.model());
        own.flat_map(|(_, reasoning)| reasoning).filter(|id| !ids.contains(id.as_str())).cloned().collect()
    }

    /// What a model says, by the conversation and how far it is; a failure only at the first try.
    pub(super) fn answer(&self, asked: &Asked, failures: Failures, between: Duration) -> ServerReply {
        let missing = self.missing(asked);
        let seed = seed(asked);
        let said = said(asked);
        let place = format!("{seed} {:?} {} {said}", asked.shape, asked.model());
        let mut inner = self.lock();
        inner.forgotten.extend(missing);
        let attempt = inner.tries.entry(place.clone()).or_default();
        *attempt += 1;
        let mut dice = Dice::of(&[&place]);
        let fails = dice.in_100(35) && *attempt == 1;
        let kind = dice.below(7);
        let piece = usize::try_from(dice.below(9)).unwrap_or(0);
        if fails && kind < 3 {
            let status = match (kind, failures) {
                (0, _) | (2, Failures::Transient) => 503,
                (1, _) => 500,
                (_, _) => 401,
            };
            return Refusal::new(status, "not now").into();
        }
        let reply = turn(asked, &mut dice, &seed, said).pieces(3, between);
        match (fails, kind) {
            (true, 3 | 4) => return reply.ending(Ending::Broken(piece)).into(),
            (true, 5) => return reply.ending(Ending::Short(piece.min(2))).into(),
            (true, _) => return reply.ending(Ending::Error(piece, "overloaded_error".into())).into(),
            (false, _) => {}
        }
        if reply.stop.as_deref() == Some(refusing(asked.shape)) {
            inner.refused.extend(seed.parse::<u64>().ok());
        }
        if asked.shape == Shape::Responses {
            inner.reasoned.insert(asked.number, (asked.model().to_owned(), reasoning(asked, &reply)));
        }
        reply.into()
    }
}

/// The seed of a conversation, as its prompt says it.
pub(super) fn seed(asked: &Asked) -> String {
    let whole = asked.body.to_string();
    let rest = whole.split_once("seed ").map_or("", |(_, rest)| rest);
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// The whole of a turn.
fn turn(asked: &Asked, dice: &mut Dice, seed: &str, said: usize) -> Reply {
    let mut reply = Reply::text(if dice.in_100(60) { "Some words." } else { "" });
    let mut secret = |words: &str| if dice.in_100(10) { format!("{words} {KEY}") } else { words.to_owned() };
    let (thought, sealed) = (secret(&format!("A thought of {seed}")), secret(&format!("sealed-{seed}")));
    if dice.in_100(70) {
        reply = reply.thinking(thought);
    }
    if dice.in_100(20) {
        reply = reply.sealed(sealed);
    }
    if said < LAST
        && let Some(tool) = asked.tools().first()
    {
        for number in 0..dice.below(4) {
            reply = match dice.in_100(10) {
                true => reply.raw_call(tool, "{\"path\": "),
                false => reply.call(tool, &json!({ "path": format!("{said}.{number}") })),
            };
        }
    }
    if reply.calls.is_empty() && reply.text.is_empty() {
        reply.text = "The end.".into();
    }
    match dice.below(100) {
        0 => return reply.stop(refusing(asked.shape)),
        1..=2 => {}
        // The limit falls into the reasoning.
        3..=4 => {
            reply.text.clear();
            reply.calls.clear();
        }
        _ => return reply,
    }
    reply.stop(match asked.shape {
        Shape::Anthropic => "max_tokens",
        Shape::Responses => "max_output_tokens",
        Shape::Openai | Shape::Deepseek => "length",
    })
}

/// The reason of a turn that was refused.
fn refusing(shape: Shape) -> &'static str {
    match shape {
        Shape::Anthropic => "refusal",
        Shape::Responses | Shape::Openai | Shape::Deepseek => "content_filter",
    }
}

/// The reasoning that must come back: what holds a secret may not.
fn reasoning(asked: &Asked, reply: &Reply) -> Vec<String> {
    let thoughts = [&reply.thinking, &reply.sealed].into_iter().flatten();
    let whole = thoughts.enumerate().filter(|(_, thought)| !thought.contains(KEY));
    whole.map(|(index, _)| format!("rs_{:08}_{index}", asked.number)).collect()
}

/// How much a model has said so far.
fn said(asked: &Asked) -> usize {
    let spoken = |item: &&Value| item["role"] == "assistant" || item["type"] == "function_call";
    asked.messages().iter().chain(asked.items()).filter(spoken).count()
}
