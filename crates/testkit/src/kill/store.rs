//! A store whose changes by tools have a point before and after each commit.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    journal::StoreError,
    log::{Durability, Log, LogChange, LogChanged, LogKey, Page, Tail},
    once::{Applied, Once},
    time::Timestamp,
    values::{ChangeError, Kept, KeyValue, Range, Seen, Space, ValueChange, ValueKey, WatchFrom},
};
use futures::stream::BoxStream;

use super::Killer;

/// Values with points: `before root#7.0:value`, `after root#7.0:value`.
pub struct KillValues {
    pub inner: Arc<dyn KeyValue>,
    pub killer: Arc<Killer>,
}

#[async_trait]
impl KeyValue for KillValues {
    async fn change(&self, changes: Vec<ValueChange>, once: Option<Once>) -> Result<Applied<Vec<u64>>, ChangeError> {
        let keys: Vec<&str> = changes.iter().map(|change| change.key.key.as_str()).collect();
        let name = self.killer.effect(once.as_ref(), &format!("value {}", keys.join(",")));
        self.killer.pass(&format!("before {name}"));
        let applied = self.inner.change(changes, once).await?;
        self.killer.pass(&format!("after {name}"));
        Ok(applied)
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
        self.inner.watch(range, from)
    }
}

/// Logs with points: `before root#7.0:log`, `after root#7.0:log`.
pub struct KillLog {
    pub inner: Arc<dyn Log>,
    pub killer: Arc<Killer>,
}

#[async_trait]
impl Log for KillLog {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        let name = self.killer.effect(once.as_ref(), &format!("log {}", change.log().name));
        self.killer.pass(&format!("before {name}"));
        let applied = self.inner.change_log(change, once).await?;
        self.killer.pass(&format!("after {name}"));
        Ok(applied)
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError> {
        self.inner.read_log(log, after, limit).await
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        self.inner.head(log).await
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        self.inner.tail(space)
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }
}

impl Killer {
    /// What a change of the store is called as a point: by its key, or without one by what it changes.
    fn effect(&self, once: Option<&Once>, what: &str) -> String {
        match once {
            Some(Once::Call(effect)) => {
                format!("{}#{}.{}:{what}", self.names.of(effect.run.run), effect.call, effect.part)
            }
            Some(Once::Request { key, .. }) => format!("{}:{what}", key.operation),
            None => what.to_owned(),
        }
    }
}
