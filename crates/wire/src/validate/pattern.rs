//! The patterns of schemas.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled pattern, and of the memory that a match uses. Time is linear in both and in the text.
const MAX_SIZE: usize = 256 * 1024;

/// Most compiled patterns that are kept.
const MAX_KEPT: usize = 64;

/// The patterns that were compiled first. Schemas share a few patterns of ids, and each takes up to 0.1 ms to compile.
static KEPT: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);

/// A pattern, ready to match.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern; `None` for one that the `regex` crate does not know (look-around, back-references) or that
    /// needs too much memory.
    pub(super) fn parse(source: &str) -> Option<Self> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = kept.get(source) {
            return Some(Self(regex.clone()));
        }
        let regex = RegexBuilder::new(source).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build().ok()?;
        if kept.len() < MAX_KEPT {
            kept.insert(source.into(), regex.clone());
        }
        Some(Self(regex))
    }

    /// As it was written.
    pub(super) fn source(&self) -> &str {
        self.0.as_str()
    }

    /// Whether any part of `text` matches; `^` and `$` tie it to the ends.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).expect(pattern).matches(text)
    }

    #[test]
    fn the_patterns_of_ids_match_what_their_types_parse() {
        let run = "^r_[0-9a-f]{32}$";
        assert!(matches(run, "r_0123456789abcdef0123456789abcdef"));
        for bad in ["", "r_", "r_0123456789abcdef0123456789abcde", "r_0123456789abcdef0123456789abcdefa", "x", "r_é"] {
            assert!(!matches(run, bad), "{bad}");
        }
        assert!(!matches(run, "r_0123456789abcdef0123456789abcdef\n"), "a line break is not the end");
        let agent = "^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$";
        for good in ["a", "group/name-1.2", "a/b/c"] {
            assert!(matches(agent, good), "{good}");
        }
        for bad in ["", "/", "a//b", "a/", "a b", "ä"] {
            assert!(!matches(agent, bad), "{bad}");
        }
        assert!(matches("^[A-Za-z0-9_-]{1,128}$", &"x".repeat(128)));
        assert!(!matches("^[A-Za-z0-9_-]{1,128}$", &"x".repeat(129)));
    }

    #[test]
    fn other_forms_match_as_people_expect() {
        for (pattern, text, wanted) in [
            ("b+", "abba", true),
            ("^(?:a|bc)?$", "bc", true),
            ("^(?:a|bc)?$", "b", false),
            (r"^-?\d+$", "-12", true),
            (r"^-?\d+$", "1-2", false),
            ("^[^/]*$", "a/b", false),
            ("^.é.$", "xéy", true),
            ("^(a*)*$", "aaab", false),
            ("^https?://", "http://x", true),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} on {text}");
        }
    }

    #[test]
    fn nested_repeats_do_not_backtrack() {
        let long = "a".repeat(1_000_000);
        assert!(matches("^(a+)+$", &long));
        assert!(!matches("^(a+)+$", &format!("{long}b")));
    }

    #[test]
    fn unknown_syntax_and_patterns_that_need_too_much_memory_are_refused() {
        for pattern in ["(?=a)", r"(a)\1", "(a", "[a", "a{", "(?:[a-z]{1000}){1000}"] {
            assert!(Pattern::parse(pattern).is_none(), "{pattern}");
        }
    }
}
