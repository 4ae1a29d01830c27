//! A schema in plainer words that mean the same: references to anchors as pointers, and counts such as `1.0` as `1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What counts something.
pub(super) const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

/// The schema in plainer words; nothing, when its references to anchors would be longer than `most` bytes in all.
pub(super) fn plain(schema: &Value, most: usize) -> Option<Value> {
    let mut anchors = Anchors { places: BTreeMap::new(), left: most };
    anchors.find(schema, &mut String::from("#"))?;
    let mut plain = schema.clone();
    anchors.left = most;
    anchors.rewrite(&mut plain)?;
    Some(plain)
}

/// Where the anchors of a schema are.
struct Anchors {
    places: BTreeMap<String, String>,
    /// How many bytes may still be written: a place can be long, and be named often.
    left: usize,
}

/// The text with its `%XX` as what they stand for; nothing when it is not well written.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits =
            str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// What lies below a value, and under which key.
fn below(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1").replace('%', "%25"), value))
            .collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    }
}

impl Anchors {
    fn find(&mut self, value: &Value, path: &mut String) -> Option<()> {
        if let Some(name) = value.get("$anchor").and_then(Value::as_str) {
            self.left = self.left.checked_sub(path.len())?;
            self.places.entry(format!("#{name}")).or_insert_with(|| path.clone());
        }
        let length = path.len();
        for (key, value) in below(value) {
            path.push('/');
            path.push_str(&key);
            self.find(value, path)?;
            path.truncate(length);
        }
        Some(())
    }

    fn rewrite(&mut self, value: &mut Value) -> Option<()> {
        match value {
            Value::Object(map) => self.rewrite_map(map),
            Value::Array(list) => list.iter_mut().try_for_each(|value| self.rewrite(value)),
            _ => Some(()),
        }
    }

    fn rewrite_map(&mut self, map: &mut Map<String, Value>) -> Option<()> {
        if map.get("$anchor").is_some_and(Value::is_string) {
            map.remove("$anchor");
        }
        for (key, value) in map.iter_mut() {
            if let Some(place) = value.as_str().filter(|_| key == "$ref").and_then(|name| self.places.get(name)) {
                self.left = self.left.checked_sub(place.len())?;
                *value = place.as_str().into();
            } else if let Some(count) = value.as_f64().filter(|_| COUNTS.contains(&key.as_str())).and_then(whole) {
                *value = count.into();
            } else {
                self.rewrite(value)?;
            }
        }
        Some(())
    }
}

/// A number that is whole and small enough to be written without a point.
fn whole(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn anchors_become_pointers_and_counts_are_whole() {
        let schema = json!({
            "properties": {"a": {"$ref": "#one"}, "b": {"maxLength": 2.0}, "c": {"minLength": 0.5}},
            "$defs": {"x/y%": {"$anchor": "one", "type": "string"}},
        });
        let expected = json!({
            "properties": {"a": {"$ref": "#/$defs/x~1y%25"}, "b": {"maxLength": 2}, "c": {"minLength": 0.5}},
            "$defs": {"x/y%": {"type": "string"}},
        });
        assert_eq!(plain(&schema, 100), Some(expected));
        assert_eq!(plain(&schema, 10), None);
    }

    #[test]
    fn a_long_place_that_is_named_often_is_not_written_often() {
        let refs: Vec<Value> = (0..2_500).map(|_| json!({"$ref": "#a"})).collect();
        let schema = json!({"allOf": refs, "$defs": {"%".repeat(20_000): {"$anchor": "a"}}});
        assert_eq!(plain(&schema, 64 * 1024), None);
        let anchors: Map<String, Value> =
            (0..2_000).map(|at| (at.to_string(), json!({"$anchor": at.to_string()}))).collect();
        let schema = json!({"$defs": {"x".repeat(20_000): {"$defs": anchors}}});
        assert_eq!(plain(&schema, 64 * 1024), None);
    }

    #[test]
    fn a_text_is_decoded_or_refused() {
        assert_eq!(decoded("/a%20b%c3%a4").as_deref(), Some("/a bä"));
        for bad in ["%", "%2", "%zz", "%ff", "%+1"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
