//! `watch_memory`: changes of memory, as they happen.

use std::{collections::BTreeMap, time::Duration};

use drawloom_contract::{caller::Scope, failure::Failure, runs::Interest, values::WatchFrom};
use drawloom_substrate::memory::{ListAsked, MOST_LISTED, Place, Told};
use drawloom_wire::{
    events::Event,
    memory::{self, MemoryChange, MemoryChanges},
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    memory::{Access, Meant, failure, meant, shown},
    operation::{Answer, Call, Card, Operation, Precedence},
};

/// Maximum changes of one answer in JSON, and their bytes.
const MOST_CHANGES: usize = 1_000;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of entries that are read at once.
const PART_BYTES: u64 = 256 * 1024;

pub(crate) struct WatchMemory;

impl Operation for WatchMemory {
    type Input = memory::WatchMemory;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Stream changes of memory as they happen.", Scope::MemoryRead)
            .toolset("memory")
            .advice("Over MCP it returns what changed after a revision; give wait_ms to wait for the next change.")
            .streams()
            .header("last-event-id", "after", Precedence::Header)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<MemoryChanges>, Failure> {
        let Meant { place, warnings } = meant(call, &input, Access::Read).await?;
        match call.interest {
            Interest::Events => Ok(Answer::Events(events(call, &place, &input, warnings))),
            Interest::Outcome | Interest::None => {
                Ok(Answer::Value(MemoryChanges { warnings, ..changes(call, &place, &input).await? }))
            }
        }
    }
}

/// Events: what is there and every change from then on. After a revision it begins with `gap`, because removals since then are
/// not known.
fn events(
    call: &Call<'_>,
    place: &Place,
    input: &memory::WatchMemory,
    warnings: Vec<String>,
) -> BoxStream<'static, Event> {
    let after = input.after.unwrap_or(0);
    let told = call.app.memory.watch(place, input.prefix.as_deref().unwrap_or_default(), WatchFrom::Start);
    let changes = told.filter_map(move |told| {
        std::future::ready(match told {
            Told::Written(entry) if entry.revision <= after => None,
            Told::Written(_) | Told::Removed { .. } => {
                change(told).map(|change| event("change", Some(change.revision), &change))
            }
            Told::CaughtUp => Some(event("caught_up", None, &json!({}))),
            Told::Gap => Some(event("gap", None, &json!({ "reason": "the stream fell behind; list the keys again" }))),
        })
    });
    let reason =
        json!({ "reason": format!("removals after revision {after} and before this stream are not reported") });
    let first = (after > 0).then(|| event("gap", None, &reason));
    let warnings = warnings.into_iter().map(|message| event("warning", None, &json!({ "message": message })));
    stream::iter(warnings.collect::<Vec<_>>()).chain(stream::iter(first)).chain(changes).boxed()
}

fn event(name: &'static str, id: Option<u64>, data: &impl Serialize) -> Event {
    Event { name: name.into(), id, data: serde_json::to_string(data).expect("changes have only text keys") }
}

/// What changed after a revision; when nothing did, the next change within the wait.
async fn changes(call: &Call<'_>, place: &Place, input: &memory::WatchMemory) -> Result<MemoryChanges, Failure> {
    let (memory, prefix) = (&call.app.memory, input.prefix.clone().unwrap_or_default());
    let after = input.after.unwrap_or(0);
    // Subscribed before anything is read, so that no change falls between the two.
    let mut live = memory.watch(place, &prefix, WatchFrom::Now);
    // The oldest changes alone, as many as an answer has: the rest is asked for after them.
    let mut oldest = Oldest::default();
    let mut asked = ListAsked { prefix, after: None, limit: MOST_LISTED, bytes: Some(PART_BYTES) };
    loop {
        let page = memory.list(place, &asked).await.map_err(failure)?;
        let new = page.entries.into_iter().filter(|entry| entry.revision > after);
        new.filter_map(|entry| change(Told::Written(entry))).for_each(|change| oldest.add(change));
        match page.next {
            Some(next) => asked.after = Some(next),
            None => break,
        }
    }
    let Oldest { changes, mut left_out, .. } = oldest;
    let mut found: Vec<MemoryChange> = changes.into_values().collect();
    let mut gap = after > 0;
    if found.is_empty()
        && let Some(wait) = input.wait_ms
    {
        let until = call.app.clock.now().after(Duration::from_millis(wait));
        tokio::select! {
            told = live.next() => match told {
                Some(Told::Gap) | None => gap = true,
                Some(told) => found.extend(change(told)),
            },
            () = call.app.clock.sleep_until(until) => {}
            () = call.app.stopping.cancelled() => {}
        }
    }
    found.sort_by_key(|change| change.revision);
    let most =
        call.result_bytes.map_or(found.len(), |most| super::super::fitting(found.iter(), most)).min(MOST_CHANGES);
    left_out |= found.len() > most;
    let truncated = left_out;
    found.truncate(most);
    let next = found.last().map_or(after, |change| change.revision);
    Ok(MemoryChanges { changes: found, next, gap, truncated, warnings: Vec::new() })
}

/// The changes with the lowest revisions, within the limits of an answer.
#[derive(Default)]
struct Oldest {
    changes: BTreeMap<u64, MemoryChange>,
    bytes: usize,
    left_out: bool,
}

impl Oldest {
    fn add(&mut self, change: MemoryChange) {
        self.bytes += size(&change);
        self.changes.insert(change.revision, change);
        while self.changes.len() > MOST_CHANGES || (self.bytes > MOST_BYTES && self.changes.len() > 1) {
            let Some((_, newest)) = self.changes.pop_last() else { return };
            self.bytes -= size(&newest);
            self.left_out = true;
        }
    }
}

fn size(change: &MemoryChange) -> usize {
    let value = change.entry.as_ref().and_then(|entry| entry.value.as_ref());
    change.key.len() + value.map_or(0, |value| value.to_string().len())
}

fn change(told: Told) -> Option<MemoryChange> {
    match told {
        Told::Written(entry) => Some(MemoryChange {
            key: entry.key.clone(),
            revision: entry.revision,
            removed: false,
            entry: Some(shown(entry)),
        }),
        Told::Removed { key, revision } => Some(MemoryChange { key, revision, removed: true, entry: None }),
        Told::CaughtUp | Told::Gap => None,
    }
}
