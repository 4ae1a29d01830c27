//! Tails and watches that end after a few messages. Changes made before the next one is opened are lost.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::StoreError,
    log::{Durability, Log, LogChange, LogChanged, LogKey, Page, Tail},
    once::{Applied, Once},
    time::Timestamp,
    values::{ChangeError, Kept, KeyValue, Range, Seen, Space, ValueChange, ValueKey, WatchFrom},
};
use futures::{StreamExt, stream::BoxStream};

/// A store whose streams end, each after a different number of messages; the first ends at once.
pub struct EndingStreams<S> {
    inner: Arc<S>,
    opened: AtomicU64,
}

impl<S> EndingStreams<S> {
    pub fn new(inner: Arc<S>) -> Self {
        Self { inner, opened: AtomicU64::default() }
    }

    /// How many streams were opened.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    fn some<T: Send + 'static>(&self, stream: BoxStream<'static, T>) -> BoxStream<'static, T> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        stream.take((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize).boxed()
    }
}

#[async_trait]
impl<S: Log> Log for EndingStreams<S> {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        self.inner.change_log(change, once).await
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError> {
        self.inner.read_log(log, after, limit).await
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        self.inner.head(log).await
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        self.some(self.inner.tail(space))
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }
}

#[async_trait]
impl<S: KeyValue> KeyValue for EndingStreams<S> {
    async fn change(&self, changes: Vec<ValueChange>, once: Option<Once>) -> Result<Applied<Vec<u64>>, ChangeError> {
        self.inner.change(changes, once).await
    }

    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Kept>, StoreError> {
        self.inner.find_value(key, now).await
    }

    async fn list_values(
        &self,
        range: &Range,
        after: Option<&ValueKey>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<(ValueKey, Kept)>, StoreError> {
        self.inner.list_values(range, after, limit, now).await
    }

    fn watch(&self, range: &Range, from: WatchFrom) -> BoxStream<'static, Seen> {
        self.some(self.inner.watch(range, from))
    }
}
