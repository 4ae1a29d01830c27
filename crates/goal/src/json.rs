//! JSON from models: the one value of the shape that was asked for, with real types.
//!
//! A model often adds prose or a code fence. What is looked for is an array or an object, never "any JSON": the first object inside
//! an array of objects is not the answer. Two different answers are none: a draft, or the form repeated, may be one of them.

use serde_json::Value;

/// Most places in a text where a value is tried.
const MOST_TRIES: usize = 1_000;

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

/// The answer in `text`: the one value of this shape that `parse` can read.
pub(crate) fn read<T>(text: &str, shape: Shape, parse: impl Fn(&Value) -> Result<T, String>) -> Result<T, String> {
    let (mut read, mut wrong) = (Vec::new(), None);
    for value in find(text, shape)? {
        match parse(&value) {
            Ok(value) => read.push(value),
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    match (read.len(), read.pop()) {
        (1, Some(value)) => Ok(value),
        (0, _) => Err(wrong.unwrap_or_else(|| format!("the answer has no {}", &shape.name()[2..]))),
        (several, _) => {
            Err(format!("the answer has {several} different {}s; it must have exactly one", &shape.name()[2..]))
        }
    }
}

/// The different values of this shape in `text`: all of it, or those that stand outside of another value.
fn find(text: &str, shape: Shape) -> Result<Vec<Value>, String> {
    let text = text.trim();
    match serde_json::from_str::<Value>(text) {
        Ok(value) if shape.fits(&value) => return Ok(vec![value]),
        Ok(_) => return Err(format!("the answer must be {}", shape.name())),
        Err(_) => {}
    }
    let fenced = fences(text).filter_map(|inside| serde_json::from_str::<Value>(inside.trim()).ok());
    let mut found: Vec<Value> = Vec::new();
    for value in fenced.filter(|value| shape.fits(value)).chain(outermost(text, shape)) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    match found.is_empty() {
        true => Err(format!("the answer has no {}", &shape.name()[2..])),
        false => Ok(found),
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

/// The values of the shape that are not part of another array or object.
fn outermost(text: &str, shape: Shape) -> Vec<Value> {
    let (mut rest, mut found) = (text, Vec::new());
    for _ in 0..MOST_TRIES {
        let Some(at) = rest.find(['[', '{']) else { break };
        let mut values = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Value>();
        match values.next() {
            // Also one of the other shape is passed over whole: what is in it is not the answer.
            Some(Ok(value)) => {
                found.extend(Some(value).filter(|value| shape.fits(value)));
                rest = &rest[at + values.byte_offset().max(1)..];
            }
            _ => rest = &rest[at + 1..],
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(text: &str, shape: Shape) -> Result<Value, String> {
        read(text, shape, |value| Ok(value.clone()))
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
        assert_eq!(read("first[0] is wrong: [\"a\"]", Shape::Array, texts), Ok("a".into()));
        assert_eq!(read("only [0]", Shape::Array, texts), Err("not a text".into()));
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
        assert_eq!(read(text, Shape::Object, ok), Ok(json!(true)));
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
