//! What is stored of a read under its key: which messages it took, not their values. The log has those, so a read that is made again
//! reads them again, and stored answers stay small however long the messages are.

use drawloom_contract::{once::Applied, time::Timestamp, values::ValueChange};
use serde_json::Value;

use super::{
    By, ChannelError, Channels, Place,
    rules::{Envelope, read_cursor},
};

/// The answer without the values of its messages.
pub(super) fn reference(answer: &Value) -> Value {
    let mut stored = answer.clone();
    for message in stored["messages"].as_array_mut().into_iter().flatten() {
        message.as_object_mut().map(|fields| fields.remove("value"));
    }
    stored
}

impl Channels {
    /// Makes the change that takes messages, once; the answer, and whether it was given before.
    pub(super) async fn take_once(
        &self,
        place: &Place,
        change: ValueChange,
        answer: Value,
        by: &By<'_>,
        now: Timestamp,
    ) -> Result<(Value, bool), ChannelError> {
        let once = self.once(&reference(&answer), by, 0, now);
        let Applied { answer: stored, repeated, .. } = self.parts.values.change(vec![change], once).await?;
        match repeated {
            true => Ok((self.read_again(place, stored).await?, true)),
            false => Ok((self.parts.redactor.clean(answer).into_inner(), false)),
        }
    }

    /// The answer that was stored, with the values that the log still has. Messages that were dropped meanwhile are left out, and the
    /// answer says so.
    pub(super) async fn read_again(&self, place: &Place, mut stored: Value) -> Result<Value, ChannelError> {
        let Some(messages) = stored.get_mut("messages").map(Value::take) else { return Ok(stored) };
        let Value::Array(messages) = messages else { return Ok(stored) };
        let (log, all) = (place.log(), messages.len());
        let mut again = Vec::with_capacity(all);
        for mut message in messages {
            // What earlier versions of the program stored has its value.
            if message.get("value").is_none() {
                let sequence =
                    message["cursor"].as_str().and_then(|cursor| read_cursor(cursor).ok()).unwrap_or_default();
                let page = self.parts.logs.read_log(&log, sequence.saturating_sub(1), 1).await?;
                let found = page.messages.into_iter().find(|found| found.sequence == sequence);
                let Some(found) = found else { continue };
                message["value"] = Envelope::read(found.body).value;
            }
            again.push(message);
        }
        if again.len() < all {
            let mut warnings = stored["warnings"].as_array().cloned().unwrap_or_default();
            let gone = all - again.len();
            warnings.push(format!("{gone} messages of this answer were dropped since it was first returned").into());
            stored["warnings"] = warnings.into();
        }
        stored["messages"] = again.into();
        Ok(stored)
    }
}
