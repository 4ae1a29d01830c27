//! JSON from models: the first value of the shape that was asked for, with real types.
//!
//! A model often adds prose or a code fence. What is looked for is an array or an object, never "any JSON": the first object inside
//! an array of objects is not the answer.

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
    fn opening(self) -> char {
        match self {
            Self::Array => '[',
            Self::Object => '{',
        }
    }

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

/// The value of this shape in `text`: all of it, the content of a code fence, or the first one that stands outside of another value.
pub(crate) fn find(text: &str, shape: Shape) -> Result<Value, String> {
    let text = text.trim();
    let whole = serde_json::from_str::<Value>(text);
    match whole {
        Ok(value) if shape.fits(&value) => return Ok(value),
        Ok(_) => return Err(format!("the answer must be {}", shape.name())),
        Err(_) => {}
    }
    let fenced = fences(text).filter_map(|inside| serde_json::from_str::<Value>(inside.trim()).ok());
    if let Some(value) = fenced.into_iter().find(|value| shape.fits(value)) {
        return Ok(value);
    }
    outermost(text, shape).ok_or_else(|| format!("the answer has no {}", &shape.name()[2..]))
}

/// What stands between code fences.
fn fences(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2).map(|block| match block.split_once('\n') {
        // The first line names the language.
        Some((language, rest)) if !language.contains(['{', '[']) => rest,
        _ => block,
    })
}

/// The first value of the shape that is not part of another array or object.
fn outermost(text: &str, shape: Shape) -> Option<Value> {
    let mut rest = text;
    for _ in 0..MOST_TRIES {
        let at = rest.find(['[', '{'])?;
        let mut values = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) if shape.fits(&value) && rest[at..].starts_with(shape.opening()) => return Some(value),
            // A whole value of the other shape: what is in it is not the answer.
            Some(Ok(_)) => rest = &rest[at + values.byte_offset().max(1)..],
            _ => rest = &rest[at + 1..],
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        assert_eq!(find(text, Shape::Object), Ok(json!({ "ok": true })));
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
