//! What may reach a terminal. Every text that is printed or logged passes here, whoever wrote it, so that no text of a model, a
//! file or a name can move the cursor, set a title, write to the clipboard or change the order in which it is read.
//!
//! Styles are marks inside a text until it is printed. Only this module turns them into escape sequences, so an escape
//! sequence that a text brings along is never one of ours.

use std::{
    borrow::Cow,
    fmt::Write as _,
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use unicode_width::UnicodeWidthChar as _;

use super::Style;

/// Stands for a character that has no picture of its own.
const REPLACEMENT: char = '\u{fffd}';

/// The first of the characters that mark styles. It is another one in each process, so that a text cannot contain marks.
static FIRST_MARK: LazyLock<u32> = LazyLock::new(|| {
    let random = u32::try_from(RandomState::new().hash_one(0) % 0xfff0).unwrap_or_default();
    // Plane 16 is for private use, and has 0xfffe characters.
    0x10_0000 + random
});

/// What the marks after the first one stand for.
const CODES: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[33m"];

/// Whether a terminal could obey this character, or show another text because of it: control characters but line ends and tabs,
/// what changes the direction of text, what is not visible at all, and Unicode's further line ends. Joiners stay, which scripts and
/// emoji need.
pub(crate) fn is_unsafe(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}'
            | '\u{b}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// The text with a visible sign for each character that is not safe, such as `␛`. A carriage return before a line end is left out.
pub(super) fn safe(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            character if is_unsafe(character) => safe.push(picture(character)),
            character => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// JSON with escapes for the characters that are not safe. They occur only inside its strings.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    let is_inside = |character: char| is_unsafe(character) && !matches!(character, '\n' | '\r' | '\t');
    if !json.chars().any(is_inside) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match is_inside(character) {
            true => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(safe, "\\u{unit:04x}")),
            false => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// The text between marks of a style.
pub(crate) fn mark(style: Style, text: &str) -> String {
    let place = match style {
        Style::Plain => return text.to_owned(),
        Style::Bold => 1,
        Style::Dim => 2,
        Style::Good => 3,
        Style::Bad => 4,
        Style::Notice => 5,
    };
    format!("{}{text}{}", mark_of(place), mark_of(0))
}

/// The text for a terminal or a file: safe, with escape sequences for marks.
pub(crate) fn printed(text: &str) -> Cow<'_, str> {
    let safe = safe(text);
    if !safe.contains(is_mark) {
        return safe;
    }
    let mut printed = String::with_capacity(safe.len() + 16);
    for character in safe.chars() {
        match place_of(character) {
            Some(place) => printed.push_str(CODES[place]),
            None => printed.push(character),
        }
    }
    Cow::Owned(printed)
}

/// How many columns a text with marks takes.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().filter(|character| !is_mark(*character)).map(|character| character.width().unwrap_or(0)).sum()
}

fn mark_of(place: u32) -> char {
    char::from_u32(*FIRST_MARK + place).unwrap_or(REPLACEMENT)
}

fn place_of(character: char) -> Option<usize> {
    let place = usize::try_from(u32::from(character).checked_sub(*FIRST_MARK)?).ok()?;
    (place < CODES.len()).then_some(place)
}

fn is_mark(character: char) -> bool {
    place_of(character).is_some()
}

fn picture(character: char) -> char {
    match u32::from(character) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(REPLACEMENT),
        0x7f => '␡',
        _ => REPLACEMENT,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_that_a_terminal_would_obey_become_visible() {
        assert_eq!(safe("a\x1b[2J\u{7}\u{9b}31m\u{202e}b\u{7f}\r\nc\rd\te"), "a␛[2J␇\u{fffd}31m\u{fffd}b␡\nc␍d\te");
        assert_eq!(safe("👩\u{200d}💻 \u{627}\u{644} e\u{301}"), "👩\u{200d}💻 \u{627}\u{644} e\u{301}");
    }

    #[test]
    fn json_keeps_every_character_as_an_escape() {
        let value = serde_json::json!({ "a\u{202e}": "\x1b]0;t\u{7}\u{9b}\u{7f}\u{2028}\u{e0041}\n" });
        let safe = safe_json(&serde_json::to_string_pretty(&value).expect("JSON")).into_owned();
        assert!(!safe.chars().any(is_unsafe), "{safe:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).expect("JSON"), value);
    }

    #[test]
    fn styles_become_escape_sequences_only_when_they_are_printed() {
        let marked = format!("{} {}", mark(Style::Bad, "error:"), "\x1b[32mfine\x1b[0m");
        assert!(!mark(Style::Bad, "x").contains('\x1b'));
        assert_eq!(printed(&marked), "\x1b[31merror:\x1b[0m ␛[32mfine␛[0m");
        assert_eq!([columns(&mark(Style::Bad, "error:")), columns("織機")], [6, 4]);
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_printed(text in "(\\PC|\\pC|[\x00-\x1f\u{7f}-\u{9f}\u{200b}-\u{202e}\u{2060}-\u{206f}]){0,40}") {
            let printed = printed(&text).into_owned();
            prop_assert!(!printed.chars().any(is_unsafe), "{printed:?}");
            prop_assert_eq!(safe(&printed), printed.as_str());
        }
    }
}
