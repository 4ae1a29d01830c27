//! `list_memory`: keys of memory by prefix, page by page.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::memory::ListAsked;
use drawloom_wire::memory::{self, MemoryPage};

use crate::{
    memory::{Access, Meant, failure, meant, shown},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ListMemory;

impl Operation for ListMemory {
    type Input = memory::ListMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List memory keys with their values.", Scope::MemoryRead)
            .toolset("memory")
            .advice("Pass a prefix. If next is set, pass it as after to get the next page.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryPage>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Read).await?;
        let asked = ListAsked {
            prefix: input.prefix.unwrap_or_default(),
            after: input.after,
            limit: input.limit.unwrap_or(USUAL),
            bytes: Some(call.result_bytes.unwrap_or(PAGE_BYTES)).filter(|_| !input.keys_only),
        };
        let listed = call.app.memory.list(&place, &asked).await.map_err(failure)?;
        let entries = listed.entries.into_iter().map(|entry| {
            let mut entry = shown(entry);
            if input.keys_only {
                entry.value = None;
            }
            if !input.include_provenance {
                entry.provenance = None;
            }
            entry
        });
        let entries = entries.collect();
        Ok(Answer::Value(MemoryPage { entries, truncated: listed.next.is_some(), next: listed.next, warnings }))
    }
}

/// How many entries a page has, unless the request says otherwise.
const USUAL: u32 = 100;

/// Maximum bytes of the values of a page, where the surface has no bound of its own.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;
