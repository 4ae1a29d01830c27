//! Words of texts that are written without spaces: Chinese, Japanese and Korean. A run of their characters is split into overlapping
//! pairs before it is indexed and searched, so every part of it of two or more characters is found.
//!
//! `東京都に住む` is indexed as `東京 京都 都に に住 住む む`. The last character stands alone at the end, so that every character of a
//! run begins a token: a query of one character is a prefix. A phrase in a query ends with the pair, so it also matches inside a run.

use std::borrow::Cow;

/// The first byte of the first of these characters in UTF-8; those of the others are not smaller.
const FIRST_BYTE: u8 = 0xe1;

/// Whether a character belongs to a script that is written without spaces, or whose words change at their ends (Korean).
pub(super) fn is_dense(sign: char) -> bool {
    matches!(sign,
        '\u{1100}'..='\u{11ff}' // Hangul letters
        | '\u{2e80}'..='\u{2fdf}' // radicals
        | '\u{3005}'..='\u{3007}' // iteration mark, zero
        | '\u{3041}'..='\u{3096}' // Hiragana
        | '\u{3099}'..='\u{309f}' // its marks
        | '\u{30a1}'..='\u{30fa}' // Katakana
        | '\u{30fc}'..='\u{30ff}' // its marks
        | '\u{3105}'..='\u{312f}' // Bopomofo
        | '\u{3131}'..='\u{318e}' // Hangul letters
        | '\u{31a0}'..='\u{31bf}' // Bopomofo
        | '\u{31f0}'..='\u{31ff}' // Katakana
        | '\u{3400}'..='\u{4dbf}' // Han
        | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{a960}'..='\u{a97c}' // Hangul letters
        | '\u{ac00}'..='\u{d7a3}' // Hangul
        | '\u{d7b0}'..='\u{d7fb}' // Hangul letters
        | '\u{f900}'..='\u{faff}' // Han
        | '\u{ff66}'..='\u{ff9f}' // narrow Katakana
        | '\u{20000}'..='\u{3ffff}' // Han
    )
}

/// A text as it is indexed.
pub(super) fn of_text(text: &str) -> Cow<'_, str> {
    split(text, Last::Alone)
}

/// Words of a query, and whether the last of them must be taken as the beginning of a token.
pub(super) fn of_query(words: &str) -> (Cow<'_, str>, bool) {
    let mut last = words.chars().rev().skip_while(|sign| !is_dense(*sign) && !sign.is_alphanumeric());
    let is_single = last.next().is_some_and(is_dense) && !last.next().is_some_and(is_dense);
    (split(words, Last::InPair), is_single)
}

/// What becomes of the last character of the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Alone,
    InPair,
}

fn split(text: &str, last: Last) -> Cow<'_, str> {
    // Most texts have no such character, which their bytes tell faster than their characters.
    if !text.bytes().any(|byte| byte >= FIRST_BYTE) || !text.chars().any(is_dense) {
        return Cow::Borrowed(text);
    }
    let mut split = String::with_capacity(text.len() * 2);
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        if !is_dense(sign) {
            split.push(sign);
            continue;
        }
        let mut run = vec![sign];
        while let Some(next) = signs.next_if(|next| is_dense(*next)) {
            run.push(next);
        }
        split.push(' ');
        for pair in run.windows(2) {
            split.extend(pair);
            split.push(' ');
        }
        // Behind it comes another word of the same phrase, if anything does.
        let is_inside = || signs.clone().any(char::is_alphanumeric);
        if run.len() == 1 || last == Last::Alone || is_inside() {
            split.extend(run.last());
            split.push(' ');
        }
    }
    Cow::Owned(split)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn runs_are_split_into_pairs_and_other_text_stays_as_it_is() {
        assert!(matches!(of_text("plain words"), Cow::Borrowed("plain words")));
        assert!(matches!(of_text("Größe, naïve, Привет"), Cow::Borrowed(_)));
        assert_eq!(words(&of_text("東京都に住む")), ["東京", "京都", "都に", "に住", "住む", "む"]);
        assert_eq!(words(&of_text("Rust言語 v2、한국어")), ["Rust", "言語", "語", "v2、", "한국", "국어", "어"]);
        assert_eq!(words(&of_text("字")), ["字"]);
    }

    #[test]
    fn a_query_ends_with_a_pair_unless_it_is_one_character() {
        let asked = |query: &'static str| {
            let (split, is_prefix) = of_query(query);
            (split.split_whitespace().collect::<Vec<_>>().join(" "), is_prefix)
        };
        assert_eq!(asked("京都"), ("京都".into(), false));
        assert_eq!(asked("京都に"), ("京都 都に".into(), false));
        assert_eq!(asked("都"), ("都".into(), true));
        assert_eq!(asked("Rust言語"), ("Rust 言語".into(), false));
        assert_eq!(asked("言語 Rust"), ("言語 語 Rust".into(), false));
        assert_eq!(asked("語。"), ("語 。".into(), true));
        assert_eq!(asked("lock"), ("lock".into(), false));
    }
}
