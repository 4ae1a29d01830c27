//! JSON-RPC frames as they pass: only what the proxy must know is read, the rest stays the text that it was.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use drawloom_contract::time::{Entropy, Instant};
use serde_json::{Value, json, value::RawValue};

use super::{ANSWER_WITHIN_MS, IDEMPOTENCY_KEY, PATIENCE_MS, PROTOCOL_VERSION, STATELESS_SINCE};

/// A JSON object whose values are not looked into.
pub(crate) type Object = BTreeMap<String, Box<RawValue>>;

/// The id of a request, as canonical JSON: a string or a whole number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(String);

impl Id {
    /// Reads an id; nothing, when it is neither a string nor a whole number below 2^63: others may come back in another form.
    pub(crate) fn read(raw: &str) -> Option<Self> {
        match serde_json::from_str::<Value>(raw).ok()? {
            value @ Value::String(_) => Some(Self(value.to_string())),
            Value::Number(number) if number.is_i64() => Some(Self(number.to_string())),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// What an error is addressed to when the id is none that is taken: a number as it was written.
    fn of_refused(raw: &str) -> Option<Self> {
        let is_number = serde_json::from_str::<Value>(raw).is_ok_and(|value| value.is_number());
        Self::read(raw).or_else(|| is_number.then(|| Self(raw.to_owned())))
    }

    /// As JSON.
    pub(crate) fn json(&self) -> &str {
        &self.0
    }
}

/// What the proxy adds to a call of a tool.
pub(crate) struct Stamp<'a> {
    /// Makes its key.
    pub(crate) entropy: &'a dyn Entropy,
    /// How long the host waits for its answer, when that is known here.
    pub(crate) patience: Option<Duration>,
    /// When it was read.
    pub(crate) now: Instant,
}

/// How long a host waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    since: Instant,
    whole: Duration,
}

impl Patience {
    /// What the server is told at `now`: after how long it answers, so that its answer comes a tenth before the end, and on
    /// a busy machine too: at least 3 s before, or half of a wait that is shorter.
    fn left(self, now: Instant) -> Duration {
        let spare = (self.whole / 10).max(Duration::from_secs(3).min(self.whole / 2));
        self.since.after(self.whole.saturating_sub(spare)).since(now)
    }

    /// When somebody must answer, so that it arrives in time: later than the server.
    pub(crate) fn last_moment(self) -> Instant {
        self.since.after(self.whole.mul_f64(0.95))
    }
}

/// What a host sends.
#[derive(Debug)]
pub(crate) enum Frame {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Answers what the server asked.
    Response(Bytes),
}

/// A request on its way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) method: String,
    /// The whole frame; `text_at` is what is sent.
    pub(crate) text: Bytes,
    /// How long the host waits, when that is known of a `tools/call`.
    pub(crate) patience: Option<Patience>,
    /// What it is about, for `Mcp-Name`.
    pub(crate) name: Option<String>,
    /// The protocol version, when the request is a stateless one.
    pub(crate) version: Option<String>,
    /// Under which key the server does it once, for `tools/call`.
    pub(crate) key: Option<String>,
    /// The token under which the host wants to hear of progress, as JSON.
    pub(crate) progress_token: Option<String>,
    /// The parts of `_meta` that say who asks, for notifications that belong to this request.
    pub(crate) sender: Object,
}

impl Request {
    /// Whether sending it again is harmless when nobody knows whether it arrived.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self.method.as_str() {
            "initialize"
            | "ping"
            | "server/discover"
            | "completion/complete"
            | "logging/setLevel"
            | "subscriptions/listen"
            | "tasks/get"
            | "tasks/cancel" => true,
            "tools/call" => self.key.is_some(),
            method => ["tools/list", "resources/", "prompts/"].iter().any(|known| method.starts_with(known)),
        }
    }

    /// The frame as it is sent now: with what is left of the time that the server has.
    pub(crate) fn text_at(&self, now: Instant) -> Bytes {
        let Some(patience) = self.patience else { return self.text.clone() };
        let left = u64::try_from(patience.left(now).as_millis()).unwrap_or(u64::MAX);
        let stamped = || {
            let mut object: Object = serde_json::from_slice(&self.text).ok()?;
            let mut params = nested(&object, "params")?;
            let mut meta = nested(&params, "_meta")?;
            meta.insert(ANSWER_WITHIN_MS.into(), raw(&left));
            params.insert("_meta".into(), raw(&meta));
            object.insert("params".into(), raw(&params));
            Some(one_line(raw(&object).get()))
        };
        stamped().unwrap_or_else(|| self.text.clone())
    }

    /// Whether the host waits for it before it can do anything.
    pub(crate) fn is_first_contact(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }
}

