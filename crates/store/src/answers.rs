//! Answers of requests: the seam over the table of keys.

use async_trait::async_trait;
use drawloom_contract::{
    journal::{Answers, CommitError, Entry, Journal as _},
    once::{Answered, Made, Once, RequestKey},
    redact::Redacted,
    time::Timestamp,
    values::ChangeError,
};
use serde_json::Value;

use crate::{log::refusal, store::Store, tables::keys};

#[async_trait]
impl Answers for Store {
    async fn store_answer(
        &self,
        key: RequestKey,
        answer: Redacted<Value>,
        at: Timestamp,
    ) -> Result<Value, ChangeError> {
        let first = Value::clone(&answer);
        let once = Some(Once::Request { key, made: Made::Answer { answer, at } });
        match self.commit(Entry { once, ..Entry::empty(self.epoch()) }).await {
            Ok(_) => Ok(first),
            Err(CommitError::Repeated(Answered::Effect(effected))) => Ok(effected.again()?.answer),
            Err(CommitError::Repeated(Answered::Handle(_))) => Err(ChangeError::KeyReused),
            Err(error) => Err(refusal(error)),
        }
    }

    async fn find_answer(&self, key: &RequestKey) -> Result<Option<Value>, ChangeError> {
        let (name, body) = (key.clone(), key.body);
        let found = self.readers.read(move |connection| keys::find(connection, &name)).await;
        match found.map_err(ChangeError::Store)? {
            None => Ok(None),
            Some((first, Answered::Effect(effected))) if first == body => Ok(Some(effected.again()?.answer)),
            Some(_) => Err(ChangeError::KeyReused),
        }
    }
}
