//! Did-you-mean.

/// Words longer than this are not compared: nobody mistypes that much, and the comparison is quadratic.
const LONGEST: usize = 64;

/// The candidate that `word` was probably meant to be.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length > LONGEST {
        return None;
    }
    let allowed = match length {
        0..=2 => 1,
        3..=6 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count().max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits between two words: insert, delete, replace, or swap of neighbours. Case and `-` for `_` cost nothing.
fn distance(left: &str, right: &str) -> usize {
    let fold = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    let left: Vec<char> = left.chars().map(fold).collect();
    let right: Vec<char> = right.chars().map(fold).collect();
    let mut before = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_a_stranger_finds_none() {
        let words = ["agent", "agent_id", "prompt", "tools"];
        for (typed, meant) in [
            ("agnet", Some("agent")),
            ("agentid", Some("agent_id")),
            ("agent-id", Some("agent_id")),
            ("promt", Some("prompt")),
            ("Tools", Some("tools")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, words), meant, "{typed}");
        }
        assert_eq!(closest(&"x".repeat(10_000), words), None);
    }
}
