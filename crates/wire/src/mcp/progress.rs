//! Progress that only ever goes up, whoever reports it: the server, the server after a restart, or the proxy itself.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use super::frame::{Object, nested, raw};

/// Reports that would not be above the last one are lifted by one of this many parts of one: too little to be seen.
const PARTS: f64 = 1000.0;

/// A little above `last`.
fn above(last: f64) -> f64 {
    (((last * PARTS).round() + 1.0) / PARTS).max(last.next_up())
}

/// The last progress of each call in flight, by token.
#[derive(Default)]
pub(crate) struct Progress(Mutex<HashMap<String, f64>>);

impl Progress {
    /// Watches over a token from now on.
    pub(crate) fn begin(&self, token: &str) {
        self.lock().insert(token.to_owned(), f64::NEG_INFINITY);
    }

    /// The call is over.
    pub(crate) fn end(&self, token: &str) {
        self.lock().remove(token);
    }

    /// A report of our own, above the last one.
    pub(crate) fn say(&self, token: &str, message: &str) -> Option<Bytes> {
        let mut lasts = self.lock();
        let last = lasts.get_mut(token)?;
        *last = if last.is_finite() { above(*last) } else { 0.0 };
        let message = json!(message);
        let params = format!(r#"{{"progressToken":{token},"progress":{last},"message":{message}}}"#);
        Some(format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#).into())
    }

    /// The server's report, lifted above the last one where it is not; nothing, when it can go as it is.
    pub(crate) fn lift(&self, notification: &Object) -> Option<Bytes> {
        let mut params = nested(notification, "params")?;
        let token = serde_json::from_str::<Value>(params.get("progressToken")?.get()).ok()?.to_string();
        let progress: f64 = serde_json::from_str(params.get("progress")?.get()).ok()?;
        let mut lasts = self.lock();
        let last = lasts.get_mut(&token)?;
        if progress > *last {
            *last = progress;
            return None;
        }
        *last = above(*last);
        params.insert("progress".into(), RawValue::from_string(last.to_string()).ok()?);
        let mut lifted = notification.clone();
        lifted.insert("params".into(), raw(&params));
        Some(raw(&lifted).get().to_owned().into())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(progress: Value) -> Object {
        let params = json!({ "progressToken": "t", "progress": progress, "total": 10 });
        serde_json::from_value(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
            .map(|value: Value| serde_json::from_str(&value.to_string()).expect("an object"))
            .expect("an object")
    }

    fn progress(frame: Option<Bytes>) -> Option<f64> {
        let frame: Value = serde_json::from_slice(&frame?).expect("JSON");
        frame["params"]["progress"].as_f64()
    }

    #[test]
    fn progress_goes_up_across_an_outage_and_a_server_that_begins_anew() {
        let all = Progress::default();
        all.begin("\"t\"");
        assert_eq!(progress(all.lift(&report(json!(3)))), None);
        assert_eq!(progress(all.say("\"t\"", "away")), Some(3.001));
        assert_eq!(progress(all.say("\"t\"", "away")), Some(3.002));
        assert_eq!(progress(all.lift(&report(json!(1)))), Some(3.003));
        assert_eq!(progress(all.lift(&report(json!(4.5)))), None);
        all.end("\"t\"");
        assert_eq!(all.say("\"t\"", "away"), None);
        assert_eq!(progress(all.lift(&report(json!(1)))), None, "what nobody watches over goes as it is");
    }
}
