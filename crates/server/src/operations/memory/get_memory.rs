//! `get_memory`: one key of memory.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::memory::{self, MemoryValue};

use crate::{
    memory::{Access, Meant, failure, meant, provenance},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct GetMemory;

impl Operation for GetMemory {
    type Input = memory::GetMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read a memory key.", Scope::MemoryRead)
            .toolset("memory")
            .advice("The scope says who shares it: user (you), agent, run (a tree of runs) or tenant (all users).")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryValue>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Read).await?;
        let found = call.app.memory.get(&place, &input.key).await.map_err(failure)?;
        Ok(Answer::Value(match found {
            None => {
                MemoryValue { found: false, value: None, revision: 0, expires_at: None, provenance: None, warnings }
            }
            Some(entry) => MemoryValue {
                found: true,
                provenance: Some(provenance(&entry)),
                revision: entry.revision,
                expires_at: entry.expires_at.map(|time| time.to_rfc3339()),
                value: Some(entry.value),
                warnings,
            },
        }))
    }
}
