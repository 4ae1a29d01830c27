//! Pieces of a turn on their way to listeners: counted, and with secrets masked even when a piece boundary cuts one.

use std::sync::{Mutex, PoisonError};

use drawloom_contract::{
    ids::RunKey,
    model::{DeltaKind, Deltas},
    redact::Redactor,
    runs::Delta,
};

use crate::feed::Feed;

/// Most bytes that are held back while they may be part of a secret.
const MOST_HELD: usize = 16 * 1024;

/// One turn's pieces.
pub(crate) struct TurnDeltas<'a> {
    feed: &'a Feed,
    redactor: &'a Redactor,
    key: &'a RunKey,
    turn: u32,
    attempt: u32,
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
    pub(crate) fn new(feed: &'a Feed, redactor: &'a Redactor, key: &'a RunKey, turn: u32, attempt: u32) -> Self {
        Self { feed, redactor, key, turn, attempt, text: Mutex::default(), thinking: Mutex::default() }
    }

    /// Shows what is still held back: the turn is whole.
    pub(crate) fn flush(&self) {
        self.end(DeltaKind::Thinking);
        self.end(DeltaKind::Text);
    }

    fn end(&self, kind: DeltaKind) {
        let mut held = self.held(kind).lock().unwrap_or_else(PoisonError::into_inner);
        let rest = std::mem::take(&mut held.tail);
        self.show(kind, &mut held, rest);
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
        let delta =
            Delta { kind, turn: self.turn, attempt: self.attempt, offset: held.offset, text: text.as_str().into() };
        held.offset += text.len() as u64;
        self.feed.show(self.key, &delta);
    }
}

impl Deltas for TurnDeltas<'_> {
    fn push(&self, kind: DeltaKind, text: &str) {
        // A thought ends where text begins: its last words are shown before the text, not after it.
        if kind == DeltaKind::Text {
            self.end(DeltaKind::Thinking);
        }
        let mut held = self.held(kind).lock().unwrap_or_else(PoisonError::into_inner);
        held.tail.push_str(text);
        let safe = self.redactor.sure(&held.tail, MOST_HELD);
        let rest = held.tail.split_off(safe);
        let shown = std::mem::replace(&mut held.tail, rest);
        self.show(kind, &mut held, shown);
    }
}

#[cfg(test)]
mod tests {
    use drawloom_contract::{
        ids::{RunId, Tenant},
        runs::Item,
    };

    use futures::FutureExt;

    use super::*;

    /// What listeners hear of `pieces`.
    fn heard(secret: &str, pieces: &[&str]) -> String {
        let feed = std::sync::Arc::new(Feed::default());
        let key = RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) };
        let mut subscription = feed.events(&key);
        let redactor = Redactor::new([secret]);
        let deltas = TurnDeltas::new(&feed, &redactor, &key, 1, 1);
        let (mut text, mut offset) = (String::new(), 0);
        let mut hear = || {
            while let Some(Some(Item::Delta(delta))) = subscription.next().now_or_never() {
                assert_eq!(delta.offset, offset);
                offset += delta.text.len() as u64;
                text.push_str(&delta.text);
            }
        };
        for piece in pieces {
            deltas.push(DeltaKind::Text, piece);
            hear();
        }
        deltas.flush();
        hear();
        text
    }

    #[test]
    fn a_thought_is_shown_whole_before_the_text_begins() {
        let feed = std::sync::Arc::new(Feed::default());
        let key = RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) };
        let mut subscription = feed.events(&key);
        let redactor = Redactor::new(["hunter2-hunter2"]);
        let deltas = TurnDeltas::new(&feed, &redactor, &key, 1, 1);
        for (kind, piece) in [
            (DeltaKind::Thinking, "It is hunter2-"),
            (DeltaKind::Thinking, "hunter2, I think."),
            (DeltaKind::Text, "Done."),
        ] {
            deltas.push(kind, piece);
        }
        deltas.flush();
        let mut heard: Vec<(DeltaKind, String)> = Vec::new();
        while let Some(Some(Item::Delta(delta))) = subscription.next().now_or_never() {
            match heard.last_mut().filter(|(kind, _)| *kind == delta.kind) {
                Some((_, text)) => text.push_str(&delta.text),
                None => heard.push((delta.kind, delta.text.to_string())),
            }
        }
        let expected = [(DeltaKind::Thinking, "It is [redacted], I think."), (DeltaKind::Text, "Done.")];
        assert_eq!(heard, expected.map(|(kind, text)| (kind, text.to_owned())));
    }

    #[test]
    fn a_secret_cut_in_pieces_is_never_shown() {
        let pieces = ["the pass is hun", "ter2-hun", "ter2 and", " that is it"];
        assert_eq!(heard("hunter2-hunter2", &pieces), "the pass is [redacted] and that is it");
        let spaced = ["say correct", " horse ", "battery st", "aple now", " please"];
        assert_eq!(heard("correct horse battery staple", &spaced), "say [redacted] now please");
        let long = ["x".repeat(20_000), "hunter2-".to_owned(), "hunter2".to_owned(), "y".repeat(20_000)];
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let expected = format!("{}[redacted]{}", "x".repeat(20_000), "y".repeat(20_000));
        assert!(heard("hunter2-hunter2", &long) == expected);
    }
}
