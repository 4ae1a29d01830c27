//! `change_memory`: changes what a key holds, by what it holds.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_substrate::memory::rules::{Ask, Change};
use drawloom_wire::memory::{self, MemoryChanged, MemoryOp};

use crate::{
    memory::{Access, Meant, answer, by, failure, meant},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ChangeMemory;

impl Operation for ChangeMemory {
    type Input = memory::ChangeMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Add to a number, merge an object or append to a list in memory.", Scope::MemoryWrite)
            .toolset("memory")
            .advice("Use it instead of get_memory and set_memory when others may change the same key.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryChanged>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Write).await?;
        let by = by(call, &input, &input.idempotency_key);
        let ask = Ask { change: change_of(&input)?, if_revision: input.if_revision, ttl_seconds: input.ttl_seconds };
        answer(call.app.memory.change(&place, &input.key, &ask, &by).await.map_err(failure)?, warnings)
    }
}

/// The change that a request asks for. Fields that mean nothing for it are refused.
fn change_of(input: &memory::ChangeMemory) -> Result<Change, Failure> {
    let (value, delta, limit) = (input.value.clone(), input.delta.clone(), input.limit);
    let refuse = |message: &str| Err(Failure::new(FailureKind::Invalid, "wrong_fields", message));
    match (input.op, value, delta, limit) {
        (MemoryOp::Incr, None, delta, None) => Ok(Change::Incr(delta.unwrap_or_else(|| 1.into()))),
        (MemoryOp::Merge, Some(value), None, None) => Ok(Change::Merge(value)),
        (MemoryOp::AppendDedupe, Some(value), None, None) => Ok(Change::AppendDedupe(value)),
        (MemoryOp::BoundedList, Some(value), None, Some(limit)) => Ok(Change::BoundedList { value, limit }),
        (MemoryOp::Incr, ..) => refuse("op incr takes delta, not value or limit"),
        (MemoryOp::Merge, ..) => refuse("op merge takes value, not delta or limit"),
        (MemoryOp::AppendDedupe, ..) => refuse("op append_dedupe takes value, not delta or limit"),
        (MemoryOp::BoundedList, ..) => refuse("op bounded_list takes value and limit, not delta"),
    }
}
