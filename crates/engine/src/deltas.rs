//! Pieces of a turn on their way to listeners: counted, and with secrets masked even when a piece boundary cuts one.

use std::sync::{Mutex, PoisonError};

use drawloom_contract::{
    ids::RunKey,
    model::{DeltaKind, Deltas},
    redact::Redactor,
    runs::Delta,
};

use crate::feed::Feed;

/// A secret that is longer than this is shown in parts that are not recognised; none of the known shapes is.
const LONGEST_HELD: usize = 16 * 1024;

/// One turn's pieces.
pub(crate) struct TurnDeltas<'a> {
    feed: &'a Feed,
    redactor: &'a Redactor,
    key: &'a RunKey,
    turn: u32,
    text: Mutex<Held>,
    thinking: Mutex<Held>,
}

/// What was shown and what is held back until it is sure not to be part of a secret.
#[derive(Default)]
struct Held {
    offset: u64,
    tail: String,
}

impl<'a> TurnDeltas<'a> {
    pub(crate) fn new(feed: &'a Feed, redactor: &'a Redactor, key: &'a RunKey, turn: u32) -> Self {
        Self { feed, redactor, key, turn, text: Mutex::default(), thinking: Mutex::default() }
    }

    /// Shows what is still held back: the turn is whole.
    pub(crate) fn flush(&self) {
        for kind in [DeltaKind::Thinking, DeltaKind::Text] {
            let mut held = self.held(kind).lock().unwrap_or_else(PoisonError::into_inner);
            let rest = std::mem::take(&mut held.tail);
            self.show(kind, &mut held, rest);
        }
    }

    fn held(&self, kind: DeltaKind) -> &Mutex<Held> {
        match kind {
            DeltaKind::Text => &self.text,
            DeltaKind::Thinking => &self.thinking,
        }
    }

    fn show(&self, kind: DeltaKind, held: &mut Held, mut text: String) {
        if text.is_empty() {
            return;
        }
        self.redactor.mask(&mut text);
        let delta = Delta { kind, turn: self.turn, offset: held.offset, text: text.as_str().into() };
        held.offset += text.len() as u64;
        self.feed.show(self.key, &delta);
    }
}

impl Deltas for TurnDeltas<'_> {
    fn push(&self, kind: DeltaKind, text: &str) {
        let mut held = self.held(kind).lock().unwrap_or_else(PoisonError::into_inner);
        held.tail.push_str(text);
        let safe = sure(&held.tail);
        let rest = held.tail.split_off(safe);
        let shown = std::mem::replace(&mut held.tail, rest);
        self.show(kind, &mut held, shown);
    }
}

/// How much of `text` cannot be the beginning of a secret: all up to the last word, and nothing of an open key block.
fn sure(text: &str) -> usize {
    if text.len() > LONGEST_HELD {
        return text.len();
    }
    if let Some(begin) = text.rfind("-----BEGIN")
        && !text[begin..].contains("-----END")
    {
        return begin;
    }
    text.rfind(char::is_whitespace).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use drawloom_contract::{
        ids::{RunId, Tenant},
        runs::Item,
    };

    use super::*;

    #[test]
    fn a_secret_cut_in_pieces_is_never_shown() {
        let feed = Feed::default();
        let key = RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) };
        let mut heard = feed.events(&key);
        let redactor = Redactor::new(["hunter2-hunter2"]);
        let deltas = TurnDeltas::new(&feed, &redactor, &key, 1);
        for piece in ["the pass is hun", "ter2-hun", "ter2 and", " that is it"] {
            deltas.push(DeltaKind::Text, piece);
        }
        deltas.flush();
        let (mut text, mut offset) = (String::new(), 0);
        while let Ok(Item::Delta(delta)) = heard.try_recv() {
            assert_eq!(delta.offset, offset);
            offset += delta.text.len() as u64;
            text.push_str(&delta.text);
        }
        assert_eq!(text, "the pass is [redacted] and that is it");
    }
}
