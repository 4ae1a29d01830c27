//! `import_memory`: many entries at once, all or none.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    time::Timestamp,
};
use drawloom_substrate::memory::NewEntry;
use drawloom_wire::memory::{self, ImportEntry, MemoryImported};

use crate::{
    memory::{answer, by, failure, place},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ImportMemory;

impl Operation for ImportMemory {
    type Input = memory::ImportMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Write many entries of memory, all or none.", Scope::MemoryWrite)
            .toolset("memory")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryImported>, Failure> {
        let (place, by) = (place(call, &input).await?, by(call, &input, &input.idempotency_key));
        let entries = input.entries.into_iter().map(read).collect::<Result<_, _>>()?;
        answer(call.app.memory.import(&place, entries, &by).await.map_err(failure)?)
    }
}

fn read(entry: ImportEntry) -> Result<NewEntry, Failure> {
    let ImportEntry { key, value, expires_at } = entry;
    let time = expires_at.map(|text| -> Result<Timestamp, Failure> {
        let time: jiff::Timestamp = text.parse().map_err(|_| {
            let message = format!("expires_at of the key {key:?} is not a time: {text:?}");
            Failure::new(FailureKind::Invalid, "bad_time", message).with_hint("write it like 2026-11-16T09:30:00Z")
        })?;
        Ok(Timestamp::from_millis(time.as_millisecond()))
    });
    let expires_at = time.transpose()?;
    Ok(NewEntry { key, value, expires_at })
}
