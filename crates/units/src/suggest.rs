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

/// The field or variant that was probably meant, if serde's message says that one is unknown and lists the known ones.
pub fn meant(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (word, known) = rest.split_once("`, expected ")?;
    closest(word, known.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Input {
        #[expect(dead_code, reason = "only its name matters")]
        source: Option<Op>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Op {
        ListForRun,
        Get,
    }

    #[test]
    fn an_unknown_field_or_variant_gets_the_nearest_known_one() {
        let said = |input: &str| serde_json::from_str::<Input>(input).expect_err("it is unknown").to_string();
        assert_eq!(meant(&said(r#"{ "sorce": 1 }"#)), Some("source"));
        assert_eq!(meant(&said(r#"{ "other": 1 }"#)), None);
        assert_eq!(meant(&said(r#"{ "source": "list_for_runs" }"#)), Some("list_for_run"));
        assert_eq!(meant(&said(r#"{ "source": 1 }"#)), None);
    }
}
