//! The redactor, and `Redacted`, which only it makes.

use std::{
    iter,
    ops::{Deref, Range},
    sync::{LazyLock, OnceLock},
};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

use crate::{
    Texts,
    forms::{SHORTEST, forms},
};

/// What stands where a secret stood.
pub const MASK: &str = "[redacted]";

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

/// The shape of a token that is a secret wherever it stands.
struct Shape {
    /// Every such token contains one of these.
    hints: &'static [&'static str],
    pattern: &'static str,
    /// Compiled once a hint is found, because most processes never need it.
    regex: OnceLock<Regex>,
}

impl Shape {
    const fn new(hints: &'static [&'static str], pattern: &'static str) -> Self {
        Self { hints, pattern, regex: OnceLock::new() }
    }

    fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| Regex::new(self.pattern).expect("constant pattern"))
    }
}

static SHAPES: [Shape; 10] = [
    Shape::new(&["sk-"], r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}"),
    Shape::new(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    Shape::new(&["github_pat_"], r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    Shape::new(&["glpat-"], r"\bglpat-[A-Za-z0-9_-]{20,}"),
    Shape::new(&["xox"], r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    Shape::new(&["AKIA", "ASIA"], r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    Shape::new(&["AIza"], r"\bAIza[A-Za-z0-9_-]{35}"),
    Shape::new(&["eyJ"], r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    Shape::new(&["npm_"], r"\bnpm_[A-Za-z0-9]{36}"),
    Shape::new(&["-----BEGIN"], r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)"),
];

fn all_hints() -> impl Iterator<Item = &'static &'static str> {
    SHAPES.iter().flat_map(|shape| shape.hints)
}

/// Says in one quick scan whether a text has a hint, which few have. Of the kinds of matches, only this one is searched for with
/// vector instructions.
static ANY_HINT: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let quick = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(all_hints());
    quick.expect("constant literals")
});

/// Finds all hints of a text.
static HINTS: LazyLock<AhoCorasick> = LazyLock::new(|| AhoCorasick::new(all_hints()).expect("constant literals"));

/// The shapes of which `text` has a hint.
fn hinted(text: &str) -> impl Iterator<Item = &'static Shape> + use<> {
    let mut found = [false; SHAPES.len()];
    if ANY_HINT.is_match(text) {
        let owners: Vec<usize> = SHAPES
            .iter()
            .enumerate()
            .flat_map(|(shape, Shape { hints, .. })| iter::repeat_n(shape, hints.len()))
            .collect();
        for hint in HINTS.find_overlapping_iter(text) {
            found[owners[hint.pattern().as_usize()]] = true;
        }
    }
    SHAPES.iter().zip(found).filter(|(_, found)| *found).map(|(shape, _)| shape)
}

/// Masks secrets in texts: values that are known, and tokens of common shapes.
#[derive(Debug)]
pub struct Redactor {
    known: Option<AhoCorasick>,
    /// Length of the longest known value with a space in it.
    longest_spaced: usize,
    /// Length of the longest secret that is recognised.
    reach: usize,
}

/// How far around a piece of a text a secret may reach that is recognised by its shape.
const LONGEST_SHAPE: usize = 4096;

impl Redactor {
    /// A redactor that knows these values in all their [`forms()`](forms). Values and lines under 8 bytes are left out.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().flat_map(|secret| forms(secret.as_ref())).collect();
        secrets.sort();
        secrets.dedup();
        let spaced = secrets.iter().filter(|secret| secret.contains(char::is_whitespace));
        let longest_spaced = spaced.map(String::len).max().unwrap_or(0);
        let build = |literals: &[String]| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(literals)
                .expect("literals within the automaton's size")
        };
        Self {
            longest_spaced,
            reach: secrets.iter().map(String::len).max().unwrap_or(0).max(LONGEST_SHAPE),
            known: (!secrets.is_empty()).then(|| build(&secrets)),
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
        self.found(text).filter(|range| range.start < at && at < range.end).map(|range| range.start).min().unwrap_or(at)
    }

    /// Where the secrets in `text` are.
    fn found<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let known = self.known.iter().flat_map(move |known| known.find_iter(text).map(|found| found.range()));
        let shaped = hinted(text).flat_map(move |shape| shape.regex().find_iter(text).map(|found| found.range()));
        known.chain(shaped)
    }

    /// How many bytes before and after a piece of a longer text [`Redactor::mask_part`] must see, so that no secret is
    /// missed because the piece begins or ends inside it.
    pub fn reach(&self) -> usize {
        self.reach
    }

    /// The piece of a longer text, with a mask for every secret that it holds a part of. Code that cuts a text
    /// masks it first, or cuts it with this.
    pub fn mask_part(&self, text: &str, part: Range<usize>) -> String {
        let mut secrets: Vec<Range<usize>> =
            self.found(text).filter(|secret| secret.start < part.end && part.start < secret.end).collect();
        secrets.sort_by_key(|secret| secret.start);
        let (mut masked, mut at) = (String::new(), part.start);
        for secret in secrets {
            if secret.start >= at {
                masked.push_str(&text[at..secret.start]);
            }
            if secret.end > at {
                masked.push_str(MASK);
                at = secret.end;
            }
        }
        masked.push_str(text.get(at..part.end).unwrap_or_default());
        masked
    }

    /// Whether `text` may contain a secret: a quick scan with false positives, and without false negatives.
    pub fn suspects(&self, text: &str) -> bool {
        self.known.as_ref().is_some_and(|known| known.is_match(text)) || ANY_HINT.is_match(text)
    }

    /// Masks the secrets in `text`; says whether there were any.
    pub fn mask(&self, text: &mut String) -> bool {
        let mut masked = false;
        if text.len() < SHORTEST {
            return false;
        }
        if let Some(known) = &self.known
            && known.is_match(text.as_str())
        {
            *text = known.replace_all(text, &vec![MASK; known.patterns_len()]);
            masked = true;
        }
        for shape in hinted(text) {
            if shape.regex().is_match(text) {
                *text = shape.regex().replace_all(text, MASK).into_owned();
                masked = true;
            }
        }
        masked
    }
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
    fn a_token_of_every_shape_is_masked_alone_and_right_behind_another() {
        let body = |length: usize| "Ab3".repeat(length).chars().take(length).collect::<String>();
        let mut tokens = ["sk-ant-", "sk-", "github_pat_", "glpat-", "xoxb-", "AIza", "npm_"]
            .map(|start| {
                format!(
                    "{start}{}",
                    body(if start == "AIza" {
                        35
                    } else if start == "npm_" {
                        36
                    } else {
                        44
                    })
                )
            })
            .to_vec();
        tokens.extend(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"].map(|start| format!("{start}{}", body(36))));
        tokens.extend(["AKIA", "ASIA"].map(|start| format!("{start}{}", "A1B2".repeat(4))));
        tokens.push(format!("eyJ{0}.eyJ{0}.{0}", body(12)));
        tokens.push("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----".into());
        let redactor = Redactor::new([""; 0]);
        for token in &tokens {
            for (before, after) in [("", ""), ("xAKIAI ", " eyJ")] {
                let mut text = format!("{before}{token}{after}");
                assert!(redactor.mask(&mut text), "{token}");
                assert_eq!(text, format!("{before}{MASK}{after}"));
            }
        }
    }

    #[test]
    fn secrets_in_keys_and_values_of_json_are_masked() {
        let redactor = Redactor::new(["hunter2-hunter2"]);
        let cleaned = redactor.clean(serde_json::json!({ "hunter2-hunter2": ["x hunter2-hunter2"], "n": 1 }));
        assert!(cleaned.is_masked());
        assert_eq!(*cleaned, serde_json::json!({ "[redacted]": ["x [redacted]"], "n": 1 }));
    }

    #[test]
    fn a_piece_of_a_text_holds_no_piece_of_a_secret() {
        let redactor = Redactor::new(["hunter2-hunter2"]);
        let text = format!("a hunter2-hunter2 b sk-{} c", "a1".repeat(12));
        let whole = "a [redacted] b [redacted] c";
        assert_eq!(redactor.mask_part(&text, 0..text.len()), whole);
        for from in 0..text.len() {
            for to in from..text.len() {
                let piece = redactor.mask_part(&text, from..to);
                let left = piece.replace(MASK, "");
                assert!(left.chars().all(|sign| "a b c".contains(sign)), "{from}..{to}: {piece}");
            }
        }
    }

    #[test]
    fn every_form_of_a_known_value_is_masked() {
        let secret = "line one of it\nline \"two\"/of+it?\nshort";
        let redactor = Redactor::new([secret]);
        for form in forms(secret) {
            let mut text = format!("before {form} after");
            assert!(redactor.mask(&mut text), "{form}");
            assert_eq!(text, "before [redacted] after", "{form}");
        }
        // As part of a longer text that was encoded whole, wherever it stands in it.
        for before in ["", "u", "us", "use"] {
            let json = serde_json::json!({ "auth": format!("{before}{secret}after") }).to_string();
            let mut text = json.clone();
            assert!(redactor.mask(&mut text) && !text.contains("line one"), "{text}");
        }
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
