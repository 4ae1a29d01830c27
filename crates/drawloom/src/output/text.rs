//! Texts of others, made fit to be shown: in one line, in so many columns, without what would move the cursor.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::safe::safe;

/// The first line of a text, cut to `most` columns, with `…` for what is left out.
pub fn first_line(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let more = line.len() < text.trim().len();
    let line = shown(line);
    match more && line.width() < most {
        true => format!("{line}…"),
        false if more => fit(&format!("{line}…"), most),
        false => fit(&line, most),
    }
}

/// The text cut to `most` columns, with `…` for what is left out. A character is never cut in two.
pub fn fit(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut width = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if width + wide > most.saturating_sub(1) {
            break;
        }
        width += wide;
        cut.push(character);
    }
    if most > 0 {
        cut.push('…');
    }
    cut
}

/// The end of the text in `most` columns, with `…` for what is left out: of a path, the end says most.
pub fn fit_end(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut width = 1;
    for character in text.chars().rev() {
        width += character.width().unwrap_or(0);
        if width > most {
            break;
        }
        kept.push(character);
    }
    if most > 0 {
        kept.push('…');
    }
    kept.iter().rev().collect()
}

/// The text as it is printed, with spaces for tabs: what measures or cuts a text does it after this.
pub fn shown(text: &str) -> String {
    safe(text).replace('\t', " ")
}

/// The text in lines of at most `width` columns, broken between words. Longer words stand alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_one_line_and_shows_that_it_was() {
        assert_eq!(first_line("\n  one line \n", 20), "one line");
        assert_eq!(first_line("one\ntwo", 20), "one…");
        assert_eq!(first_line("one\ntwo", 3), "on…");
        assert_eq!(first_line("abcdef", 4), "abc…");
        assert_eq!(first_line("", 3), "");
    }

    #[test]
    fn wide_characters_count_for_two_columns_and_are_never_cut() {
        assert_eq!(fit("织机织机", 8), "织机织机");
        assert_eq!(fit("织机织机", 6), "织机…");
        assert_eq!(fit("织机织机", 5), "织机…");
        assert_eq!(fit("織", 0), "");
        assert_eq!([fit_end("/a/long/path", 20), fit_end("/a/long/path", 6)], ["/a/long/path", "…/path"]);
        assert_eq!([fit_end("织机织机", 6), fit_end("织机", 0)], ["…织机", ""]);
        assert_eq!(fit("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(shown("a\x1b[2Jb\u{7}\tc\nd"), "a␛[2Jb␇ c\nd");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible x", 5), ["incomprehensible", "x"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
