//! Hints for unknown names.

use drawloom_contract::suggest::closest;

/// A hint for an unknown name: the closest known one, else all of them.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    match closest(word, known.iter().copied()) {
        Some(name) => Some(format!("did you mean {name:?}?")),
        None if known.is_empty() => None,
        None => Some(format!("available: {}", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_gets_its_name_and_another_word_gets_all_names() {
        let known = ["Read", "Write", "Agent"];
        for (typed, meant) in [("Raed", "Read"), ("write", "Write"), ("Agnet", "Agent"), ("Wriet", "Write")] {
            assert_eq!(did_you_mean(typed, known), Some(format!("did you mean {meant:?}?")), "{typed}");
        }
        assert_eq!(did_you_mean("Bash", known).as_deref(), Some("available: Read, Write, Agent"));
        assert_eq!(did_you_mean("x", []), None);
    }
}
