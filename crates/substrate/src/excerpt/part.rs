//! A part of a text, by lines or by bytes.

/// Which part of a text. Without anything it is the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The first line, from 1.
    pub from_line: Option<u64>,
    /// The first byte, from 0.
    pub offset: Option<u64>,
    /// At most this many lines.
    pub lines: Option<u64>,
    /// At most this many bytes; a character that is longer is given whole.
    pub max_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub text: String,
    /// The line that it begins in, from 1.
    pub from_line: u64,
    /// Where the next part begins; absent at the end.
    pub next_offset: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("from_line and offset cannot be combined")]
    Both,
    #[error("line {line} is out of range: the text has {lines} lines")]
    NoLine { line: u64, lines: u64 },
    #[error("offset {offset} is out of range: the text has {bytes} bytes")]
    NoByte { offset: u64, bytes: u64 },
}

/// The part of `text` at a place.
pub fn cut(text: &str, place: Place) -> Result<Part, RangeError> {
    let begin = begin(text, place)?;
    let most = usize::try_from(place.max_bytes).unwrap_or(usize::MAX);
    let mut end = text.floor_char_boundary(begin.saturating_add(most).min(text.len()));
    if end == begin && end < text.len() {
        // A character is longer than what was asked for: it is given whole, so that reading goes on.
        end = text.ceil_char_boundary(begin + 1);
    }
    if let Some(lines) = place.lines {
        let last = usize::try_from(lines.saturating_sub(1)).unwrap_or(usize::MAX);
        let wanted = text[begin..end].match_indices('\n').nth(last);
        end = wanted.map_or(end, |(at, _)| begin + at + 1);
    }
    Ok(Part {
        text: text[begin..end].to_owned(),
        from_line: 1 + text[..begin].matches('\n').count() as u64,
        next_offset: (end < text.len()).then_some(end as u64),
    })
}

fn begin(text: &str, place: Place) -> Result<usize, RangeError> {
    match (place.from_line, place.offset) {
        (Some(_), Some(_)) => Err(RangeError::Both),
        (Some(line), None) => {
            let lines = text.lines().count() as u64;
            match line > lines.max(1) {
                true => Err(RangeError::NoLine { line, lines }),
                false => Ok(line_start(text, line)),
            }
        }
        (None, offset) => {
            let (offset, bytes) = (offset.unwrap_or(0), text.len() as u64);
            match usize::try_from(offset).ok().filter(|offset| *offset <= text.len()) {
                Some(offset) => Ok(text.floor_char_boundary(offset)),
                None => Err(RangeError::NoByte { offset, bytes }),
            }
        }
    }
}

/// Where a line begins; lines count from 1.
fn line_start(text: &str, line: u64) -> usize {
    match usize::try_from(line).unwrap_or(usize::MAX) {
        0 | 1 => 0,
        line => text.match_indices('\n').nth(line - 2).map_or(text.len(), |(at, _)| at + 1),
    }
}

/// The first `most` bytes, at the edge of a character.
pub(super) fn clip(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(most)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_put_together_are_the_text() {
        let text = "αβγ\nline two\n\nlast without end";
        for most in 1..text.len() as u64 + 2 {
            let (mut whole, mut offset) = (String::new(), Some(0));
            while let Some(at) = offset {
                let part = cut(text, Place { offset: Some(at), max_bytes: most, ..Place::default() }).expect("a part");
                assert!(!part.text.is_empty(), "{most} at {at}");
                whole.push_str(&part.text);
                offset = part.next_offset;
            }
            assert_eq!(whole, text, "{most} bytes a time");
        }
    }

    #[test]
    fn lines_are_given_by_number_and_what_is_beyond_is_refused() {
        let text = "one\ntwo\nthree\nfour\n";
        let place = Place { from_line: Some(2), lines: Some(2), max_bytes: 1_000, ..Place::default() };
        let part = Part { text: "two\nthree\n".into(), from_line: 2, next_offset: Some(14) };
        assert_eq!(cut(text, place), Ok(part));
        let beyond = Place { from_line: Some(9), ..place };
        assert_eq!(cut(text, beyond), Err(RangeError::NoLine { line: 9, lines: 4 }));
        let beyond = Place { offset: Some(u64::MAX), ..Place::default() };
        assert_eq!(cut(text, beyond), Err(RangeError::NoByte { offset: u64::MAX, bytes: 19 }));
        assert_eq!(cut(text, Place { offset: Some(1), ..place }), Err(RangeError::Both));
        assert_eq!(
            cut("", Place { from_line: Some(1), max_bytes: 1, ..Place::default() }).map(|part| part.text),
            Ok(String::new())
        );
    }
}
