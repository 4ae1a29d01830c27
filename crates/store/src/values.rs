//! Small values under a key: the seam over the table.

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Entry, Journal, StoreError},
    time::Timestamp,
    values::{KeyValue, ValueChange, ValueKey},
};
use serde_json::Value;

use crate::{store::Store, tables::values};

#[async_trait]
impl KeyValue for Store {
    async fn change(&self, change: ValueChange) -> Result<(), CommitError> {
        self.commit(Entry { values: vec![change], ..Entry::empty(self.epoch()) }).await?;
        Ok(())
    }

    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Value>, StoreError> {
        let key = key.clone();
        self.readers.read(move |connection| values::find(connection, &key, now)).await
    }
}
