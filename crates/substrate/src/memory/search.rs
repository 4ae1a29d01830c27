//! Search: a query becomes terms, hits come best first, and what they show stays within a budget of bytes.

use async_trait::async_trait;
use drawloom_contract::{
    ids::Tenant,
    journal::StoreError,
    time::Timestamp,
    values::{Kept, ValueKey},
};

use super::{Entry, MemoryError, Place};

/// Maximum terms of a query; more are not looked at.
pub(super) const MOST_TERMS: usize = 32;

/// Full-text search of memory, which the store has.
#[async_trait]
pub trait Search: Send + Sync {
    /// Hits with their scores, best first, at most `limit`; without values whose time is over at `now`. Only of these owners
    /// of the tenant, and only keys that begin with `prefix`.
    async fn search_memory(&self, asked: &Terms<'_>, now: Timestamp) -> Result<Vec<(ValueKey, Kept, i64)>, StoreError>;

    /// Leaves the part of a query that is searched for. The answer is the maximum number of words when there were more.
    fn limit(&self, terms: &mut Vec<Term>) -> Option<usize>;
}

/// What the store is asked.
#[derive(Debug, Clone)]
pub struct Terms<'a> {
    pub tenant: &'a Tenant,
    pub owners: &'a [String],
    pub prefix: &'a str,
    pub terms: &'a [Term],
    /// Whether every term must be found, or one is enough.
    pub fit: Fit,
    pub limit: usize,
}

/// Words that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub words: String,
    /// Whether the last word may go on.
    pub is_prefix: bool,
}

/// What a query asks for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Words; "words in quotes" follow each other, `word*` may go on.
    pub query: String,
    pub prefix: String,
    pub limit: u32,
    /// Maximum bytes of the values that are shown.
    pub bytes: u64,
}

/// How hits fit the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Each has every term.
    All,
    /// No entry has every term; these have some.
    Any,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub place: Place,
    pub entry: Entry,
    /// How well it fits; higher is better.
    pub score: f64,
    /// Bytes of the value as JSON.
    pub bytes: u64,
    /// Whether the value is left out, because it does not fit the budget.
    pub omitted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hits {
    pub hits: Vec<Hit>,
    pub fit: Fit,
    /// Whether there are more hits than the limit.
    pub truncated: bool,
    /// What the reader should know of the query.
    pub warning: Option<String>,
}

pub(super) async fn search(
    index: &dyn Search,
    places: &[Place],
    asked: &Asked,
    now: Timestamp,
) -> Result<Hits, MemoryError> {
    let mut terms = terms(&asked.query);
    if terms.is_empty() {
        return Err(MemoryError::NoWords(asked.query.chars().take(80).collect()));
    }
    if terms.len() > MOST_TERMS {
        return Err(MemoryError::TooManyWords(terms.len()));
    }
    let warning = index.limit(&mut terms).map(|most| {
        format!("only the first {most} words of the query were searched for; each Chinese, Japanese or Korean character counts as a word")
    });
    let mut hits = Hits { hits: Vec::new(), fit: Fit::All, truncated: false, warning };
    let Some(first) = places.first() else { return Ok(hits) };
    let owners: Vec<String> = places.iter().map(Place::owner).collect();
    let limit = asked.limit as usize;
    let mut question = Terms {
        tenant: first.tenant(),
        owners: &owners,
        prefix: &asked.prefix,
        terms: &terms,
        fit: Fit::All,
        limit: limit + 1,
    };
    let mut found = index.search_memory(&question, now).await?;
    if found.is_empty() && terms.len() > 1 {
        question.fit = Fit::Any;
        found = index.search_memory(&question, now).await?;
        hits.fit = Fit::Any;
    }
    hits.truncated = found.len() > limit;
    let mut left = asked.bytes;
    for (key, kept, score) in found.into_iter().take(limit) {
        let place = owners.iter().position(|owner| *owner == key.owner).map(|at| places[at].clone());
        let Some(place) = place else { continue };
        let mut entry = Entry::read(key.key, kept)?;
        let bytes = entry.value.to_string().len() as u64;
        let omitted = bytes > left;
        match omitted {
            true => entry.value = serde_json::Value::Null,
            false => left -= bytes,
        }
        hits.hits.push(Hit { place, entry, score: score as f64 / 1e6, bytes, omitted });
    }
    Ok(hits)
}

/// The terms of a query. No sign in it is an error: those without letters or digits are left out.
fn terms(query: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    for (number, part) in query.split('"').enumerate() {
        // Every second part was in quotes.
        let pieces: Vec<&str> = if number % 2 == 1 { vec![part] } else { part.split_whitespace().collect() };
        for piece in pieces {
            let is_prefix = number % 2 == 0 && piece.ends_with('*');
            if piece.chars().any(char::is_alphanumeric) {
                terms.push(Term { words: piece.trim_end_matches('*').to_owned(), is_prefix });
            }
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_words_phrases_and_prefixes_and_never_an_error() {
        let term = |words: &str, is_prefix| Term { words: words.into(), is_prefix };
        assert_eq!(
            terms("lock  \"two words\" time*"),
            [term("lock", false), term("two words", false), term("time", true)]
        );
        assert_eq!(
            terms("a AND (b OR -c) NEAR/3 \"open"),
            [
                term("a", false),
                term("AND", false),
                term("(b", false),
                term("OR", false),
                term("-c)", false),
                term("NEAR/3", false),
                term("open", false),
            ]
        );
        assert_eq!(terms(" \"\" * -- \"**\" "), []);
    }
}
