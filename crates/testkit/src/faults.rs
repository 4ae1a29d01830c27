//! Mistakes that a user of the store could make, one at a time, so that tests can prove that they catch them.

mod effects;
mod streams;
mod wake_ups;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use drawloom_contract::{
    ids::RunId,
    journal::{Append, CommitError, Committed, Entry, Journal},
    record::{Body, Record},
    redact::{Redacted, Redactor},
};
use serde::{Deserialize, Serialize};

pub use effects::{with_log_fault, with_value_fault};
pub use streams::EndingStreams;
pub use wake_ups::LostWakeUps;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Effects are performed before their intent is committed.
    EffectFirst,
    /// The answer goes out before the commit is written.
    AnswerFirst,
    /// Children are started in a commit of their own, without the key of the call that spawned them.
    UnkeyedChildren,
    /// A call's change of values is one commit, its key and answer a second one.
    EffectOutsideTransaction,
    /// A call's change is committed without its key and answer.
    AnswerNotStored,
}

/// `inner` with a mistake in front of it.
pub fn with_fault(inner: Arc<dyn Journal>, fault: Option<Fault>) -> Arc<dyn Journal> {
    match fault {
        None => inner,
        Some(fault) => Arc::new(Faulty { inner, fault, held: Mutex::default(), redactor: Redactor::new([""; 0]) }),
    }
}

struct Faulty {
    inner: Arc<dyn Journal>,
    fault: Fault,
    /// Entries that were said to be committed, by their run.
    held: Mutex<HashMap<RunId, Entry>>,
    redactor: Redactor,
}

#[async_trait]
impl Journal for Faulty {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let Some(run) = entry.runs.first().map(|append| append.key.run) else { return self.inner.commit(entry).await };
        let before = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        if let Some(before) = before {
            self.inner.commit(before).await?;
        }
        match self.fault {
            Fault::EffectFirst if begins_call(&entry) => self.hold(run, entry),
            Fault::AnswerFirst if accepts_root(&entry) => self.hold(run, entry),
            Fault::UnkeyedChildren if entry.runs.len() > 1 => self.commit_apart(entry).await,
            _ => self.inner.commit(entry).await,
        }
    }
}

impl Faulty {
    fn hold(&self, run: RunId, entry: Entry) -> Result<Committed, CommitError> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(run, entry);
        Ok(Committed::default())
    }

    async fn commit_apart(&self, mut entry: Entry) -> Result<Committed, CommitError> {
        let children = entry.runs.split_off(1);
        let apart = Entry {
            runs: children.into_iter().map(|child| self.without_key(child)).collect(),
            definitions: std::mem::take(&mut entry.definitions),
            ..Entry::empty(entry.epoch)
        };
        self.inner.commit(apart).await?;
        self.inner.commit(entry).await
    }

    /// The child under an index that no later call will use, so that nothing stops it from being started again.
    fn without_key(&self, mut child: Append) -> Append {
        let records = child.records.into_iter().map(|record| {
            let mut record: Record = Redacted::into_inner(record);
            if let Body::Accepted(accepted) = &mut record.body
                && let Some(parent) = &mut accepted.parent
            {
                parent.index += 100 * (std::process::id() % 10_000);
            }
            self.redactor.clean(record)
        });
        child.records = records.collect();
        child
    }
}

fn begins_call(entry: &Entry) -> bool {
    let mut records = entry.runs.iter().flat_map(|append| &append.records);
    entry.runs.len() == 1 && records.any(|record| matches!(record.body, Body::CallStarted(_)))
}

fn accepts_root(entry: &Entry) -> bool {
    entry
        .runs
        .first()
        .and_then(|append| append.records.first())
        .is_some_and(|record| matches!(&record.body, Body::Accepted(accepted) if accepted.parent.is_none()))
}
