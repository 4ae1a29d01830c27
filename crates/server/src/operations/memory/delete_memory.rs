//! `delete_memory`: removes one key of memory.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::memory::rules::{Ask, Change};
use drawloom_wire::memory::{self, MemoryDeleted};

use crate::{
    memory::{Access, Meant, answer, by, failure, meant},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct DeleteMemory;

impl Operation for DeleteMemory {
    type Input = memory::DeleteMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Delete a memory key.", Scope::MemoryWrite).toolset("memory").destructive().stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryDeleted>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Remove).await?;
        let by = by(call, &input, &input.idempotency_key);
        let ask = Ask { change: Change::Delete, if_revision: input.if_revision, ttl_seconds: None };
        answer(call.app.memory.change(&place, &input.key, &ask, &by).await.map_err(failure)?, warnings)
    }
}
