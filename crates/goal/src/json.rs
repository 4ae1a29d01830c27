//! JSON from models: the one value of the shape that was asked for, with real types.
//!
//! A model often adds prose or a code fence. What is looked for is an array or an object, never "any JSON": the first object inside
//! an array of objects is not the answer. Two different answers are none: a draft, or the form repeated, may be one of them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Maximum number of places in a text where a value is looked for.
const MAX_TRIES: usize = 1_000;

/// What the answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Array,
    Object,
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Array => "a JSON array",
            Self::Object => "a JSON object",
        }
    }
}

/// An answer of a model.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    /// Whether the text has nothing but the value, at most in a code fence.
    pub(crate) is_alone: bool,
}

/// The answer in `text`: the one value of this shape that `parse` can read.
pub(crate) fn read<T>(
    text: &str,
    shape: Shape,
    parse: impl Fn(&Value) -> Result<T, String>,
) -> Result<Answer<T>, String> {
    let (mut read, mut wrong) = (Vec::new(), None);
    let (values, is_alone) = find(text, shape)?;
    for value in values {
        match parse(&value) {
            Ok(value) => read.push(value),
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    match (read.len(), read.pop()) {
        (1, Some(value)) => Ok(Answer { value, is_alone }),
        (0, _) => Err(wrong.unwrap_or_else(|| format!("the answer has no {}", &shape.name()[2..]))),
        (several, _) => {
            Err(format!("the answer has {several} different {}s; it must have exactly one", &shape.name()[2..]))
        }
    }
}

/// The different values of this shape in `text`, and whether one of them is all of it.
fn find(text: &str, shape: Shape) -> Result<(Vec<Value>, bool), String> {
    let text = text.trim();
    if let Some(value) = whole(text)? {
        return match shape.fits(&value) {
            true => Ok((vec![value], true)),
            false => Err(format!("the answer must be {}", shape.name())),
        };
    }
    let fenced: Vec<&str> = fences(text).collect();
    if let ("", [inside], true) = (&text[..text.find("```").unwrap_or(0)], &*fenced, text.ends_with("```"))
        && let Some(value) = whole(inside.trim())?.filter(|value| shape.fits(value))
    {
        return Ok((vec![value], true));
    }
    let mut found: Vec<Value> = Vec::new();
    let mut add = |value: Value| {
        if shape.fits(&value) && !found.contains(&value) {
            found.push(value);
        }
    };
    for inside in fenced {
        whole(inside.trim())?.into_iter().for_each(&mut add);
    }
    outermost(text)?.into_iter().for_each(&mut add);
    match found.is_empty() {
        true => Err(format!("the answer has no {}", &shape.name()[2..])),
        false => Ok((found, false)),
    }
}

/// The value that `text` is, when it is one. A key that an object has twice is refused: readers differ in which one counts.
fn whole(text: &str) -> Result<Option<Value>, String> {
    match serde_json::from_str::<IgnoredAny>(text) {
        // What is JSON can only have a key twice, or a number that no computer has.
        Ok(_) => {
            serde_json::from_str::<Unique>(text).map(|Unique(value)| Some(value)).map_err(|error| error.to_string())
        }
        Err(_) => Ok(None),
    }
}

/// What stands between code fences.
fn fences(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2).map(|block| match block.split_once('\n') {
        // The first line names the language.
        Some((language, rest)) if !language.contains(['{', '[']) => rest,
        _ => block,
    })
}

/// The arrays and objects that are not part of another one.
fn outermost(text: &str) -> Result<Vec<Value>, String> {
    let (mut rest, mut found) = (text, Vec::new());
    for _ in 0..MAX_TRIES {
        let Some(at) = rest.find(['[', '{']) else { break };
        let mut values = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<IgnoredAny>();
        match values.next() {
            // Also one of the other shape is passed over whole: what is in it is not the answer.
            Some(Ok(_)) => {
                let end = at + values.byte_offset().max(1);
                found.extend(whole(&rest[at..end])?);
                rest = &rest[end..];
            }
            _ => rest = &rest[at + 1..],
        }
    }
    Ok(found)
}

/// A value whose objects have no key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Unique(value) = entries.next_value()?;
            if map.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format!("an object has the key {key:?} twice")));
            }
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(text: &str, shape: Shape) -> Result<Value, String> {
        read(text, shape, |value| Ok(value.clone())).map(|answer| answer.value)
    }

    #[test]
    fn a_key_that_an_object_has_twice_is_refused_at_any_depth() {
        let twice = "an object has the key \"ok\" twice";
        for text in [
            r#"{"ok": true, "ok": false}"#,
            r#"{"a": [{"ok": true, "ok": true}]}"#,
            r#"{"\u006fk": true, "ok": false}"#,
            "```json\n{\"ok\": true, \"ok\": false}\n```",
            r#"My verdict: {"ok": {"ok": true}, "ok": {"ok": false}}"#,
        ] {
            let refused = find(text, Shape::Object).expect_err(text);
            assert!(refused.starts_with(twice), "{text}: {refused}");
        }
        assert_eq!(find(r#"{"a": {"ok": 1}, "ok": 2}"#, Shape::Object), Ok(json!({ "a": { "ok": 1 }, "ok": 2 })));
    }

    #[test]
    fn only_a_value_without_anything_around_it_is_alone() {
        let alone = |text: &str| read(text, Shape::Object, |_| Ok(())).map(|answer| answer.is_alone);
        for text in ["{}", "  {} \n", "```json\n{}\n```", "```\n{}\n```\n"] {
            assert_eq!(alone(text), Ok(true), "{text}");
        }
        for text in [
            "Yes: {}",
            "{} is wrong",
            "```json\n{}\n```\nNot really.",
            "See\n```json\n{}\n```",
            "```\n{}\n``` ```\n```",
        ] {
            assert_eq!(alone(text), Ok(false), "{text}");
        }
    }

    #[test]
    fn two_different_answers_are_none_and_what_cannot_be_read_is_not_counted() {
        let text = r#"The form was {"ok": true}. My verdict: {"ok": false}"#;
        assert_eq!(
            find(text, Shape::Object),
            Err("the answer has 2 different JSON objects; it must have exactly one".into())
        );
        let twice = "```json\n{\"ok\": true}\n```\nAs said: {\"ok\": true}";
        assert_eq!(find(twice, Shape::Object), Ok(json!({ "ok": true })));
        let texts = |value: &Value| value[0].as_str().map(str::to_owned).ok_or("not a text".to_owned());
        let read = |text: &str| read(text, Shape::Array, texts).map(|answer| answer.value);
        assert_eq!(read("first[0] is wrong: [\"a\"]"), Ok("a".into()));
        assert_eq!(read("only [0]"), Err("not a text".into()));
    }

    #[test]
    fn an_array_of_objects_in_prose_is_the_array_and_not_its_first_object() {
        let text = "Here is the plan: [{\"id\": \"a\"}, {\"id\": \"b\"}] as you asked.";
        assert_eq!(find(text, Shape::Array), Ok(json!([{ "id": "a" }, { "id": "b" }])));
        assert_eq!(find(text, Shape::Object), Err("the answer has no JSON object".into()));
    }

    #[test]
    fn braces_in_strings_and_text_behind_do_not_matter() {
        assert_eq!(find(r#"{"a":"x }"} and more }"#, Shape::Object), Ok(json!({ "a": "x }" })));
    }

    #[test]
    fn the_fence_with_the_right_shape_is_taken() {
        let text = "```js\nlet x = {}\n```\nthen\n```json\n{\"ok\": true}\n```";
        let ok = |value: &Value| value.get("ok").cloned().ok_or("no ok".to_owned());
        assert_eq!(read(text, Shape::Object, ok).map(|answer| answer.value), Ok(json!(true)));
        let text = "```js\n{}\n```\nthen\n```json\n[1]\n```";
        assert_eq!(find(text, Shape::Array), Ok(json!([1])));
    }

    #[test]
    fn another_shape_as_the_whole_answer_is_refused() {
        assert_eq!(find("\"none\"", Shape::Array), Err("the answer must be a JSON array".into()));
        assert_eq!(find(r#"{"questions": ["a"]}"#, Shape::Array), Err("the answer must be a JSON array".into()));
    }

    #[test]
    fn unmatched_braces_by_the_thousand_end_soon() {
        for unit in ["{", "[", "{\"a\":", "[{"] {
            assert!(find(&unit.repeat(200_000), Shape::Object).is_err());
        }
    }
}
