//! A login that both the user's CLI and a private copy can renew. Tokens rotate: the old one is worth nothing once a new one was given
//! out. So both files are compared with what they last had in common, and the newer login goes to the other side.

use std::collections::HashMap;

use serde_json::{Map, Value, value::RawValue};

use super::Login;

/// How far ahead of the present a login may say that it is, in milliseconds: tokens name the end of their validity.
const FURTHEST_MILLIS: f64 = 400.0 * 86_400_000.0;

/// What the user's file and the private copy last had in common, by key.
pub(super) type Base = Map<String, Value>;

/// What has to be written so that both sides have the newest login.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Exchange {
    /// Keys of the user's file that get the value of the private copy.
    pub(super) to_user: Base,
    /// The same the other way.
    pub(super) to_private: Base,
}

/// Compares both files. `same_account` says whether both are of the account that the copy began with, `known` whether its name is known.
pub(super) fn compare(
    login: &Login,
    (user, private, base): (&Value, &Value, &Base),
    (same_account, known): (bool, bool),
    now_millis: i64,
) -> Exchange {
    let mut exchange = Exchange::default();
    let (Some(users), true) = (user.as_object(), same_account) else { return exchange };
    let all = login.taken.iter().any(|key| key == "*");
    let keys: Vec<&String> = if all { users.keys().collect() } else { login.taken.iter().collect() };
    for key in keys {
        // A login that the user has removed stays removed.
        let (Some(ours), Some(theirs)) = (users.get(key), private.get(key)) else { continue };
        if ours == theirs {
            continue;
        }
        let newer = |value: &Value, file: &Value| match (&login.newer, all) {
            (None, _) => None,
            (Some(pointer), true) => value.pointer(pointer).cloned(),
            (Some(pointer), false) => file.pointer(pointer).cloned(),
        };
        let own = |value: &Value| login.own_account.as_ref().and_then(|pointer| value.pointer(pointer)).cloned();
        let (own_ours, own_theirs) = (own(ours), own(theirs));
        let order = match (newer(theirs, private), newer(ours, user)) {
            (Some(theirs), ours) if !is_plausible(&theirs, now_millis) => ours.map(|_| false),
            (Some(theirs), Some(ours)) => is_newer(&theirs, &ours),
            (_, _) => None,
        };
        let base = base.get(key);
        let user_changed = base != Some(ours);
        let private_changed = base != Some(theirs);
        // Of two that cannot be told apart the user's holds, unless only the copy has changed.
        let theirs_wins = match order {
            _ if own_ours != own_theirs || !private_changed => false,
            Some(newer) if user_changed => newer && (known || own_ours.is_some()),
            Some(newer) => newer,
            None => !user_changed && login.newer.is_none(),
        };
        match theirs_wins {
            true => exchange.to_user.insert(key.clone(), theirs.clone()),
            false => exchange.to_private.insert(key.clone(), ours.clone()),
        };
    }
    exchange
}

/// Whether one says that it is newer than the other; nothing when they cannot be compared.
fn is_newer(one: &Value, other: &Value) -> Option<bool> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => Some(one.as_f64()? > other.as_f64()?),
        (Value::String(one), Value::String(other)) => Some(one > other),
        _ => None,
    }
}

/// Whether a login can be as new as it says. One that claims to be from the far future would win for ever.
fn is_plausible(stamp: &Value, now_millis: i64) -> bool {
    match stamp {
        Value::Number(stamp) => stamp.as_f64().is_some_and(|stamp| stamp < now_millis as f64 + FURTHEST_MILLIS),
        // A date: the year at its beginning says enough.
        Value::String(stamp) => {
            let year = stamp.get(..4).and_then(|year| year.parse::<i64>().ok());
            year.is_some_and(|year| year <= 1970 + now_millis / 31_556_952_000 + 1)
        }
        _ => false,
    }
}

/// The text of a JSON object with new values for some of its keys. Everything else stays as it is written, byte for byte.
pub(super) fn with_values(text: &str, values: &Base) -> Option<String> {
    let members: HashMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let mut spans = Vec::new();
    for (key, value) in values {
        let raw = members.get(key.as_str())?.get();
        let begin = raw.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        spans.push((begin, begin + raw.len(), serde_json::to_string(value).ok()?));
    }
    spans.sort();
    let (mut written, mut at) = (String::with_capacity(text.len()), 0);
    for (begin, end, value) in spans {
        written.push_str(text.get(at..begin)?);
        written.push_str(&value);
        at = end;
    }
    written.push_str(&text[at..]);
    Some(written)
}
