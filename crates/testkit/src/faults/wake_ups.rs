//! Wake-ups that come before the wait is committed and are lost, as if the engine had looked before the commit and followed the
//! log after it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Committed, Entry, Journal, StoreError},
    log::{Durability, Log, LogChange, LogChanged, LogKey, Page, Tail},
    once::{Applied, Once},
    values::{ChangeError, Space},
    wait::{Cause, WaitChange},
};
use futures::{StreamExt, stream::BoxStream};

/// Loses what is appended to a log while a wait for that log is being committed: its tail does not tell of it, and the first
/// look afterwards finds the old head. Wrap the journal and the log of one engine with the same value.
#[derive(Default)]
pub struct LostWakeUps {
    /// The heads of logs before the commit of a wait for them, until the look.
    heads: Mutex<HashMap<LogKey, u64>>,
}

impl LostWakeUps {
    pub fn journal(self: &Arc<Self>, inner: Arc<dyn Journal>, logs: Arc<dyn Log>) -> Arc<dyn Journal> {
        Arc::new(LosingJournal { inner, logs, lost: self.clone() })
    }

    pub fn log(self: &Arc<Self>, inner: Arc<dyn Log>) -> Arc<dyn Log> {
        Arc::new(LosingLog { inner, lost: self.clone() })
    }

    fn heads(&self) -> MutexGuard<'_, HashMap<LogKey, u64>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LosingJournal {
    inner: Arc<dyn Journal>,
    logs: Arc<dyn Log>,
    lost: Arc<LostWakeUps>,
}

#[async_trait]
impl Journal for LosingJournal {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        for change in &entry.waits {
            let WaitChange::Call { wait, .. } = change else { continue };
            for cause in &wait.on {
                if let Cause::Log { log, .. } = cause {
                    let head = self.logs.head(log).await.map_err(CommitError::Store)?;
                    self.lost.heads().insert(log.clone(), head);
                }
            }
        }
        self.inner.commit(entry).await
    }
}

struct LosingLog {
    inner: Arc<dyn Log>,
    lost: Arc<LostWakeUps>,
}

#[async_trait]
impl Log for LosingLog {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        self.inner.change_log(change, once).await
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError> {
        self.inner.read_log(log, after, limit).await
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        let old = self.lost.heads().remove(log);
        match old {
            Some(head) => Ok(head),
            None => self.inner.head(log).await,
        }
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        let lost = self.lost.clone();
        let is_told = move |tail: &Tail| match tail {
            Tail::Grew { log, .. } => !lost.heads().contains_key(log),
            Tail::Gap => true,
        };
        self.inner.tail(space).filter(move |tail| std::future::ready(is_told(tail))).boxed()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }
}
