//! A Markdown file of an agent or a command, read whatever is wrong with it.

use std::path::Path;

use super::{FILE_LIMIT, read_limited};
use crate::frontmatter::Document;

/// A Markdown file that was read.
pub(super) struct Read {
    pub(super) document: Document,
    /// What was done to make it readable.
    pub(super) repairs: Vec<String>,
}

/// Reads a file, or says why it is left out.
pub(super) fn read(path: &Path) -> Result<Read, String> {
    let bytes = read_limited(path, FILE_LIMIT)?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("the file is empty".into());
    }
    let mut repairs = Vec::new();
    let text = match wide(&bytes) {
        Some(text) => {
            repairs.push("the file is UTF-16; it was read as that".to_owned());
            text
        }
        None => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                repairs.push("bytes that are not UTF-8 became \u{fffd}".to_owned());
                text
            }
        },
    };
    let text = match text.contains('\0') {
        true => {
            repairs.push("zero bytes were left out".to_owned());
            text.replace('\0', "")
        }
        false => text,
    };
    Ok(Read { document: Document::parse(&text), repairs })
}

/// The text of a file that begins with the byte order mark of UTF-16.
fn wide(bytes: &[u8]) -> Option<String> {
    let (order, rest) = bytes.split_at_checked(2)?;
    let unit: fn([u8; 2]) -> u16 = match order {
        [0xff, 0xfe] => u16::from_le_bytes,
        [0xfe, 0xff] => u16::from_be_bytes,
        _ => return None,
    };
    let units: Vec<u16> = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    Some(String::from_utf16_lossy(&units))
}
