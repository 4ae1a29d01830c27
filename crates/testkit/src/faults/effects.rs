//! Values and logs that keep the key of a call's effect too late, or not at all.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    ids::Tenant,
    journal::StoreError,
    log::{Durability, Log, LogChange, LogChanged, LogKey, Page, Tail},
    once::{Applied, Made, Once},
    time::Timestamp,
    values::{ChangeError, Expect, Kept, KeyValue, Range, Seen, Space, ValueChange, ValueKey, WatchFrom},
};
use futures::stream::BoxStream;
use serde_json::Value;

use super::Fault;

/// `inner` with a mistake in front of it, when that is one about values.
pub fn with_value_fault(inner: Arc<dyn KeyValue>, fault: Option<Fault>) -> Arc<dyn KeyValue> {
    match fault {
        Some(fault @ (Fault::EffectOutsideTransaction | Fault::AnswerNotStored)) => {
            Arc::new(FaultyValues { inner, fault })
        }
        _ => inner,
    }
}

/// `inner` with a mistake in front of it, when that is one about logs.
pub fn with_log_fault(inner: Arc<dyn Log>, fault: Option<Fault>) -> Arc<dyn Log> {
    match fault {
        Some(Fault::AnswerNotStored) => Arc::new(FaultyLog { inner }),
        _ => inner,
    }
}

struct FaultyValues {
    inner: Arc<dyn KeyValue>,
    fault: Fault,
}

impl FaultyValues {
    /// What the first change under this key gave, if there was one. Asked with a change that is always refused.
    async fn find_first(&self, once: &Once, at: Timestamp) -> Result<Option<Applied<Vec<u64>>>, ChangeError> {
        let (tenant, space) = (Tenant::default_tenant(), Space::of("fault"));
        let key = ValueKey { tenant, space, owner: String::new(), key: "absent".into() };
        let refused = ValueChange { key, expect: Expect::Revision(u64::MAX), to: None, at };
        match self.inner.change(vec![refused], Some(once.clone())).await {
            Ok(first) => Ok(Some(first)),
            Err(ChangeError::Stale { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl KeyValue for FaultyValues {
    async fn change(&self, changes: Vec<ValueChange>, once: Option<Once>) -> Result<Applied<Vec<u64>>, ChangeError> {
        let Some(once) = once else { return self.inner.change(changes, None).await };
        let at = changes.first().map_or(Timestamp::from_millis(0), |change| change.at);
        let answer = answer(&once);
        if self.fault == Fault::EffectOutsideTransaction
            && let Some(first) = self.find_first(&once, at).await?
        {
            return Ok(first);
        }
        let changed = self.inner.change(changes, None).await?;
        if self.fault == Fault::EffectOutsideTransaction {
            self.inner.change(Vec::new(), Some(once)).await?;
        }
        Ok(Applied { answer, ..changed })
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

/// Appends without a key.
struct FaultyLog {
    inner: Arc<dyn Log>,
}

#[async_trait]
impl Log for FaultyLog {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        let answer = once.as_ref().map(answer).unwrap_or_default();
        let changed = self.inner.change_log(change, None).await?;
        Ok(Applied { answer, ..changed })
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

/// The answer that came with a key.
fn answer(once: &Once) -> Value {
    match once {
        Once::Request { made: Made::Answer { answer, .. }, .. } => Value::clone(answer),
        Once::Request { made: Made::Handle(_), .. } => Value::Null,
        Once::Call(effect) => Value::clone(&effect.answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Memory,
        suites::{key_value, log},
    };

    #[tokio::test]
    async fn the_suites_catch_an_answer_that_is_not_stored() {
        let values = with_value_fault(Arc::<Memory>::default(), Some(Fault::AnswerNotStored));
        let promise = async move {
            key_value::a_request_changes_values_once_and_its_repeat_gets_the_first_answer(&*values).await;
        };
        assert!(tokio::spawn(promise).await.is_err_and(|error| error.is_panic()));
        let logs = with_log_fault(Arc::<Memory>::default(), Some(Fault::AnswerNotStored));
        let promise = async move { log::a_request_appends_once_and_its_repeat_gets_the_first_answer(&*logs).await };
        assert!(tokio::spawn(promise).await.is_err_and(|error| error.is_panic()));
    }
}
