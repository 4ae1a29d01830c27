//! Did-you-mean.

/// Longer words are not compared: nobody mistypes that much, and the comparison is quadratic.
const LONGEST: usize = 64;

/// The candidate that `word` is probably a typo of. Case and `-` for `_` make no difference.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |word: &str| word.to_lowercase().replace('-', "_");
    let allowed = match word.chars().count() {
        0..=3 => 1,
        4..=6 => 2,
        7..=LONGEST => 3,
        _ => return None,
    };
    let word = fold(word);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::osa_distance(&word, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_another_word_does_not() {
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
        for (typed, other) in [("b", "a"), ("Zsh", "Bash")] {
            assert_eq!(closest(typed, [other]), None, "{typed}");
        }
        assert_eq!(closest(&"x".repeat(10_000), words), None);
    }
}
