//! What comes closest to a text that is not there.

use drawloom_contract::redact::Redactor;

/// Most lines that are compared.
const MOST_LINES: usize = 20_000;

/// What to say about the line that comes closest to the first line of `wanted`, if one is close.
pub(super) fn describe(text: &str, wanted: &str, redactor: &Redactor) -> Option<String> {
    let wanted = wanted.lines().map(str::trim).find(|line| !line.is_empty())?;
    let lines = || text.lines().take(MOST_LINES).enumerate();
    if let Some((index, line)) = lines().find(|(_, line)| line.trim() == wanted) {
        return Some(format!(
            "line {} matches its first line, but the whitespace or the following lines differ: {line:?}",
            index + 1
        ));
    }
    let (score, index, line) = lines().map(|(index, line)| (likeness(line.trim(), wanted), index, line)).max_by_key(
        // Of equals the first.
        |(score, index, _)| (*score, usize::MAX - index),
    )?;
    // Half of it, or it is another line altogether.
    (score * 2 >= wanted.chars().count()).then(|| {
        let line = redactor.mask_part(line, 0..line.floor_char_boundary(200));
        format!("the closest match is line {}: {line:?}", index + 1)
    })
}

/// How many characters two lines share at their beginnings and ends.
fn likeness(left: &str, right: &str) -> usize {
    let shorter = left.chars().count().min(right.chars().count());
    let start = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
    let end = left.chars().rev().zip(right.chars().rev()).take_while(|(a, b)| a == b).count();
    (start + end).min(shorter)
}
