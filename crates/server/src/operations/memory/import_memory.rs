//! `import_memory`: many entries at once, all or none.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    time::Timestamp,
};
use drawloom_substrate::memory::NewEntry;
use drawloom_wire::memory::{self, ImportEntry, MemoryImported};

use crate::{
    memory::{Access, Meant, answer, by, failure, meant},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ImportMemory;

impl Operation for ImportMemory {
    type Input = memory::ImportMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Write many memory entries, all or none.", Scope::MemoryWrite)
            .toolset("memory")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryImported>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Write).await?;
        let by = by(call, &input, &input.idempotency_key);
        let entries = input.entries.into_iter().map(read).collect::<Result<_, _>>()?;
        answer(call.app.memory.import(&place, entries, &by).await.map_err(failure)?, warnings)
    }
}

fn read(entry: ImportEntry) -> Result<NewEntry, Failure> {
    let ImportEntry { key, value, expires_at } = entry;
    let time = expires_at.map(|text| -> Result<Timestamp, Failure> {
        Timestamp::from_rfc3339(&text).ok_or_else(|| {
            let message = format!("invalid expires_at of the key {key:?}: {text:?}");
            Failure::new(FailureKind::Invalid, "bad_time", message).with_hint("example: 2026-11-16T09:30:00Z")
        })
    });
    let expires_at = time.transpose()?;
    Ok(NewEntry { key, value, expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_of_four_digits_is_read_and_shown_again() {
        for (text, shown) in [
            ("2026-11-16T09:30:00Z", "2026-11-16T09:30:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59+02:00", "9999-12-31T21:59:59.000Z"),
        ] {
            assert_eq!(Timestamp::from_rfc3339(text).map(Timestamp::to_rfc3339).as_deref(), Some(shown), "{text}");
        }
        for text in ["soon", "9999-12-31", "9999-12-31T23:59:59", "10000-01-01T00:00:00Z", "9999-13-01T00:00:00Z"] {
            assert_eq!(Timestamp::from_rfc3339(text), None, "{text}");
        }
    }
}
