//! How well an entry fits a query, from the entries of the searched owners alone.
//!
//! FTS5 ranks with BM25 over its whole table, which holds every tenant: its scores would tell how often others use a word. So only
//! the part of its answer that concerns the entry is taken, how often a term occurs in it, and BM25 is computed again with the
//! numbers of the owners.

use std::collections::BTreeMap;

use crate::sqlite::{Connection, Result, Value, values};

/// How soon more occurrences of a term stop to matter, and how much the length of an entry matters: the usual numbers of BM25,
/// which FTS5 has too.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// Words of the key count twice.
const WEIGHTS: &str = "2.0, 1.0";
const DOUBLE_WEIGHTS: &str = "4.0, 2.0";

/// Tokens of all entries of the index and their count: the numbers that FTS5's own BM25 uses.
#[derive(Debug, Clone, Copy)]
struct Whole {
    rows: f64,
    tokens: f64,
}

/// What one search knows about the owners.
pub(super) struct Owners {
    /// Their entries.
    pub(super) entries: f64,
    /// Average tokens of the entries that fit the query.
    pub(super) length: f64,
}

impl Owners {
    /// How much a term weighs that `entries` of the owners have: rare ones weigh more. Never below zero.
    pub(super) fn weight(&self, entries: f64) -> f64 {
        ((self.entries.max(entries) - entries + 0.5) / (entries + 0.5)).ln_1p()
    }

    /// BM25 of one term in one entry.
    pub(super) fn score(&self, weight: f64, occurrences: f64, tokens: f64) -> f64 {
        weight * occurrences * (SATURATION + 1.0) / (occurrences + damping(tokens, self.length))
    }
}

/// What makes many occurrences count less, and those in a long entry.
fn damping(tokens: f64, average: f64) -> f64 {
    SATURATION * (1.0 - LENGTH + LENGTH * tokens / average.max(f64::MIN_POSITIVE))
}

/// How often `query`, one term, occurs in those of the entries `ids` that have it, by revision. `tokens` has their lengths.
pub(super) fn occurrences(
    connection: &Connection,
    query: &str,
    ids: &str,
    tokens: &BTreeMap<u64, f64>,
) -> Result<BTreeMap<u64, f64>> {
    let Some(whole) = whole(connection)? else { return Ok(BTreeMap::new()) };
    // The plus keeps the list out of the index's query, which would be begun anew for each of them.
    let text = format!(
        "SELECT rowid, bm25(value_words, {WEIGHTS}), bm25(value_words, {DOUBLE_WEIGHTS}) FROM value_words \
         WHERE value_words MATCH $1 AND +rowid IN (SELECT value FROM json_each($2))"
    );
    let found = connection.prepare(&text)?.all(values![query, ids], |row| {
        let id: u64 = row.get(0)?;
        let average = whole.tokens / whole.rows;
        let tokens = tokens.get(&id).copied().unwrap_or(average);
        Ok((id, undo(row.get(1)?, row.get(2)?, damping(tokens, average))))
    })?;
    Ok(found.into_iter().collect())
}

/// The occurrences that FTS5 computed a score from: `once` is w·f / (f + d), and `twice` is w·2f / (2f + d), with the same
/// unknown w.
fn undo(once: f64, twice: f64, damping: f64) -> f64 {
    let share = (twice - once) / (once - twice / 2.0);
    (damping / share).round().max(1.0)
}

/// FTS5 keeps its totals in the first block: the count of rows, then the tokens of each column.
fn whole(connection: &Connection) -> Result<Option<Whole>> {
    let block = "SELECT block FROM value_words_data WHERE id = 1";
    connection.prepare(block)?.first(&[], |row| {
        let mut numbers = varints(row.get(0)?);
        let rows = numbers.next().unwrap_or(0) as f64;
        Ok(Whole { rows: rows.max(1.0), tokens: numbers.map(|tokens| tokens as f64).sum() })
    })
}

/// The tokens of a row, as FTS5 keeps them: a number for each column.
pub(super) fn tokens(sizes: &[u8]) -> f64 {
    varints(sizes).map(|tokens| tokens as f64).sum()
}

/// The numbers of SQLite's file format: seven bits in a byte, the highest first; the ninth byte has eight.
fn varints(mut bytes: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let mut number = 0_u64;
        for place in 1..=9 {
            let (first, rest) = bytes.split_first()?;
            bytes = rest;
            match place {
                9 => number = number << 8 | u64::from(*first),
                _ => number = number << 7 | u64::from(first & 0x7f),
            }
            if first & 0x80 == 0 {
                break;
            }
        }
        Some(number)
    })
}

/// Most entries of the owners that are counted for one of several terms: enough to know that a word is common.
const MOST_COUNTED: i64 = 10_000;

/// How many entries of the owners have a term. `join` restricts the index to them.
pub(super) fn count(connection: &Connection, join: &str, parameters: &[Value<'_>]) -> Result<f64> {
    let text = format!("SELECT count(*) FROM (SELECT 1 FROM {join} LIMIT {MOST_COUNTED})");
    let count = connection.prepare(&text)?.first(parameters, |row| row.get::<u64>(0))?;
    Ok(count.unwrap_or(0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_file_format_are_read() {
        let read = |bytes: &'static [u8]| varints(bytes).collect::<Vec<_>>();
        assert_eq!(read(&[0x00, 0x7f, 0x81, 0x00, 0x82, 0x80, 0x01]), [0, 127, 128, 32_769]);
        assert_eq!(read(&[0xff; 9]), [u64::MAX]);
        assert_eq!(read(&[0x81]), [0; 0], "cut off");
    }

    #[test]
    fn occurrences_come_out_of_two_scores() {
        for (weight, occurrences, damping) in [(3.5, 1.0, 1.9), (1e-6, 3.0, 0.31), (12.0, 5_000.0, 800.0)] {
            let score = |times: f64| weight * times * occurrences / (times * occurrences + damping);
            assert_eq!(undo(-score(1.0), -score(2.0), damping), occurrences);
        }
    }
}
