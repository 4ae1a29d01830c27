//! Small values under a key.

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Entry, Journal, StoreError},
    time::Timestamp,
    values::{KeyValue, ValueChange, ValueKey},
};
use rusqlite::{ToSql, types::Type};
use serde_json::Value;

use crate::{rows::wrong, sql::Bound, store::Store};

const FIND: &str = "SELECT value FROM kept WHERE tenant = $1 AND space = $2 AND key = $3 AND expires_at > $4";

#[async_trait]
impl KeyValue for Store {
    async fn change(&self, change: ValueChange) -> Result<(), CommitError> {
        self.commit(Entry { values: vec![change], ..Entry::empty(self.epoch()) }).await?;
        Ok(())
    }

    async fn find_value(&self, key: &ValueKey, now: Timestamp) -> Result<Option<Value>, StoreError> {
        let key = key.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 4] = [&key.tenant.as_str(), &key.space, &key.key, &now.as_millis()];
                Bound::new(connection, FIND)?.first(&values, |row| {
                    let text: String = row.get(0)?;
                    serde_json::from_str(&text).map_err(|error| wrong(0, Type::Text, error))
                })
            })
            .await
    }
}
