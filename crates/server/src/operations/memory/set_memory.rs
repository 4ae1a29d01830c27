//! `set_memory`: sets one key of memory.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::memory::rules::{Ask, Change};
use drawloom_wire::memory::{self, MemorySet};

use crate::{
    memory::{Access, Meant, answer, by, failure, meant},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct SetMemory;

impl Operation for SetMemory {
    type Input = memory::SetMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Set a memory key.", Scope::MemoryWrite)
            .toolset("memory")
            .advice("With if_revision, the key changes only if it has not changed since you read it.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemorySet>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Write).await?;
        let by = by(call, &input, &input.idempotency_key);
        let change = Change::Set(input.value);
        let ask = Ask { change, if_revision: input.if_revision, ttl_seconds: input.ttl_seconds };
        answer(call.app.memory.change(&place, &input.key, &ask, &by).await.map_err(failure)?, warnings)
    }
}
