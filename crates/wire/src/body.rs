//! JSON bodies: parsed once, with a typed error for each way in which bytes are not JSON.

use std::fmt;

use drawloom_contract::failure::{Failure, FailureKind};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use crate::{numbers, validate::Problem};

/// The most bytes of a request body.
pub const MAX_BODY: usize = 16 * 1024 * 1024;

/// The most bytes of a batch's body.
pub const MAX_BATCH_BODY: usize = 8 * 1024 * 1024;

/// How deep JSON may be nested; the parser's own limit.
pub const MAX_DEPTH: usize = 127;

/// Reads a body. No bytes at all are an empty object, for operations that need nothing.
pub fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value = serde_json::from_slice::<Strict>(bytes).map(|strict| strict.0).map_err(|error| {
        let refuse = |code, message| Failure::new(FailureKind::Invalid, code, message);
        // The parser has no kind for this, only words.
        if error.to_string().starts_with("recursion limit") {
            return refuse("too_deep", format!("the body is nested deeper than {MAX_DEPTH} levels"))
                .with_hint("flatten it, or send the deep part as text");
        }
        // Everything is JSON to a value, so what does not fit is a key that is there twice.
        if error.is_data() {
            return refuse("repeated_key", format!("the body is ambiguous: {error}")).with_hint("say each key once");
        }
        match std::str::from_utf8(bytes) {
            Err(bad) => refuse("invalid_json", format!("the body is not UTF-8: byte {} is wrong", bad.valid_up_to()))
                .with_hint("send JSON in UTF-8"),
            Ok(_) => refuse("invalid_json", format!("the body is not JSON: {error}")).with_hint("send one JSON object"),
        }
    })?;
    numbers::check(bytes, "the body")?;
    Ok(value)
}

/// The failure that a surface shows for a value with problems. Its code is the problems' own when they agree.
pub fn refuse(problems: &[Problem]) -> Failure {
    let code = match problems {
        [first, rest @ ..] if rest.iter().all(|problem| problem.code == first.code) => first.code,
        _ => "invalid_request",
    };
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let mut failure = Failure::new(FailureKind::Invalid, code, messages.join("; "));
    let hints: Vec<&str> = problems.iter().filter_map(|problem| problem.hint.as_deref()).collect();
    if !hints.is_empty() {
        failure.hint = Some(hints.join("; "));
    }
    failure
}

/// A value in whose objects no key is there twice. Serde's own takes the last one and says nothing.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = access.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                let shown: String = key.chars().take(80).collect();
                return Err(A::Error::custom(format_args!("the key {shown:?} is there twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(bytes: &[u8]) -> Option<&'static str> {
        parse(bytes).err().map(|failure| failure.code)
    }

    #[test]
    fn what_is_not_json_is_refused_by_name() {
        assert_eq!(parse(b""), Ok(Value::Object(Map::new())));
        assert_eq!(code(b"{\"a\": [1, {\"b\": null, \"b\": null}]}"), Some("repeated_key"));
        assert_eq!(code(b"{\"a\": 1,}"), Some("invalid_json"));
        assert_eq!(code(b"{} {}"), Some("invalid_json"));
        assert_eq!(code(b"{\"a\": \"\xff\"}"), Some("invalid_json"));
        assert_eq!(code(b"1e999"), Some("invalid_json"));
        assert_eq!(code(b"{\"a\": 18446744073709551616}"), Some("number_too_large"));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(code(nested(MAX_DEPTH).as_bytes()), None);
        assert_eq!(code(nested(MAX_DEPTH + 1).as_bytes()), Some("too_deep"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_json_is_read_as_serde_reads_it(bytes in prop::collection::vec(any::<u8>(), 1..60), text in "[\\[\\]{}:,\"a0-9.e+ -]{1,30}") {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                match parse(bytes) {
                    Ok(value) => prop_assert_eq!(serde_json::from_slice::<Value>(bytes).ok(), Some(value)),
                    Err(failure) if matches!(failure.code, "repeated_key" | "number_too_large") => {}
                    Err(_) => prop_assert!(serde_json::from_slice::<Value>(bytes).is_err()),
                }
            }
        }
    }
}
