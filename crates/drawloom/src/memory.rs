//! The search of memory, over the store's index of words.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    journal::StoreError,
    time::Timestamp,
    values::{Kept, MEMORY, ValueKey},
};
use drawloom_store::{MAX_QUERY_WORDS, Needs, Store, limit_query};
use drawloom_substrate::memory::{Fit, Search, Term, Terms};

pub(crate) struct StoreSearch(pub(crate) Arc<Store>);

#[async_trait]
impl Search for StoreSearch {
    async fn search_memory(&self, asked: &Terms<'_>, now: Timestamp) -> Result<Vec<(ValueKey, Kept, i64)>, StoreError> {
        let search = drawloom_store::Search {
            tenant: asked.tenant.clone(),
            space: MEMORY,
            owners: asked.owners.to_vec(),
            prefix: asked.prefix.to_owned(),
            terms: asked.terms.iter().map(stored).collect(),
            needs: match asked.fit {
                Fit::All => Needs::EveryTerm,
                Fit::Any => Needs::AnyTerm,
            },
            limit: asked.limit,
        };
        let hits = self.0.search(search, now).await?;
        Ok(hits.into_iter().map(|hit| (hit.key, hit.kept, hit.score)).collect())
    }

    fn limit(&self, terms: &mut Vec<Term>) -> Option<usize> {
        let mut limited: Vec<_> = terms.iter().map(stored).collect();
        let is_cut = limit_query(&mut limited);
        *terms = limited.into_iter().map(|term| Term { words: term.words, is_prefix: term.is_prefix }).collect();
        is_cut.then_some(MAX_QUERY_WORDS)
    }
}

fn stored(term: &Term) -> drawloom_store::Term {
    drawloom_store::Term { words: term.words.clone(), is_prefix: term.is_prefix }
}
