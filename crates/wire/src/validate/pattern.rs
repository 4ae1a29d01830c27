//! The patterns of schemas.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

/// Most bytes of a compiled pattern, and of the memory that a match uses. Time is linear in both and in the text.
const MAX_SIZE: usize = 256 * 1024;

/// Most parts of a pattern whose repetitions are written out. One part takes less than 100 bytes when it is compiled.
const MAX_PARTS: usize = 2_000;

/// A pattern, which is compiled when the first text is matched: most commands and servers never use most of them.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    source: Box<str>,
    regex: OnceLock<Regex>,
}

impl Pattern {
    /// Checks a pattern; `None` for one that the `regex` crate does not know (look-around, back-references) or that
    /// needs too much memory.
    pub(super) fn parse(source: &str) -> Option<Self> {
        let parsed = regex_syntax::parse(source).ok()?;
        (parts(&parsed) <= MAX_PARTS).then(|| Self { source: source.into(), regex: OnceLock::new() })
    }

    /// As it was written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether any part of `text` matches; `^` and `$` tie it to the ends.
    pub(super) fn matches(&self, text: &str) -> bool {
        let regex = self.regex.get_or_init(|| {
            let builder = RegexBuilder::new(&self.source).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).build();
            builder.expect("a pattern with few parts compiles")
        });
        regex.is_match(text)
    }
}

/// How many parts a pattern has when its repetitions are written out.
fn parts(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => match class {
            regex_syntax::hir::Class::Unicode(class) => class.ranges().len(),
            regex_syntax::hir::Class::Bytes(class) => class.ranges().len(),
        },
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            parts(&repetition.sub).saturating_mul(times.max(1) as usize)
        }
        HirKind::Capture(capture) => parts(&capture.sub),
        HirKind::Concat(all) | HirKind::Alternation(all) => all.iter().map(parts).fold(0, usize::saturating_add),
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
