//! Which known name somebody may have meant.

/// The known name that is closest to `word`, when it is close enough to be a slip: at most a third of it is different.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&word.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= limit && *distance < name.chars().count())
        .min()
        .map(|(_, name)| name)
}

/// A hint for an unknown name: the nearest known one, else all there are.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(name) => Some(format!("did you mean {name:?}?")),
        None if known.is_empty() => None,
        None => Some(format!("there are {}", known.join(", "))),
    }
}

/// How many characters must be added, taken away, changed, or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in right.iter().enumerate() {
            let change = last[column] + usize::from(a != b);
            let mut best = change.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *a == right[column - 1] && left[row - 1] == *b {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_does_not() {
        let known = ["Read", "Write", "Agent"];
        assert_eq!(nearest("Raed", known), Some("Read"));
        assert_eq!(nearest("write", known), Some("Write"));
        assert_eq!(nearest("Agnet", known), Some("Agent"));
        assert_eq!(nearest("Bash", known), None);
        assert_eq!(nearest("b", ["a"]), None);
        assert_eq!(did_you_mean("Bash", known).as_deref(), Some("there are Read, Write, Agent"));
        assert_eq!(did_you_mean("Wriet", known).as_deref(), Some("did you mean \"Write\"?"));
        assert_eq!(did_you_mean("x", []), None);
    }
}
