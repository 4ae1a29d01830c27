//! What each change of memory does to a value. Pure: the current value and the time come in, the next value and the answer go
//! out.

use std::{io, time::Duration};

use drawloom_contract::{
    failure::{Explain, FailureKind},
    time::Timestamp,
};
use serde_json::{Map, Number, Value, json};

/// Maximum entries of a bounded list.
pub const MOST_LIST_ENTRIES: u32 = 10_000;

/// A change of one key, and when it may happen.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub change: Change,
    /// The revision that the key must be at; 0 when it must not exist.
    pub if_revision: Option<u64>,
    /// How long the value is kept from now on. Absent, a change of an existing value leaves its time as it is, and a new one
    /// gets the config's default.
    pub ttl_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Set(Value),
    Delete,
    /// Adds to a number; a key that does not exist counts as 0.
    Incr(Number),
    /// Merges an object into an object, as RFC 7396 says: objects are merged field by field, `null` removes a field.
    Merge(Value),
    /// Appends to a list unless the list has an equal entry.
    AppendDedupe(Value),
    /// Appends to a list and keeps its newest `limit` entries.
    BoundedList {
        value: Value,
        limit: u32,
    },
}

/// What a key has now.
#[derive(Debug, Clone, PartialEq)]
pub struct Current {
    pub value: Value,
    pub revision: u64,
    pub expires_at: Option<Timestamp>,
}

/// What it has afterwards.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Same,
    Removed,
    Put { value: Value, expires_at: Option<Timestamp> },
}

/// What the config allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub value_bytes: u64,
    pub usual_ttl: Option<u64>,
    pub longest_ttl: Option<u64>,
}

/// Why a change is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the key is at revision {found}, not {expected} (0 means that it does not exist)")]
    Stale { expected: u64, found: u64 },
    #[error("the key contains {found}; {change} requires {needed}")]
    WrongType { change: &'static str, needed: &'static str, found: &'static str },
    #[error("{change} requires {needed} as its value, not {given}")]
    WrongValue { change: &'static str, needed: &'static str, given: &'static str },
    #[error("{from} plus {delta} exceeds the exact integer range")]
    Overflow { from: Number, delta: Number },
    #[error("the value would have {bytes} bytes; the limit is {most}")]
    TooLarge { bytes: u64, most: u64 },
    #[error("ttl_seconds must be {}, not {asked}", longest_ttl(*.most))]
    BadTtl { asked: u64, most: Option<u64> },
    #[error("limit must be 1 to {MOST_LIST_ENTRIES}, not {0}")]
    BadLimit(u32),
}

fn longest_ttl(most: Option<u64>) -> String {
    most.map_or_else(|| "1 or more".into(), |most| format!("1 to {most}"))
}

impl Explain for Refusal {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Stale { .. } => FailureKind::Conflict,
            Self::TooLarge { .. } => FailureKind::TooLarge,
            Self::WrongType { .. }
            | Self::WrongValue { .. }
            | Self::Overflow { .. }
            | Self::BadTtl { .. }
            | Self::BadLimit(_) => FailureKind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Stale { .. } => "stale",
            Self::WrongType { .. } | Self::WrongValue { .. } => "wrong_type",
            Self::Overflow { .. } => "number_overflow",
            Self::TooLarge { .. } => "value_too_large",
            Self::BadTtl { .. } => "bad_ttl",
            Self::BadLimit(_) => "bad_limit",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Stale { .. } => "read the key again and retry".into(),
            Self::WrongType { .. } => "use another key, or set this one first".into(),
            Self::WrongValue { .. } | Self::BadLimit(_) => return None,
            Self::Overflow { .. } => "set the key to a smaller number first".into(),
            Self::TooLarge { .. } => "split it over several keys, or raise memory.max_value_bytes".into(),
            Self::BadTtl { .. } => "use a shorter time, or raise memory.max_ttl_seconds".into(),
        })
    }
}

