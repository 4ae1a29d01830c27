//! Did-you-mean.

/// Longer words are not compared: they are no typos, and the comparison is quadratic.
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
