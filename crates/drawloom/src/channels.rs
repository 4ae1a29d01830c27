//! What channels need from the store beside its seams.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::journal::StoreError;
use drawloom_store::Store;
use drawloom_substrate::channels::{Backlog, LogState, LogsAsked};

pub(crate) struct StoreBacklog(pub(crate) Arc<Store>);

#[async_trait]
impl Backlog for StoreBacklog {
    async fn list_logs(&self, asked: &LogsAsked) -> Result<Vec<LogState>, StoreError> {
        let LogsAsked { space, within, after, limit } = asked.clone();
        let logs = self.0.list_logs(&space, within, after, limit).await?;
        Ok(logs.into_iter().map(|(log, head, kept)| LogState { log, head, kept }).collect())
    }
}