/// What a change makes of a key, and its answer. Only the store knows the new revision, so the answer does not have it.
pub fn apply(ask: &Ask, current: Option<&Current>, now: Timestamp, bounds: Bounds) -> Result<(Next, Value), Refusal> {
    let found = current.map_or(0, |current| current.revision);
    if let Some(expected) = ask.if_revision.filter(|expected| *expected != found) {
        return Err(Refusal::Stale { expected, found });
    }
    let expires_at = expiry(ask, current, now, bounds)?;
    let before = current.map(|current| &current.value);
    let (value, answer) = match &ask.change {
        Change::Delete => {
            let next = if current.is_some() { Next::Removed } else { Next::Same };
            return Ok((next, json!({ "deleted": current.is_some() })));
        }
        Change::Set(value) => (value.clone(), json!({ "ok": true })),
        Change::Incr(delta) => {
            let value = Value::Number(add(before, delta)?);
            (value.clone(), json!({ "value": value }))
        }
        Change::Merge(value) => {
            let merged = merge(before, value)?;
            (merged.clone(), json!({ "value": merged }))
        }
        Change::AppendDedupe(value) => {
            let mut list = list_of("append_dedupe", before)?;
            let appended = !list.contains(value);
            if appended {
                list.push(value.clone());
            }
            let answer = json!({ "appended": appended, "value": list });
            if !appended && ask.ttl_seconds.is_none() {
                return Ok((Next::Same, answer));
            }
            (Value::Array(list), answer)
        }
        Change::BoundedList { value, limit } => {
            if !(1..=MOST_LIST_ENTRIES).contains(limit) {
                return Err(Refusal::BadLimit(*limit));
            }
            let mut list = list_of("bounded_list", before)?;
            list.push(value.clone());
            let dropped = list.len().saturating_sub(*limit as usize);
            list.drain(..dropped);
            let answer = json!({ "dropped": dropped, "value": list });
            (Value::Array(list), answer)
        }
    };
    let bytes = json_bytes(&value);
    if bytes > bounds.value_bytes {
        return Err(Refusal::TooLarge { bytes, most: bounds.value_bytes });
    }
    Ok((Next::Put { value, expires_at }, answer))
}

fn expiry(ask: &Ask, current: Option<&Current>, now: Timestamp, bounds: Bounds) -> Result<Option<Timestamp>, Refusal> {
    let asked = ask.ttl_seconds.map(|asked| match bounds.longest_ttl.is_some_and(|most| asked > most) || asked == 0 {
        true => Err(Refusal::BadTtl { asked, most: bounds.longest_ttl }),
        false => Ok(asked),
    });
    let replaces = matches!(ask.change, Change::Set(_));
    let ttl = match (asked.transpose()?, current) {
        (Some(asked), _) => Some(asked),
        (None, Some(current)) if !replaces => return Ok(current.expires_at),
        (None, _) => bounds.usual_ttl,
    };
    Ok(ttl.map(|seconds| now.after(Duration::from_secs(seconds))))
}

/// Until when an imported entry is kept: its own time, which the config may not allow, or the config's default.
pub fn imported_expiry(asked: Option<Timestamp>, now: Timestamp, bounds: Bounds) -> Result<Option<Timestamp>, Refusal> {
    let Some(time) = asked else {
        return Ok(bounds.usual_ttl.map(|seconds| now.after(Duration::from_secs(seconds))));
    };
    let seconds = time.since(now).as_secs();
    match bounds.longest_ttl.is_some_and(|most| seconds > most) {
        true => Err(Refusal::BadTtl { asked: seconds, most: bounds.longest_ttl }),
        false => Ok(Some(time)),
    }
}

fn add(before: Option<&Value>, delta: &Number) -> Result<Number, Refusal> {
    let from = match before {
        None => Number::from(0),
        Some(Value::Number(number)) => number.clone(),
        Some(other) => {
            return Err(Refusal::WrongType { change: "incr", needed: "a number", found: kind(other) });
        }
    };
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let sum = match (whole(&from), whole(delta)) {
        (Some(left), Some(right)) => {
            let sum = left + right;
            i64::try_from(sum).map(Number::from).or_else(|_| u64::try_from(sum).map(Number::from)).ok()
        }
        // A sum that is too coarse to show what was added would lose it.
        _ => from.as_f64().zip(delta.as_f64()).and_then(|(left, right)| {
            let sum = left + right;
            Number::from_f64(sum).filter(|_| right == 0.0 || sum != left)
        }),
    };
    sum.ok_or_else(|| Refusal::Overflow { from, delta: delta.clone() })
}

fn merge(before: Option<&Value>, patch: &Value) -> Result<Value, Refusal> {
    let Value::Object(fields) = patch else {
        return Err(Refusal::WrongValue { change: "merge", needed: "an object", given: kind(patch) });
    };
    let mut merged = match before {
        None => Map::new(),
        Some(Value::Object(fields)) => fields.clone(),
        Some(other) => return Err(Refusal::WrongType { change: "merge", needed: "an object", found: kind(other) }),
    };
    merge_fields(&mut merged, fields);
    Ok(Value::Object(merged))
}

fn merge_fields(into: &mut Map<String, Value>, fields: &Map<String, Value>) {
    for (name, value) in fields {
        match value {
            Value::Null => _ = into.remove(name),
            Value::Object(inner) => {
                let place = into.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                if let Value::Object(place) = place {
                    merge_fields(place, inner);
                }
            }
            other => _ = into.insert(name.clone(), other.clone()),
        }
    }
}

fn list_of(change: &'static str, before: Option<&Value>) -> Result<Vec<Value>, Refusal> {
    match before {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list.clone()),
        Some(other) => Err(Refusal::WrongType { change, needed: "a list", found: kind(other) }),
    }
}

/// How long a value is as JSON, without making the text.
pub(super) fn json_bytes(value: &Value) -> u64 {
    struct Counter(u64);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("a value has only text keys, and counting does not fail");
    counter.0
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