/// A notification on its way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) text: Bytes,
    pub(crate) version: Option<String>,
    pub(crate) params: Object,
}

impl Notification {
    /// Whether sending it again is harmless when nobody knows whether it arrived.
    pub(crate) fn is_repeatable(&self) -> bool {
        matches!(
            self.method.as_str(),
            "notifications/initialized"
                | "notifications/cancelled"
                | "notifications/progress"
                | "notifications/roots/list_changed"
        )
    }
}

/// Why a line is no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not JSON.
    NotJson(String),
    /// It is JSON, and no JSON-RPC message; with the id that it has.
    NotRpc(&'static str, Option<Id>),
}

/// The frames of one line; several, when it is a batch.
pub(crate) fn read(line: &[u8], stamp: &Stamp<'_>) -> Vec<Result<Frame, Refusal>> {
    let not_json = |error: serde_json::Error| Refusal::NotJson(error.to_string());
    let is_batch = line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if !is_batch {
        // Looked at as text first, so that what is no object is told apart from what is no JSON.
        return vec![match serde_json::from_slice::<&RawValue>(line) {
            Ok(raw) => read_one(raw.get(), stamp),
            Err(error) => Err(not_json(error)),
        }];
    }
    match serde_json::from_slice::<Vec<Box<RawValue>>>(line) {
        Err(error) => vec![Err(not_json(error))],
        Ok(batch) if batch.is_empty() => vec![Err(Refusal::NotRpc("a batch is empty", None))],
        Ok(batch) => batch.iter().map(|raw| read_one(raw.get(), stamp)).collect(),
    }
}

fn read_one(text: &str, stamp: &Stamp<'_>) -> Result<Frame, Refusal> {
    let object: Object =
        serde_json::from_str(text).map_err(|_| Refusal::NotRpc("a message must be an object", None))?;
    let method = object.get("method").map(|raw| serde_json::from_str::<String>(raw.get()));
    match (method, object.get("id")) {
        (Some(Err(_)), id) => {
            Err(Refusal::NotRpc("`method` must be a string", id.and_then(|id| Id::of_refused(id.get()))))
        }
        (Some(Ok(method)), Some(id)) => {
            let refuse = || Refusal::NotRpc("ids are texts or whole numbers below 2^63", Id::of_refused(id.get()));
            let id = Id::read(id.get()).ok_or_else(refuse)?;
            Ok(Frame::Request(request(id, method, text, object, stamp)))
        }
        (Some(Ok(method)), None) => {
            let params = nested(&object, "params").unwrap_or_default();
            let version = nested(&params, "_meta").as_ref().and_then(stateless_version);
            Ok(Frame::Notification(Notification { method, text: one_line(text), version, params }))
        }
        (None, Some(_)) if object.contains_key("result") || object.contains_key("error") => {
            Ok(Frame::Response(one_line(text)))
        }
        (None, _) => Err(Refusal::NotRpc("a message has `method`, or `id` with `result` or `error`", None)),
    }
}

fn request(id: Id, method: String, text: &str, mut object: Object, stamp: &Stamp<'_>) -> Request {
    let mut params = nested(&object, "params");
    let mut meta = params.as_ref().and_then(|params| nested(params, "_meta")).unwrap_or_default();
    let version = stateless_version(&meta);
    let progress_token = meta.get("progressToken").and_then(|raw| Id::read(raw.get())).map(|token| token.0);
    let name = params.as_ref().and_then(|params| string(params, name_field(&method)?));
    let mut sender = meta.clone();
    sender.retain(|name, _| name.starts_with("io.modelcontextprotocol/"));
    let mut frame = one_line(text);
    let mut key = None;
    let mut patience = None;
    if let ("tools/call", Some(params)) = (method.as_str(), &mut params) {
        let given = nested(params, "arguments").and_then(|arguments| string(&arguments, "idempotency_key"));
        let chosen = given.or_else(|| string(&meta, IDEMPOTENCY_KEY)).or_else(|| random_key(stamp.entropy));
        if let Some(chosen) = &chosen {
            meta.insert(IDEMPOTENCY_KEY.into(), raw(chosen));
        }
        let said = meta.get(PATIENCE_MS).and_then(|raw| serde_json::from_str(raw.get()).ok());
        patience = said.map(Duration::from_millis).or(stamp.patience).map(|whole| Patience { since: stamp.now, whole });
        params.insert("_meta".into(), raw(&meta));
        object.insert("params".into(), raw(params));
        frame = one_line(raw(&object).get());
        key = chosen;
    }
    Request { id, method, text: frame, patience, name, version, key, progress_token, sender }
}

