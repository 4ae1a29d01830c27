//! Lines with their numbers, from files of any size with lines of any length.

use std::io::{self, BufRead, BufReader};

use drawloom_contract::redact::Redactor;

/// Most bytes of one line that are shown.
pub(crate) const LONGEST_LINE: usize = 4000;

/// Most bytes that a line is looked through for its end.
pub(crate) const MOST_LOOKED_THROUGH: u64 = 8 * 1024 * 1024;

/// Why there are no lines.
pub(super) enum Error {
    Io(io::Error),
    NotText(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// One line, as far as it is kept.
struct Line {
    kept: Vec<u8>,
    /// Where it starts in the file.
    start: u64,
    /// How long it is, without its end.
    length: u64,
    crlf: bool,
    end: End,
}

/// Where looking for a line's end stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Found,
    TooFar,
}

/// The file's lines.
struct Lines<R> {
    reader: BufReader<R>,
    at: u64,
}

impl<R: io::Read> Lines<R> {
    /// Line `number`, which is the next, with at most `keep` bytes of it; nothing at the end.
    fn next(&mut self, number: u64, keep: usize) -> Result<Option<Line>, Error> {
        let mut line = Line { kept: Vec::new(), start: self.at, length: 0, crlf: false, end: End::Found };
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok((line.length > 0).then_some(line));
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            if part.contains(&0) {
                return Err(Error::NotText(format!("binary file (line {number} contains a NUL byte)")));
            }
            line.kept.extend_from_slice(&part[..part.len().min(keep - line.kept.len())]);
            line.length += part.len() as u64;
            line.crlf = part.last().map_or(line.crlf, |byte| *byte == b'\r');
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            self.at += used as u64;
            if end.is_some() {
                return Ok(Some(line));
            }
            if line.length >= MOST_LOOKED_THROUGH {
                line.end = End::TooFar;
                return Ok(Some(line));
            }
        }
    }
}

/// From line `first` on, at most `limit` lines and `most` bytes, with a notice when that is not all.
pub(super) fn numbered(
    file: impl io::Read,
    first: u64,
    limit: u64,
    most: usize,
    redactor: &Redactor,
) -> Result<String, Error> {
    let mut lines = Lines { reader: BufReader::with_capacity(64 * 1024, file), at: 0 };
    let mut number = 0;
    while number + 1 < first {
        let Some(line) = lines.next(number + 1, 0)? else {
            return Ok(format!("[line {first} is out of range: the file has {number} lines]"));
        };
        number += 1;
        if line.end == End::TooFar {
            return Ok(too_far(number, &line));
        }
    }
    let (mut text, mut notices, mut crlf) = (String::new(), Vec::new(), false);
    let notice = loop {
        let Some(line) = lines.next(number + 1, LONGEST_LINE + redactor.reach())? else { break None };
        if number + 1 >= first.saturating_add(limit) {
            break Some(format!("[lines {first} to {number}; more follow: continue with offset={}]", number + 1));
        }
        let mut shown = shown(&line, number + 1)?;
        if shown.len() > LONGEST_LINE {
            shown = redactor.mask_part(&shown, 0..shown.floor_char_boundary(LONGEST_LINE));
        }
        if !text.is_empty() && text.len() + shown.len() + 8 > most {
            break Some(format!(
                "[truncated at {} KiB: lines {first} to {number}; continue with offset={}]",
                most / 1024,
                number + 1
            ));
        }
        number += 1;
        crlf |= line.crlf;
        if line.end == End::TooFar {
            text.push_str(&format!("{number:>6}\t{shown}\n"));
            break Some(too_far(number, &line));
        }
        if line.length > LONGEST_LINE as u64 {
            notices.push(format!(
                "[line {number} truncated: it has {} bytes; read all of it with bytes=true, offset={}]",
                line.length, line.start
            ));
        }
        text.push_str(&format!("{number:>6}\t{shown}\n"));
    };
    if number + 1 == first {
        return Ok(format!("[line {first} is out of range: the file has {number} lines]"));
    }
    if crlf {
        notices.push("[lines end with \\r\\n, which is not shown]".into());
    }
    notices.extend(notice);
    text.push_str(&notices.join("\n"));
    Ok(text.trim_end_matches('\n').to_owned())
}

/// What is said of a line whose end is too far away to be looked for.
fn too_far(number: u64, line: &Line) -> String {
    format!(
        "[line {number} does not end within {} MiB, so later lines are not found; continue with bytes=true, \
         offset={}]",
        MOST_LOOKED_THROUGH / 1024 / 1024,
        line.start
    )
}

/// A line as text, without a character that was cut in two.
fn shown(line: &Line, number: u64) -> Result<String, Error> {
    let cut = line.length > line.kept.len() as u64;
    let kept = line.kept.strip_suffix(b"\r").filter(|_| !cut).unwrap_or(&line.kept);
    match std::str::from_utf8(kept) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) if cut && error.error_len().is_none() => {
            Ok(String::from_utf8_lossy(&kept[..error.valid_up_to()]).into_owned())
        }
        Err(_) => Err(Error::NotText(format!("not UTF-8 text (line {number})"))),
    }
}
