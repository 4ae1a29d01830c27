//! Keeping the index in step with the values, later than their commits: adding words costs more than everything else that a commit
//! of a value does, and a value that is replaced soon need never be added.
//!
//! `value_revisions.indexed` says up to which revision the index has every value; the rest is found by revision, also after a crash.
//! An entry of the index whose value is gone has its revision in `value_words_gone`; a search leaves it out, since no value has
//! its revision any more. The writer catches up when it has nothing else to do, when much is left, and before a search.

use std::borrow::Cow;

use serde_json::Value;

use super::bigrams;
use crate::sqlite::{Connection, Result, values};

statements! {
    add: "INSERT INTO value_words (rowid, key, text) VALUES ($1, $2, $3)";
    remove: "DELETE FROM value_words WHERE rowid = $1";
    gone: "SELECT revision FROM value_words_gone ORDER BY revision LIMIT $1";
    forget_gone: "DELETE FROM value_words_gone WHERE revision <= $1";
    revisions: REVISIONS;
    after: "SELECT revision, key, value, searched FROM key_values INDEXED BY key_values_by_revision \
        WHERE revision > $1 AND searched <> 0 ORDER BY revision LIMIT $2";
    set_indexed: "UPDATE value_revisions SET indexed = $1 WHERE one = 1";
}

const REVISIONS: &str = "SELECT revision, indexed FROM value_revisions WHERE one = 1";

/// Values that one transaction adds at most, and removes at most: commits wait for it.
const AT_ONCE: usize = 1_024;

impl Writes<'_> {
    /// Brings the index closer to the values in the open transaction; says whether more is left. FTS5 writes everything that it
    /// holds to disk when a smaller id follows a larger one, so ids only increase.
    pub(crate) fn catch_up(&mut self) -> Result<bool> {
        let gone: Vec<u64> = self.gone.all(values![AT_ONCE], |row| row.get(0))?;
        for revision in &gone {
            self.remove.execute(values![*revision])?;
        }
        if let Some(last) = gone.last() {
            self.forget_gone.execute(values![*last])?;
        }
        let (newest, indexed) =
            self.revisions.first(&[], |row| Ok((row.get::<u64>(0)?, row.get::<u64>(1)?)))?.unwrap_or_default();
        if indexed == newest {
            return Ok(gone.len() == AT_ONCE);
        }
        let found = self.after.all(values![indexed, AT_ONCE], |row| {
            Ok((row.get::<u64>(0)?, row.get::<String>(1)?, words_of(row.get(2)?, row.get(3)?)))
        })?;
        for (revision, key, words) in &found {
            self.add.execute(values![*revision, &*bigrams::of_text(key), words])?;
        }
        let is_full = found.len() == AT_ONCE;
        let now = found.last().filter(|_| is_full).map_or(newest, |(revision, ..)| *revision);
        self.set_indexed.execute(values![now])?;
        Ok(is_full || gone.len() == AT_ONCE)
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_done(&mut self) -> Result<bool> {
        let is_current = self.revisions.first(&[], |row| Ok(row.get::<u64>(0)? == row.get::<u64>(1)?))?.unwrap_or(true);
        Ok(is_current && !self.gone.finds(values![1_u32])?)
    }
}

/// Whether the index has every value.
pub(crate) fn is_current(connection: &Connection) -> Result<bool> {
    let read = connection.prepare(REVISIONS)?.first(&[], |row| Ok(row.get::<u64>(0)? == row.get::<u64>(1)?));
    Ok(read?.unwrap_or(true))
}

/// Makes an index of all values for this connection alone, in memory, where the store's own is behind and cannot be written. A
/// temporary table hides the one of the same name.
pub(crate) fn index_own(connection: &Connection) -> Result<()> {
    connection.run(&format!("CREATE VIRTUAL TABLE temp.value_words USING fts5 ({})", super::FORM))?;
    let mut add = connection.prepare("INSERT INTO temp.value_words (rowid, key, text) VALUES ($1, $2, $3)")?;
    let mut values = connection.prepare(
        "SELECT revision, key, value, searched FROM key_values INDEXED BY key_values_by_revision \
        WHERE searched <> 0 ORDER BY revision",
    )?;
    values
        .all(&[], |row| {
            let words = words_of(row.get(2)?, row.get(3)?);
            add.execute(values![row.get::<u64>(0)?, &*bigrams::of_text(row.get::<&str>(1)?), &words])
        })
        .map(drop)
}

pub(crate) fn forget_own(connection: &Connection) -> Result<()> {
    connection.run("DROP TABLE temp.value_words")
}

/// The words of the part of a value that search finds. What cannot be read has none, so that it is in nobody's way.
fn words_of(text: &str, part: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let mut words = String::new();
    if let Some(part) = value.pointer(part) {
        collect(part, &mut words);
    }
    match bigrams::of_text(&words) {
        Cow::Owned(split) => split,
        Cow::Borrowed(_) => words,
    }
}

/// Every text, name and number in a value, one a line.
fn collect(value: &Value, words: &mut String) {
    let mut add = |text: &str| {
        words.push_str(text);
        words.push('\n');
    };
    match value {
        Value::Null => {}
        Value::Bool(flag) => add(if *flag { "true" } else { "false" }),
        Value::Number(number) => add(&number.to_string()),
        Value::String(text) => add(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(fields) => {
            for (name, value) in fields {
                words.push_str(name);
                words.push('\n');
                collect(value, words);
            }
        }
    }
}
