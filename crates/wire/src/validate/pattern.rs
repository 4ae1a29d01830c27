//! A small matcher for the patterns of schemas.
//!
//! It knows literals, `.`, classes, `\d \w`, groups, `|` and the usual counts, and refuses anything else when it is
//! made. Patterns are ours and short; texts are anybody's, so a match gives up (as "does not match") after a bounded
//! number of tries.

/// How often a match may try again before it gives up.
const MAX_TRIES: u32 = 100_000;

/// A pattern, ready to match.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    source: Box<str>,
    ways: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone)]
struct Piece {
    what: What,
    least: u32,
    most: u32,
}

#[derive(Debug, Clone)]
enum What {
    /// One character of these ranges, or outside of them.
    Class { ranges: Vec<(char, char)>, outside: bool },
    /// One of these ways.
    Group(Vec<Vec<Piece>>),
    /// The beginning of the text.
    Begin,
    /// The end of the text.
    End,
}

impl Pattern {
    /// Reads a pattern; nothing when it uses more than this matcher knows.
    pub(super) fn parse(source: &str) -> Option<Self> {
        let mut reader = Reader { chars: source.chars().collect(), at: 0 };
        let ways = reader.ways()?;
        (reader.at == reader.chars.len()).then(|| Self { source: source.into(), ways })
    }

    /// As it was written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether `text` has a part that matches; `^` and `$` tie it to the ends.
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut tries = MAX_TRIES;
        let anchored = self.ways.iter().all(|way| matches!(way.first(), Some(Piece { what: What::Begin, .. })));
        let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        starts
            .take(if anchored { 1 } else { usize::MAX })
            .any(|start| self.ways.iter().any(|way| sequence(way, text, start, &mut tries, &mut |_, _| true)))
    }
}

type Then<'a> = &'a mut dyn FnMut(usize, &mut u32) -> bool;

fn sequence(pieces: &[Piece], text: &str, at: usize, tries: &mut u32, then: Then<'_>) -> bool {
    if *tries == 0 {
        return false;
    }
    *tries -= 1;
    let Some((piece, rest)) = pieces.split_first() else { return then(at, tries) };
    match &piece.what {
        What::Begin => at == 0 && sequence(rest, text, at, tries, then),
        What::End => at == text.len() && sequence(rest, text, at, tries, then),
        What::Class { ranges, outside } => {
            let fits = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *outside;
            let mut end = at;
            let mut count = 0;
            while count < piece.most
                && let Some(c) = text[end..].chars().next().filter(|c| fits(*c))
            {
                end += c.len_utf8();
                count += 1;
            }
            while count >= piece.least {
                if sequence(rest, text, end, tries, then) {
                    return true;
                }
                if count == 0 {
                    return false;
                }
                count -= 1;
                end -= text[..end].chars().next_back().map_or(0, char::len_utf8);
            }
            false
        }
        What::Group(ways) => repeat(ways, piece.least, piece.most, text, at, tries, &mut |end, tries| {
            sequence(rest, text, end, tries, then)
        }),
    }
}

/// A group, as often as it may come, most first.
fn repeat(ways: &[Vec<Piece>], least: u32, most: u32, text: &str, at: usize, tries: &mut u32, then: Then<'_>) -> bool {
    if most > 0 {
        for way in ways {
            let more = sequence(way, text, at, tries, &mut |end, tries| {
                // A round that took nothing would come round for ever.
                (end > at || least > 0) && repeat(ways, least.saturating_sub(1), most - 1, text, end, tries, then)
            });
            if more {
                return true;
            }
        }
    }
    least == 0 && then(at, tries)
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn ways(&mut self) -> Option<Vec<Vec<Piece>>> {
        let mut ways = vec![self.pieces()?];
        while self.take('|') {
            ways.push(self.pieces()?);
        }
        Some(ways)
    }

    fn pieces(&mut self) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
            self.at += 1;
            let one = |c: char| What::Class { ranges: vec![(c, c)], outside: false };
            let what = match c {
                '^' => What::Begin,
                '$' => What::End,
                '.' => What::Class { ranges: vec![('\n', '\n')], outside: true },
                '[' => self.class()?,
                '(' => {
                    if self.take('?') && !self.take(':') {
                        return None;
                    }
                    let ways = self.ways()?;
                    self.take(')').then_some(What::Group(ways))?
                }
                '\\' => match self.next()? {
                    c if named(c).is_some() => What::Class { ranges: named(c)?, outside: false },
                    c if !c.is_alphanumeric() => one(c),
                    _ => return None,
                },
                '*' | '+' | '?' | '{' | '}' | ']' => return None,
                c => one(c),
            };
            let (least, most) = self.count()?;
            pieces.push(Piece { what, least, most });
        }
        Some(pieces)
    }

    fn class(&mut self) -> Option<What> {
        let outside = self.take('^');
        let mut ranges = Vec::new();
        while !self.take(']') {
            let low = match self.next()? {
                '\\' => match self.next()? {
                    c if named(c).is_some() => {
                        ranges.extend(named(c)?);
                        continue;
                    }
                    c if !c.is_alphanumeric() => c,
                    _ => return None,
                },
                c => c,
            };
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']');
            let high = if is_range {
                self.at += 1;
                self.next()?
            } else {
                low
            };
            ranges.push((low, high));
        }
        Some(What::Class { ranges, outside })
    }

    fn count(&mut self) -> Option<(u32, u32)> {
        if self.take('*') {
            Some((0, u32::MAX))
        } else if self.take('+') {
            Some((1, u32::MAX))
        } else if self.take('?') {
            Some((0, 1))
        } else if self.take('{') {
            let least = self.number()?;
            let most = if !self.take(',') {
                least
            } else if self.peek() == Some('}') {
                u32::MAX
            } else {
                self.number()?
            };
            self.take('}').then_some((least, most))
        } else {
            Some((1, 1))
        }
    }

    fn number(&mut self) -> Option<u32> {
        let begin = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.chars[begin..self.at].iter().collect::<String>().parse().ok()
    }
}

fn named(c: char) -> Option<Vec<(char, char)>> {
    match c {
        'd' => Some(vec![('0', '9')]),
        'w' => Some(vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]),
        's' => Some(vec![(' ', ' '), ('\t', '\r')]),
        _ => None,
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
    fn a_pattern_that_backtracks_for_ever_gives_up() {
        assert!(!matches("^(a+)+$", &format!("{}b", "a".repeat(60))));
    }

    #[test]
    fn what_the_matcher_does_not_know_is_refused() {
        for pattern in ["(?=a)", r"\bword", "a**", "(a", "[a", "a{", r"\p{L}"] {
            assert!(Pattern::parse(pattern).is_none(), "{pattern}");
        }
    }
}
