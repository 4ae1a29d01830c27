//! Full-text search of values. A row's id is the revision of the value that it is about; the index keeps no text of its own.
//!
//! A commit of a value does not touch the index: see `index.rs`.

mod bigrams;
mod index;
mod limit;
mod score;

use std::collections::BTreeMap;

use drawloom_contract::{
    ids::Tenant,
    time::Timestamp,
    values::{Kept, Space, ValueKey},
};

#[cfg(test)]
pub(crate) use self::index::texts;
pub(crate) use self::index::{Writes, forget_own, index_own, is_current};
pub use self::limit::{MAX_QUERY_WORDS, limit_query};
use self::score::Owners;
use super::{Step, values as key_values};
use crate::sqlite::{Connection, Result, Value};

pub(crate) const STEPS: &[Step] = &[
    (
        8,
        "CREATE VIRTUAL TABLE value_words USING fts5 (
        key, text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
    );",
    ),
    // Revisions whose values are gone and whose words are still in the index.
    (10, "CREATE TABLE value_words_gone (revision INTEGER PRIMARY KEY);"),
    // Texts without spaces are indexed otherwise now, so every value is indexed again.
    (
        11,
        "INSERT INTO value_words (value_words) VALUES ('delete-all');
        DELETE FROM value_words_gone;
        UPDATE value_revisions SET indexed = 0 WHERE one = 1;",
    ),
];

/// What kind of index it is.
const FORM: &str = "key, text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'";

/// What to look for.
#[derive(Debug, Clone)]
pub struct Search {
    pub tenant: Tenant,
    pub space: Space,
    /// Only values of these owners.
    pub owners: Vec<String>,
    /// Only keys that begin with this.
    pub prefix: String,
    pub terms: Vec<Term>,
    pub needs: Needs,
    /// At most this many hits.
    pub limit: usize,
}

/// One or more words that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub words: String,
    /// Whether the last word may go on.
    pub is_prefix: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    EveryTerm,
    AnyTerm,
}

#[derive(Debug, Clone)]
pub struct Hit {
    pub key: ValueKey,
    pub kept: Kept,
    /// How well it fits, in millionths; higher is better.
    pub score: i64,
}

/// An entry that fits, before it is read.
struct Candidate {
    owner: String,
    key: String,
    score: f64,
}

/// Hits, best first, without values whose time is over at `now`. A score depends on nothing but entries of the owners.
pub(crate) fn search(connection: &Connection, search: &Search, now: Timestamp) -> Result<Vec<Hit>> {
    let mut search = search.clone();
    limit_query(&mut search.terms);
    let Some(query) = query(&search.terms, search.needs) else { return Ok(Vec::new()) };
    if search.owners.is_empty() || search.limit == 0 {
        return Ok(Vec::new());
    }
    let mut candidates: Vec<Candidate> = rank(connection, &search, &query)?;
    candidates.sort_by(|left, right| {
        let rest = || (&left.key, &left.owner).cmp(&(&right.key, &right.owner));
        right.score.total_cmp(&left.score).then_with(rest)
    });
    let mut hits = Vec::new();
    for Candidate { owner, key, score } in candidates.into_iter().filter(|one| one.key.starts_with(&search.prefix)) {
        let key = ValueKey { tenant: search.tenant.clone(), space: search.space.clone(), owner, key };
        let Some(kept) = key_values::find(connection, &key, now)? else { continue };
        hits.push(Hit { key, kept, score: (score * 1e6).round() as i64 });
        if hits.len() == search.limit {
            break;
        }
    }
    Ok(hits)
}

