//! Values: the seam over the table.

use std::{collections::HashMap, sync::Arc};

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

/// Values that a watch reads at once.
const PAGE: usize = 256;

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
                let catching_up = CatchUp { readers: self.readers.clone(), range: range.clone(), changes };
                stream::once(catching_up.read()).flatten().boxed()
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

/// A watch that tells first what is there.
struct CatchUp {
    readers: Arc<Readers>,
    range: Range,
    changes: BoxStream<'static, Seen>,
}

impl CatchUp {
    async fn read(self) -> BoxStream<'static, Seen> {
        let (found, known) = match values_of(&self.readers, &self.range).await {
            Ok(found) => found,
            // The watcher is told to read by itself, and meets the error there.
            Err(_) => return stream::once(async { Seen::Gap }).chain(self.changes).boxed(),
        };
        // Changes that came while it was read and are older than what was read.
        let listed: HashMap<ValueKey, u64> = found
            .iter()
            .filter(|(_, kept)| kept.revision > known)
            .map(|(key, kept)| (key.clone(), kept.revision))
            .collect();
        let is_news = move |seen: &Seen| match seen {
            Seen::Is { key, revision, .. } => {
                *revision > known && listed.get(key).is_none_or(|listed| revision > listed)
            }
            Seen::CaughtUp | Seen::Gap => true,
        };
        let found = found.into_iter().map(|(key, kept)| Seen::Is { key, revision: kept.revision, kept: Some(kept) });
        stream::iter(found.chain([Seen::CaughtUp]))
            .chain(self.changes.filter(move |seen| std::future::ready(is_news(seen))))
            .boxed()
    }
}

/// All values of a range, and the newest revision before they were read.
async fn values_of(readers: &Readers, range: &Range) -> Result<(Vec<(ValueKey, Kept)>, u64), StoreError> {
    let known = readers.read(values::revision).await?;
    let mut found: Vec<(ValueKey, Kept)> = Vec::new();
    loop {
        let (range, after) = (range.clone(), found.last().map(|(key, _)| key.clone()));
        // With those whose time is over: the watcher compares times with its own clock.
        let always = Timestamp::from_millis(i64::MIN);
        let page =
            readers.read(move |connection| values::list(connection, &range, after.as_ref(), PAGE, always)).await?;
        let is_last = page.len() < PAGE;
        found.extend(page);
        if is_last {
            return Ok((found, known));
        }
    }
}
