//! Paths and queries out of an input's fields.

use serde_json::{Map, Value};

use crate::request::{Part, Route};

/// A route's path with its parameters filled in from `input`, and what is left of the input. Fails with the name of a
/// parameter that is not there.
pub(super) fn fill(route: &Route, mut input: Map<String, Value>) -> Result<(String, Map<String, Value>), &'static str> {
    let mut filled = String::new();
    for part in route.parts() {
        filled.push('/');
        match part {
            Part::Literal(text) => filled.push_str(text),
            Part::Field(name) => escape(&text(&input.remove(name).ok_or(name)?), &mut filled),
            Part::Rest(name) => escape_rest(&text(&input.remove(name).ok_or(name)?), &mut filled),
        }
    }
    Ok((filled, input))
}

/// Fields as a query, with its `?`; empty when there are none.
pub(super) fn query(fields: &Map<String, Value>) -> String {
    let mut query = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        query.push(if query.is_empty() { '?' } else { '&' });
        escape(name, &mut query);
        query.push('=');
        escape(&text(value), &mut query);
    }
    query
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Keeps slashes, unless a part between two of them is `.` or `..`: those are resolved on the way.
fn escape_rest(text: &str, out: &mut String) {
    if text.split('/').any(|part| matches!(part, "." | "..")) {
        return escape(text, out);
    }
    for (number, part) in text.split('/').enumerate() {
        if number > 0 {
            out.push('/');
        }
        escape(part, out);
    }
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b',') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(u32::from(digit), 16).expect("half a byte is a digit").to_ascii_uppercase());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn fields_go_into_the_path_and_the_rest_is_left() {
        let input = object(json!({"user_id": "a/b ü", "limit": 5}));
        let (path, rest) = fill(&Route::get("/v1/users/{user_id}/agents"), input).expect("it is there");
        assert_eq!(path, "/v1/users/a%2Fb%20%C3%BC/agents");
        assert_eq!(rest, object(json!({"limit": 5})));
        assert_eq!(fill(&Route::get("/v1/runs/{run_id}"), Map::new()), Err("run_id"));
    }

    #[test]
    fn the_rest_of_a_path_keeps_its_slashes() {
        let filled = |key: &str| {
            let route = Route::put("/v1/values/{space}/{key...}");
            fill(&route, object(json!({"space": "a/b", "key": key}))).expect("both are there").0
        };
        assert_eq!(filled("x/y z/%2F"), "/v1/values/a%2Fb/x/y%20z/%252F");
        assert_eq!(filled("x/../y"), "/v1/values/a%2Fb/x%2F..%2Fy");
    }

    #[test]
    fn a_query_has_lists_with_commas_and_leaves_out_null() {
        let fields = object(json!({"agent": null, "limit": 5, "status": ["queued", "running"], "x y": "&"}));
        assert_eq!(query(&fields), "?limit=5&status=queued,running&x%20y=%26");
        assert_eq!(query(&Map::new()), "");
    }
}
