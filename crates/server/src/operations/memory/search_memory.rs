//! `search_memory`: entries of memory by their words, best first.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::memory::{Asked, Fit};
use drawloom_wire::memory::{self, MemoryHit, MemoryHits};

use crate::{
    memory::{Access, Meant, failure, meant, shown},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct SearchMemory;

impl Operation for SearchMemory {
    type Input = memory::SearchMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Find memory entries by words, best match first.", Scope::MemoryRead)
            .toolset("memory")
            .advice("Values that do not fit into max_bytes are left out; read them with get_memory.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryHits>, Failure> {
        let Meant { place, mut warnings } = meant(call, &input, Access::Read).await?;
        let memory = &call.app.memory;
        let bytes = input.max_bytes.unwrap_or(memory.config().search_bytes);
        let asked = Asked {
            query: input.query,
            prefix: input.prefix.unwrap_or_default(),
            limit: input.limit.unwrap_or(USUAL),
            bytes: call.result_bytes.map_or(bytes, |most| bytes.min(most)),
        };
        let hits = memory.search(&[place], &asked).await.map_err(failure)?;
        warnings.extend(hits.warning);
        let entries = hits.hits.into_iter().map(|hit| {
            let mut entry = shown(hit.entry);
            if hit.omitted {
                entry.value = None;
            }
            MemoryHit { entry, score: hit.score, omitted_bytes: hit.omitted.then_some(hit.bytes) }
        });
        let entries = entries.collect();
        Ok(Answer::Value(MemoryHits { entries, truncated: hits.truncated, all_words: hits.fit == Fit::All, warnings }))
    }
}

/// How many hits a search has, unless the request says otherwise.
const USUAL: u32 = 10;