/// Every entry of the owners that fits `whole`, with its score.
fn rank(connection: &Connection, search: &Search, whole: &str) -> Result<Vec<Candidate>> {
    // The index of revisions has everything of a value's key, so values are read only for hits that are shown. The
    // join's order is fixed: the words come first.
    let owners = numbered(4, search.owners.len());
    let join = format!(
        "value_words CROSS JOIN key_values AS k INDEXED BY key_values_by_revision ON k.revision = value_words.rowid \
         WHERE value_words MATCH $1 AND k.space = $2 AND k.tenant = $3 AND k.owner IN ({owners})"
    );
    let parameters = |query: &str| {
        let start = [query.to_owned().into(), search.space.as_str().into(), (&search.tenant).into()];
        start.into_iter().chain(search.owners.iter().map(Value::from)).collect::<Vec<Value<'_>>>()
    };
    let sizes = "(SELECT sz FROM value_words_docsize WHERE id = k.revision)";
    let mut candidates = BTreeMap::new();
    let mut tokens = BTreeMap::new();
    let text = format!("SELECT k.revision, k.owner, k.key, {sizes} FROM {join}");
    for (id, candidate, length) in connection.prepare(&text)?.all(&parameters(whole), |row| {
        let candidate = Candidate { owner: row.get(1)?, key: row.get(2)?, score: 0.0 };
        Ok((row.get::<u64>(0)?, candidate, row.get::<Option<&[u8]>>(3)?.map_or(0.0, score::tokens)))
    })? {
        candidates.insert(id, candidate);
        tokens.insert(id, length);
    }
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let known =
        Owners { entries: entries(connection, search)?, length: tokens.values().sum::<f64>() / tokens.len() as f64 };
    let ids = format!("[{}]", candidates.keys().map(u64::to_string).collect::<Vec<_>>().join(","));
    for term in search.terms.iter().filter_map(|term| query(std::slice::from_ref(term), Needs::AnyTerm)) {
        let occurrences = score::occurrences(connection, &term, &ids, &tokens)?;
        let entries = match search.needs {
            Needs::EveryTerm if search.terms.len() > 1 => score::count(connection, &join, &parameters(&term))?,
            Needs::EveryTerm | Needs::AnyTerm => occurrences.len() as f64,
        };
        let weight = known.weight(entries);
        for (id, occurrences) in occurrences {
            if let Some((candidate, length)) = candidates.get_mut(&id).zip(tokens.get(&id)) {
                candidate.score += known.score(weight, occurrences, *length);
            }
        }
    }
    Ok(candidates.into_values().collect())
}

/// How many entries the owners have.
fn entries(connection: &Connection, search: &Search) -> Result<f64> {
    let owners = numbered(3, search.owners.len());
    let text = format!(
        "SELECT coalesce(sum(keys), 0) FROM value_owners WHERE space = $1 AND tenant = $2 AND owner IN ({owners})"
    );
    let mut parameters: Vec<Value<'_>> = vec![search.space.as_str().into(), (&search.tenant).into()];
    parameters.extend(search.owners.iter().map(Value::from));
    Ok(connection.prepare(&text)?.first(&parameters, |row| row.get::<u64>(0))?.unwrap_or(0) as f64)
}

/// Parameters `$first` and so on, for a list in a statement.
fn numbered(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// The terms in the index's own language. Each is quoted, so nothing in it is an operator; one without letters or digits has
/// no words, and is left out.
fn query(terms: &[Term], needs: Needs) -> Option<String> {
    let quoted = terms.iter().filter(|term| term.words.chars().any(char::is_alphanumeric)).map(|term| {
        let plain: String =
            term.words.chars().map(|sign| if sign == '"' || sign.is_control() { ' ' } else { sign }).collect();
        let (words, is_begun) = bigrams::of_query(&plain);
        format!("\"{words}\"{}", if term.is_prefix || is_begun { " *" } else { "" })
    });
    let quoted: Vec<String> = quoted.collect();
    let operator = match needs {
        Needs::EveryTerm => " AND ",
        Needs::AnyTerm => " OR ",
    };
    (!quoted.is_empty()).then(|| quoted.join(operator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_quoted_and_those_without_words_are_left_out() {
        let term = |words: &str, is_prefix| Term { words: words.into(), is_prefix };
        let terms = [term("say \"hi\" OR", false), term("--", false), term("walk", true)];
        assert_eq!(query(&terms, Needs::EveryTerm).as_deref(), Some("\"say  hi  OR\" AND \"walk\" *"));
        assert_eq!(query(&terms[1..2], Needs::AnyTerm), None);
        assert_eq!(query(&[term("京都に", false)], Needs::AnyTerm).as_deref(), Some("\" 京都 都に \""));
        assert_eq!(query(&[term("都", false)], Needs::AnyTerm).as_deref(), Some("\" 都 \" *"));
    }
}
