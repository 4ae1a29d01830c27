//! How much of a query is searched for: a phrase of hundreds of words takes seconds.

use super::{Term, bigrams::is_dense};

/// Maximum words of all terms of a query. A character of a text without spaces is a word.
pub const MAX_QUERY_WORDS: usize = 64;

/// Leaves the first words of a query that count; says whether there were more.
pub fn limit_query(terms: &mut Vec<Term>) -> bool {
    let mut left = MAX_QUERY_WORDS;
    let mut is_cut = false;
    for term in terms.iter_mut() {
        if let Some(end) = end(&term.words, &mut left) {
            term.words.truncate(end);
            (term.is_prefix, is_cut) = (false, true);
        }
    }
    terms.retain(|term| !is_cut || term.words.chars().any(char::is_alphanumeric));
    is_cut
}

/// Where the words end for which nothing is left, if any.
fn end(words: &str, left: &mut usize) -> Option<usize> {
    let mut is_inside = false;
    for (at, sign) in words.char_indices() {
        let begins = is_dense(sign) || (sign.is_alphanumeric() && !is_inside);
        is_inside = sign.is_alphanumeric() && !is_dense(sign);
        if begins {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => return Some(at),
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(terms: &[String]) -> (Vec<String>, bool) {
        let mut terms: Vec<Term> = terms.iter().map(|words| Term { words: words.clone(), is_prefix: false }).collect();
        let is_cut = limit_query(&mut terms);
        (terms.into_iter().map(|term| term.words).collect(), is_cut)
    }

    #[test]
    fn the_words_of_all_terms_are_bounded_in_every_script() {
        let count = |words: &str| words.split_whitespace().count();
        let (found, is_cut) = limited(&["w ".repeat(500)]);
        assert_eq!((count(&found[0]), is_cut), (MAX_QUERY_WORDS, true));
        let (found, is_cut) = limited(&["a-".repeat(60), "b ".repeat(10), "c".into()]);
        assert_eq!((found.len(), count(&found[1]), is_cut), (2, 4, true));
        let (found, is_cut) = limited(&[format!("Rust {} and more", "中".repeat(500))]);
        assert_eq!((found[0].chars().filter(|sign| is_dense(*sign)).count(), is_cut), (MAX_QUERY_WORDS - 1, true));
        let most = vec!["Größe v2".to_owned(); MAX_QUERY_WORDS / 2];
        assert_eq!(limited(&most), (most.clone(), false));
    }
}
