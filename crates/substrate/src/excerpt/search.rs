//! Which lines of a text match a pattern, and how they are shown.

use regex::RegexBuilder;

use super::part::clip;

/// The most bytes of a compiled pattern: a few `\w`, which are large, and far from what takes minutes.
pub const PATTERN_SIZE: usize = 256 * 1024;
/// The most bytes of what a search remembers while it runs.
const MEMORY: usize = 1024 * 1024;
/// How much of a line is searched.
pub const LINE: usize = 64 * 1024;

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    /// The lines that match, from 0, in order.
    pub lines: Vec<usize>,
    /// Whether some of the text was not searched.
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("the regular expression is too large")]
    TooLarge,
    #[error("invalid regular expression: {0}")]
    Malformed(String),
}

impl PatternError {
    /// What to try next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge => "use fewer repetitions, and [a-z] instead of \\w, which covers all of Unicode",
            Self::Malformed(_) => "escape special characters such as ( [ * + ? with a backslash",
        }
    }
}

/// Which lines match. `is_over` is asked before each line whether the time for it is over.
pub fn search(pattern: &str, text: &str, mut is_over: impl FnMut() -> bool) -> Result<Hits, PatternError> {
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).dfa_size_limit(MEMORY).build();
    let pattern = built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
        error => PatternError::Malformed(error.to_string()),
    })?;
    let mut hits = Hits::default();
    for (at, line) in text.lines().enumerate() {
        if is_over() {
            hits.cut = true;
            break;
        }
        let looked_at = &line[..line.floor_char_boundary(LINE)];
        if pattern.is_match(looked_at) {
            hits.lines.push(at);
        } else if looked_at.len() < line.len() {
            hits.cut = true;
        }
    }
    Ok(hits)
}

/// How much of what was found is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Lines around each match.
    pub context: usize,
    pub max_matches: usize,
    pub max_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Each line after its number; a colon marks a match.
    pub text: String,
    /// The first line, from 1.
    pub from_line: u64,
    /// Whether matches were left out, or not all of the text was searched.
    pub truncated: bool,
}

/// The lines that were found.
pub fn show(text: &str, hits: &Hits, shape: Shape) -> Shown {
    let wanted = &hits.lines[..shape.max_matches.min(hits.lines.len())];
    let mut shown = Shown { text: String::new(), from_line: 1, truncated: hits.cut || wanted.len() < hits.lines.len() };
    let Some(last) = wanted.last() else { return shown };
    let mut shown_to = None;
    let mut ahead = wanted.iter().peekable();
    for (at, line) in text.lines().enumerate().take(last + shape.context + 1) {
        while ahead.next_if(|hit| **hit + shape.context < at).is_some() {}
        if ahead.peek().is_none_or(|hit| **hit > at + shape.context) {
            continue;
        }
        let gap = shown_to.is_some_and(|last| last + 1 < at) && shape.context > 0;
        let sign = if hits.lines.binary_search(&at).is_ok() { ':' } else { '-' };
        let line = format!("{}{}{sign} {line}\n", if gap { "--\n" } else { "" }, at + 1);
        if shown.text.len() + line.len() > shape.max_bytes {
            shown.truncated = true;
            if shown.text.is_empty() {
                shown.text = clip(&line, shape.max_bytes);
            }
            break;
        }
        if shown_to.is_none() {
            shown.from_line = at as u64 + 1;
        }
        shown_to = Some(at);
        shown.text.push_str(&line);
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn in_time() -> bool {
        false
    }

    #[test]
    fn a_search_stops_when_its_time_is_over() {
        let mut left = 20;
        let hits = search("hit", &"hit\n".repeat(50), || {
            left -= 1;
            left < 0
        });
        assert_eq!(hits, Ok(Hits { lines: (0..20).collect(), cut: true }));
        assert_eq!(search("hit", "hit\nno\nhit", in_time), Ok(Hits { lines: vec![0, 2], cut: false }));
    }

    #[test]
    fn of_a_line_only_its_beginning_is_searched() {
        let filler = "ü".repeat(LINE / 2 - 1);
        let text = format!("{filler}:)\n{filler}  :)\n:)");
        assert_eq!(search(r":\)", &text, in_time), Ok(Hits { lines: vec![0, 2], cut: true }));
        // The cut falls inside of a character.
        assert!(search("x", &format!("y{}", "ü".repeat(LINE)), in_time).expect("no hits").cut);
    }

    #[test]
    fn patterns_that_people_write_fit_and_giants_do_not() {
        for pattern in [r"\w+\s+\w+", r"^\s*fn \w+\(", r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", r"\bTODO\b|\w+@\w+\.\w+"] {
            search(pattern, "text", in_time).expect(pattern);
        }
        for pattern in [r"\w{100}", "(?:a{100}){100}"] {
            assert_eq!(search(pattern, "text", in_time), Err(PatternError::TooLarge), "{pattern}");
        }
        assert!(matches!(search("(", "text", in_time), Err(PatternError::Malformed(_))));
    }

    #[test]
    fn found_lines_are_shown_with_numbers_and_what_was_left_out_is_said() {
        let text = "a\nhit 1\nb\nc\nd\nhit 2\nhit 3\n";
        let hits = search("hit", text, in_time).expect("hits");
        let shown = show(text, &hits, Shape { context: 1, max_matches: 2, max_bytes: 1_000 });
        let expected = "1- a\n2: hit 1\n3- b\n--\n5- d\n6: hit 2\n7: hit 3\n";
        assert_eq!(shown, Shown { text: expected.into(), from_line: 1, truncated: true });
        let short = show(text, &hits, Shape { context: 0, max_matches: 9, max_bytes: 10 });
        assert_eq!(short, Shown { text: "2: hit 1\n".into(), from_line: 2, truncated: true });
    }

    #[test]
    fn the_context_of_hits_is_what_a_slow_look_at_every_line_gives() {
        let lines: Vec<String> =
            (0..60).map(|at: u32| if at * at % 7 == 2 { format!("hit {at}") } else { "x".into() }).collect();
        let text = lines.join("\n");
        let hits = search("hit", &text, in_time).expect("hits");
        for (context, max_matches) in [(0, 3), (1, 50), (2, 4), (20, 1), (20, 1000)] {
            let shown = show(&text, &hits, Shape { context, max_matches, max_bytes: 100_000 });
            let wanted = &hits.lines[..hits.lines.len().min(max_matches)];
            let near = |at: usize| wanted.iter().any(|hit| hit.abs_diff(at) <= context);
            let expected: Vec<usize> = (0..lines.len()).filter(|at| near(*at)).collect();
            let numbers = shown.text.lines().filter(|line| *line != "--").map(|line| {
                let digits = line.find([':', '-']).expect("a sign");
                line[..digits].parse::<usize>().expect("a number") - 1
            });
            assert_eq!(numbers.collect::<Vec<_>>(), expected, "{context} around {max_matches}");
        }
    }

    #[test]
    fn to_show_very_many_lines_takes_no_longer_than_reading_them() {
        const LINES: usize = 450_000;
        let text = "x\n".repeat(LINES);
        let shape = Shape { context: 20, max_matches: 1000, max_bytes: 256 * 1024 };
        // Hits close together, and hits far apart whose lines fill no answer.
        for step in [1, LINES / 1000] {
            let begun = Instant::now();
            let hits = Hits { lines: (0..LINES).step_by(step).collect(), cut: false };
            assert!(!show(&text, &hits, shape).text.is_empty());
            assert!(begun.elapsed() < Duration::from_secs(4), "{step}: {:?}", begun.elapsed());
        }
    }
}
