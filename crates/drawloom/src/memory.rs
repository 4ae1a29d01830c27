//! The search of memory, over the store's index of words.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    journal::StoreError,
    time::Timestamp,
    values::{Kept, MEMORY, ValueKey},
};
use drawloom_store::{Needs, Store};
use drawloom_substrate::memory::{Fit, Search, Terms};

pub(crate) struct StoreSearch(pub(crate) Arc<Store>);

#[async_trait]
impl Search for StoreSearch {
    async fn search_memory(&self, asked: &Terms<'_>, now: Timestamp) -> Result<Vec<(ValueKey, Kept, i64)>, StoreError> {
        let term = |term: &drawloom_substrate::memory::Term| drawloom_store::Term {
            words: term.words.clone(),
            is_prefix: term.is_prefix,
        };
        let search = drawloom_store::Search {
            tenant: asked.tenant.clone(),
            space: MEMORY,
            owners: asked.owners.to_vec(),
            prefix: asked.prefix.to_owned(),
            terms: asked.terms.iter().map(term).collect(),
            needs: match asked.fit {
                Fit::All => Needs::EveryTerm,
                Fit::Any => Needs::AnyTerm,
            },
            limit: asked.limit,
        };
        let hits = self.0.search(search, now).await?;
        Ok(hits.into_iter().map(|hit| (hit.key, hit.kept, hit.score)).collect())
    }
}
