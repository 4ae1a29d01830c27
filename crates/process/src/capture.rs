//! Keeping the beginning and the end of something long, and saying how much is missing between them.

use std::collections::VecDeque;

/// Takes any number of bytes and keeps the first and the last of them.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    most_head: usize,
    most_tail: usize,
    total: u64,
}

/// What a capture kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end, as far as it is not in the beginning.
    pub tail: Vec<u8>,
    /// How many bytes between the two are missing.
    pub missing: u64,
}

impl Capture {
    /// Keeps at most `most` bytes: half from the beginning, half from the end.
    pub fn new(most: usize) -> Self {
        let most_tail = most / 2;
        Self { head: Vec::new(), tail: VecDeque::new(), most_head: most - most_tail, most_tail, total: 0 }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.most_head - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.most_tail)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.most_tail);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// The beginning, as far as it has come.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// What was kept.
    pub fn finish(self) -> Captured {
        let missing = self.total - (self.head.len() + self.tail.len()) as u64;
        Captured { head: self.head, tail: self.tail.into(), missing }
    }
}

/// How far from a cut the rest of a line is dropped: as long as a secret may be that the cut divides.
const NEAR_A_CUT: usize = 4096;

impl Captured {
    /// The same without the lines that are cut in two, so that no part of a secret in one of them is shown. Of a line that is
    /// very long only the part near the cut is dropped.
    pub fn whole_lines(mut self) -> Self {
        if self.missing == 0 {
            return self;
        }
        let near = self.head.len().saturating_sub(NEAR_A_CUT);
        let keep = self.head[near..].iter().rposition(|byte| *byte == b'\n').map_or(near, |at| near + at + 1);
        let far = self.tail.len().min(NEAR_A_CUT);
        let drop = self.tail[..far].iter().position(|byte| *byte == b'\n').map_or(far, |at| at + 1);
        self.missing += (self.head.len() - keep + drop) as u64;
        self.head.truncate(keep);
        self.tail.drain(..drop);
        self
    }

    /// As text. A line of its own says what is missing, and one at the end that bytes could not be shown.
    pub fn into_text(self) -> String {
        let Self { mut head, mut tail, missing } = self;
        if missing == 0 {
            head.append(&mut tail);
            return text(&head);
        }
        let whole = head.len();
        trim_end(&mut head);
        let broken = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let missing = missing + (whole - head.len() + broken) as u64;
        format!("{}\n[truncated: {missing} bytes omitted]\n{}", text(&head), text(&tail[broken..]))
    }
}

/// The text, or its beginning and end within `most` bytes with a line between that says how much is left out.
pub fn cut(text: &str, most: usize) -> String {
    let mut capture = Capture::new(most);
    capture.push(text.as_bytes());
    capture.finish().into_text()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes off a character that the limit cut in two.
fn trim_end(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_whole_in_any_pieces() {
        let mut capture = Capture::new(10);
        for piece in ["0", "123", "", "456789"] {
            capture.push(piece.as_bytes());
        }
        let captured = capture.finish();
        assert_eq!(captured.missing, 0);
        assert_eq!(captured.into_text(), "0123456789");
    }

    #[test]
    fn what_does_not_fit_loses_its_middle_and_says_how_much() {
        for size in [1, 3, 7, 1000] {
            let mut capture = Capture::new(10);
            let all: Vec<u8> = (b'a'..=b'z').collect();
            all.chunks(size).for_each(|piece| capture.push(piece));
            let captured = capture.finish();
            assert_eq!((&captured.head[..], &captured.tail[..], captured.missing), (&b"abcde"[..], &b"vwxyz"[..], 16));
            assert_eq!(captured.into_text(), "abcde\n[truncated: 16 bytes omitted]\nvwxyz");
        }
    }

    #[test]
    fn lines_that_a_cut_divides_can_be_dropped() {
        let mut capture = Capture::new(24);
        capture.push(b"one\ntwo-secret-two\n0123456789012345678901234567890\nsecret\nend\n");
        let captured = capture.finish().whole_lines();
        assert_eq!((&captured.head[..], &captured.tail[..]), (&b"one\n"[..], &b"secret\nend\n"[..]));
        assert_eq!(captured.missing, 47);
        let mut capture = Capture::new(20_000);
        capture.push(&[b'x'; 50_000]);
        let captured = capture.finish().whole_lines();
        assert_eq!((captured.head.len(), captured.tail.len(), captured.missing), (5_904, 5_904, 38_192));
    }

    #[test]
    fn no_character_is_cut_in_two() {
        assert_eq!(cut("ääääää", 6), "ä\n[truncated: 8 bytes omitted]\nä");
        assert_eq!(cut("abc", 3), "abc");
    }
}
