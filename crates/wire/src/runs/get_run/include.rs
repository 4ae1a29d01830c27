//! What answers about runs have only when they are asked for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A field of a run's result that is left out unless a request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// What the run was asked: all of it in the answer of one run, the first 200 bytes in lists.
    Prompt,
    /// The beginning of its id that no other run has.
    ShortId,
    /// Tokens, cost and number of the run with all its child runs. The answer of one run has it always.
    Tree,
}

/// The fewest hex digits of a short id.
const LEAST_DIGITS: usize = 8;

/// The hex digits of an id that are its time, in milliseconds.
const TIME_DIGITS: usize = 12;

/// How long runs may begin whose ids have the same first eight digits, in milliseconds.
const SAME_DIGITS_MS: u64 = 1 << 16;

/// The beginning of `id`, such as `r_01a1c3f8`, when `unique` digits of it tell it apart from others now. It stays unique: of a run
/// that began `age_ms` ago, so recently that others may still get the same digits, it has the whole time.
pub fn short_id(id: &str, unique: usize, age_ms: u64) -> String {
    let least = if age_ms < SAME_DIGITS_MS { TIME_DIGITS } else { LEAST_DIGITS };
    id.chars().take("r_".len() + unique.max(least)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_has_eight_digits_and_more_where_others_begin_the_same() {
        let id = "r_019a93b1c2d4e7f8091a2b3c4d5e6f70";
        assert_eq!(short_id(id, 3, 70_000), "r_019a93b1");
        assert_eq!(short_id(id, 10, 70_000), "r_019a93b1c2");
        assert_eq!(short_id(id, 40, 70_000), id);
        assert_eq!(short_id(id, 0, 1_000), "r_019a93b1c2d4", "the next run may have the same eight digits");
    }
}
