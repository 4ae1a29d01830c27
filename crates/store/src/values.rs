//! Values: the seam over the table.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::{Entry, StoreError},
    once::{Applied, Once},
    time::Timestamp,
    values::{ChangeError, Kept, KeyValue, Range, Seen, ValueChange, ValueKey, WatchFrom},
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};

use tokio::sync::{mpsc, oneshot};

use crate::{
    sqlite::{self, Connection, readers::Readers, writer::Job},
    store::Store,
    tables::{
        values,
        words::{self, Hit, Search},
    },
};

/// Names of values that a watch reads at once.
const PAGE: usize = 64;

#[async_trait]
impl KeyValue for Store {
    async fn change(&self, changes: Vec<ValueChange>, once: Option<Once>) -> Result<Applied<Vec<u64>>, ChangeError> {
        let Applied { result, answer, repeated } = self.apply(Entry { values: changes, once, ..self.entry() }).await?;
        Ok(Applied { result: result.revisions, answer, repeated })
    }

    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Kept>, StoreError> {
        let key = key.clone();
        self.readers.glance(move |connection| values::find(connection, &key, now)).await
    }

    async fn list_values(
        &self,
        range: &Range,
        after: Option<&ValueKey>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(ValueKey, Kept)>, StoreError> {
        let (range, after) = (range.clone(), after.cloned());
        self.readers.read(move |connection| values::list(connection, &range, after.as_ref(), limit as usize, now)).await
    }

    fn watch(&self, range: &Range, from: WatchFrom) -> BoxStream<'static, Seen> {
        // Subscribed before anything is read, so that no change falls between the two.
        let changes = self.shared.feeds.watch(range.clone());
        match from {
            WatchFrom::Now => changes,
            WatchFrom::Start => {
                let catching_up = CatchUp::new(self.readers.clone(), range.clone(), changes);
                stream::unfold(catching_up, async |mut watch| Some((watch.next().await?, watch))).boxed()
            }
        }
    }
}

impl Store {
    /// Values that have the words, best first; without those whose time is over at `now`.
    pub async fn search(&self, search: Search, now: Timestamp) -> Result<Vec<Hit>, StoreError> {
        let queue = self.queue.clone();
        self.readers.read(move |connection| search_all(connection, &queue, &search, now)).await
    }
}

/// Searches in every value that is there, when the index is behind too.
fn search_all(
    connection: &Connection,
    queue: &mpsc::Sender<Job>,
    search: &Search,
    now: Timestamp,
) -> sqlite::Result<Vec<Hit>> {
    if words::is_current(connection)? {
        return words::search(connection, search, now);
    }
    // From here on it reads what the writer left.
    connection.run("COMMIT")?;
    let (begins, begun) = std::sync::mpsc::channel();
    let (indexed, done) = oneshot::channel();
    if queue.blocking_send(Job::Index { indexed, begun }).is_ok() {
        _ = done.blocking_recv();
    }
    connection.run("BEGIN")?;
    let is_current = words::is_current(connection)?;
    drop(begins);
    if is_current {
        return words::search(connection, search, now);
    }
    // Nobody can write the index here: this process only reads, or the disk is full.
    words::index_own(connection)?;
    let hits = words::search(connection, search, now);
    words::forget_own(connection)?;
    hits
}

/// A watch that tells first what is there, page by page as the watcher takes it.
struct CatchUp {
    readers: Arc<Readers>,
    range: Range,
    changes: BoxStream<'static, Seen>,
    /// The newest revision before anything was read.
    known: Option<u64>,
    after: Option<ValueKey>,
    page: VecDeque<Seen>,
    is_last: bool,
    /// What was told of values that are newer than `known`, by a hash of their keys: changes that came while it was read and are not
    /// newer than that are left out.
    told: HashMap<u64, u64>,
    hasher: RandomState,
}

impl CatchUp {
    fn new(readers: Arc<Readers>, range: Range, changes: BoxStream<'static, Seen>) -> Self {
        let (known, after, page, told) = (None, None, VecDeque::new(), HashMap::new());
        Self { readers, range, changes, known, after, page, is_last: false, told, hasher: RandomState::new() }
    }

    async fn next(&mut self) -> Option<Seen> {
        loop {
            if let Some(seen) = self.page.pop_front() {
                return Some(seen);
            }
            if !self.is_last {
                if self.read().await.is_err() {
                    // The watcher is told to read by itself, and meets the error there.
                    self.is_last = true;
                    return Some(Seen::Gap);
                }
                continue;
            }
            let seen = self.changes.next().await?;
            let known = self.known.unwrap_or_default();
            match &seen {
                Seen::Is { key, revision, .. } => {
                    let told = self.told.get(&self.hasher.hash_one(key)).copied().unwrap_or(known);
                    if *revision > known.max(told) {
                        return Some(seen);
                    }
                }
                Seen::CaughtUp | Seen::Gap => return Some(seen),
            }
        }
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let known = match self.known {
            Some(known) => known,
            None => self.readers.read(values::revision).await?,
        };
        self.known = Some(known);
        let (range, after) = (self.range.clone(), self.after.take());
        // With those whose time is over: the watcher compares times with its own clock.
        let read = move |connection: &Connection| values::list_present(connection, &range, after.as_ref(), PAGE);
        let found = self.readers.read(read).await?;
        self.is_last = found.len() < PAGE;
        self.after = found.last().map(|(key, _)| key.clone());
        for (key, (revision, present)) in found {
            if revision > known {
                self.told.insert(self.hasher.hash_one(&key), revision);
            }
            self.page.push_back(Seen::Is { key, revision, present: Some(present) });
        }
        if self.is_last {
            self.page.push_back(Seen::CaughtUp);
        }
        Ok(())
    }
}