/// The field of `params` that `Mcp-Name` repeats.
fn name_field(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

fn stateless_version(meta: &Object) -> Option<String> {
    // Versions are dates, which sort as text.
    string(meta, PROTOCOL_VERSION).filter(|version| version.as_str() >= STATELESS_SINCE)
}

/// A key of its own for a call; nothing when there are no random bytes: then the call is not sent a second time.
fn random_key(entropy: &dyn Entropy) -> Option<String> {
    let mut bytes = [0; 16];
    if let Err(error) = entropy.fill(&mut bytes) {
        tracing::warn!(%error, "a call has no key, so that it cannot be sent again");
        return None;
    }
    Some(format!("mcp-{:032x}", u128::from_be_bytes(bytes)))
}

/// The object under `name`.
pub(crate) fn nested(object: &Object, name: &str) -> Option<Object> {
    serde_json::from_str(object.get(name)?.get()).ok()
}

/// The text under `name`.
pub(crate) fn string(object: &Object, name: &str) -> Option<String> {
    serde_json::from_str(object.get(name)?.get()).ok()
}

/// A value as JSON text.
pub(crate) fn raw<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("text, and objects with text keys")
}

/// JSON on one line: a line break in valid JSON is always space between values.
pub(crate) fn one_line(text: &str) -> Bytes {
    match text.contains(['\n', '\r']) {
        false => Bytes::copy_from_slice(text.as_bytes()),
        true => text.replace(['\n', '\r'], " ").into(),
    }
}

/// What an incoming message is.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Something that the server says or asks.
    Said(Object, String),
    /// An answer to the request of this id.
    Answer(Id),
    /// An answer that does not say to what: what a server sends that could not read the request.
    Unaddressed(Object),
    /// Nothing that can be passed on.
    Unknown,
}

/// Looks at a message of the server.
pub(crate) fn look(text: &str) -> Incoming {
    let Ok(object) = serde_json::from_str::<Object>(text) else { return Incoming::Unknown };
    if string(&object, "jsonrpc").as_deref() != Some("2.0") {
        return Incoming::Unknown;
    }
    if let Some(method) = string(&object, "method") {
        return Incoming::Said(object, method);
    }
    if !object.contains_key("result") && !object.contains_key("error") {
        return Incoming::Unknown;
    }
    match object.get("id").map(|id| (Id::read(id.get()), id.get())) {
        Some((Some(id), _)) => Incoming::Answer(id),
        Some((None, "null")) | None => Incoming::Unaddressed(object),
        Some((None, _)) => Incoming::Unknown,
    }
}

/// An error answer of our own.
pub(crate) fn error(id: Option<&Id>, code: i64, message: &str, data: Option<Value>) -> Bytes {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    let id = id.map_or("null", Id::json);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_answers_before_the_proxy_must_however_late_it_got_the_request() {
        let at = |seconds: u64| Instant::from_origin(Duration::ZERO).after(Duration::from_secs(seconds));
        let patience = Patience { since: at(0), whole: Duration::from_secs(100) };
        for (now, told) in [(0, 90), (45, 45), (81, 9), (90, 0), (99, 0)] {
            assert_eq!(patience.left(at(now)), Duration::from_secs(told), "after {now} s");
        }
        for (whole, told) in [(1_000, 500), (6_000, 3_000), (10_000, 7_000), (60_000, 54_000)] {
            let patience = Patience { since: at(0), whole: Duration::from_millis(whole) };
            assert_eq!(patience.left(at(0)), Duration::from_millis(told), "of {whole} ms");
        }
        assert_eq!(patience.last_moment(), at(95));
    }
}
