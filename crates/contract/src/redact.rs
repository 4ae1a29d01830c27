//! The redactor: what is journaled, streamed, logged or shown has passed it, and `Redacted` is the proof.

use std::{ops::Deref, sync::Arc};

use aho_corasick::AhoCorasick;
use regex::Regex;

/// What stands where a secret stood.
pub const MASK: &str = "[redacted]";

/// A value with texts that may hold secrets.
pub trait Texts {
    /// Shows every text to `visit`, which may change it.
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String));
}

impl Texts for String {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        visit(self);
    }
}

impl<T: Texts + Clone> Texts for Arc<T> {
    fn each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        Arc::make_mut(self).each_text(visit);
    }
}

/// A value whose texts have passed the redactor. Only the redactor makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<T> {
    value: T,
    masked: bool,
}

impl<T> Redacted<T> {
    /// Whether anything was masked.
    pub fn is_masked(&self) -> bool {
        self.masked
    }

    /// The value, no longer proven.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Redacted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Shapes of tokens that are secrets wherever they stand, and a literal that each of them contains, so that most texts
/// are passed after one quick scan.
const PATTERNS: &[(&str, &str)] = &[
    ("sk-", r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("AKIA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("ASIA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("AIza", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}"),
    ("-----BEGIN", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"),
];

/// Masks secrets in texts: values that are known, and tokens of common shapes.
#[derive(Debug)]
pub struct Redactor {
    known: Option<AhoCorasick>,
    /// Length of the longest known value with a space in it.
    longest_spaced: usize,
    hints: AhoCorasick,
    patterns: Vec<Regex>,
}

/// Shorter values are not masked: they would mask ordinary words.
const SHORTEST_SECRET: usize = 8;

impl Redactor {
    /// A redactor that knows these values, also as JSON writes them. Those under 8 bytes are left out.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .map(|secret| secret.as_ref().trim().to_owned())
            .filter(|secret| secret.len() >= SHORTEST_SECRET)
            .collect();
        let escaped: Vec<String> = secrets.iter().filter_map(|secret| in_json(secret)).collect();
        secrets.extend(escaped);
        let spaced = secrets.iter().filter(|secret| secret.contains(char::is_whitespace));
        let longest_spaced = spaced.map(String::len).max().unwrap_or(0);
        let build = |literals: &[String]| {
            AhoCorasick::builder()
                .match_kind(aho_corasick::MatchKind::LeftmostLongest)
                .build(literals)
                .expect("literals within the automaton's size")
        };
        Self {
            longest_spaced,
            known: (!secrets.is_empty()).then(|| build(&secrets)),
            hints: AhoCorasick::new(PATTERNS.iter().map(|(hint, _)| hint)).expect("constant literals"),
            patterns: PATTERNS.iter().map(|(_, pattern)| Regex::new(pattern).expect("constant pattern")).collect(),
        }
    }

    /// `value` with its secrets masked.
    pub fn clean<T: Texts>(&self, mut value: T) -> Redacted<T> {
        let mut masked = false;
        value.each_text(&mut |text| masked |= self.mask(text));
        Redacted { value, masked }
    }

    /// How much of a text that goes on can be masked and shown now: what stands before is whole, and nothing that is
    /// held back can turn out to belong to it. `most` is how much may be held back.
    pub fn sure(&self, text: &str, most: usize) -> usize {
        let open_key = text.rfind("-----BEGIN").filter(|begin| !text[*begin..].contains("-----END"));
        let spaced = text.len().saturating_sub(self.longest_spaced.saturating_sub(1));
        let words = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let sure = [open_key.unwrap_or(text.len()), spaced, words].into_iter().min().unwrap_or(0);
        let sure = sure.max(text.len().saturating_sub(most));
        self.outside(text, sure)
    }

    /// The largest place up to `at` that is inside no secret and no character.
    fn outside(&self, text: &str, mut at: usize) -> usize {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let known = self.known.iter().flat_map(|known| known.find_iter(text).map(|found| found.range()));
        let shaped = self.patterns.iter().flat_map(|pattern| pattern.find_iter(text).map(|found| found.range()));
        known
            .chain(shaped)
            .filter(|range| range.start < at && at < range.end)
            .map(|range| range.start)
            .min()
            .unwrap_or(at)
    }

    /// Masks the secrets in `text`; says whether there were any.
    pub fn mask(&self, text: &mut String) -> bool {
        let mut masked = false;
        if text.len() < SHORTEST_SECRET {
            return false;
        }
        if let Some(known) = &self.known
            && known.is_match(text.as_str())
        {
            *text = known.replace_all(text, &vec![MASK; known.patterns_len()]);
            masked = true;
        }
        if self.hints.is_match(text.as_str()) {
            for pattern in &self.patterns {
                if pattern.is_match(text) {
                    *text = pattern.replace_all(text, MASK).into_owned();
                    masked = true;
                }
            }
        }
        masked
    }
}

/// A text as it stands between the quotes of JSON, when that is not the same.
fn in_json(text: &str) -> Option<String> {
    let quoted = serde_json::Value::from(text).to_string();
    let escaped = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (escaped != text).then(|| escaped.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_and_common_tokens_are_masked_and_the_rest_is_left() {
        let redactor = Redactor::new(["hunter2-hunter2", "short"]);
        let [key, token] = [format!("sk-{}", "a1".repeat(12)), format!("ghp_{}", "b2".repeat(18))];
        let mut text = format!("pass hunter2-hunter2, short, {key}, {token}");
        assert!(redactor.mask(&mut text));
        assert_eq!(text, "pass [redacted], short, [redacted], [redacted]");
        let mut plain = "a sketch of task-lists and ghosts in the shell".to_owned();
        assert!(!redactor.mask(&mut plain));
        assert_eq!(plain, "a sketch of task-lists and ghosts in the shell");
    }

    #[test]
    fn secrets_in_keys_and_values_of_json_are_masked() {
        let redactor = Redactor::new(["hunter2-hunter2"]);
        let cleaned = redactor.clean(serde_json::json!({ "hunter2-hunter2": ["x hunter2-hunter2"], "n": 1 }));
        assert!(cleaned.is_masked());
        assert_eq!(*cleaned, serde_json::json!({ "[redacted]": ["x [redacted]"], "n": 1 }));
    }

    #[test]
    fn a_secret_is_known_as_json_writes_it_too() {
        let secret = "pass\"wo\\rd\twith\nsigns";
        let redactor = Redactor::new([secret]);
        let json = serde_json::json!({ "key": secret }).to_string();
        for (mut text, masked) in [(json, "{\"key\":\"[redacted]\"}"), (secret.to_owned(), "[redacted]")] {
            assert!(redactor.mask(&mut text));
            assert_eq!(text, masked);
        }
    }
}
