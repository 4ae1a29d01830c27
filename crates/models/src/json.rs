//! JSON that is read where it lies. Whatever a server sends, no tree of values is made of it: that would take a hundred times the memory
//! of the text. Each look at a key goes over the text once.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Most elements of an array that are read; the others are left out.
pub(crate) const MOST_ITEMS: usize = 10_000;

/// A value in valid JSON; an empty text where there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'a>(&'a str);

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(text: &'a RawValue) -> Self {
        Self(text.get())
    }
}

impl<'a> Json<'a> {
    /// What an object has under `key`. Of several the last, as everywhere.
    pub(crate) fn get(self, key: &str) -> Self {
        let found = serde_json::Deserializer::from_str(self.0).deserialize_map(Find(key));
        Self(found.ok().flatten().unwrap_or_default())
    }

    /// The elements of an array; none of anything else.
    pub(crate) fn items(self) -> Vec<Self> {
        serde_json::Deserializer::from_str(self.0).deserialize_seq(Items).unwrap_or_default()
    }

    /// How many keys an object has.
    pub(crate) fn keys(self) -> Option<usize> {
        serde_json::Deserializer::from_str(self.0).deserialize_map(Count).ok()
    }

    pub(crate) fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    pub(crate) fn text(self) -> Option<String> {
        serde_json::from_str(self.0).ok()
    }

    pub(crate) fn is_text(self, text: &str) -> bool {
        self.text().as_deref() == Some(text)
    }

    pub(crate) fn number(self) -> Option<u64> {
        serde_json::from_str(self.0).ok()
    }

    pub(crate) fn truth(self) -> Option<bool> {
        serde_json::from_str(self.0).ok()
    }
}

struct Find<'k>(&'k str);

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<&'de str>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(KeyIs(self.0))? {
            if is_it {
                found = Some(map.next_value::<&RawValue>()?.get());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares a key without a copy of it.
struct KeyIs<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for KeyIs<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyIs<'_> {
    type Value = bool;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Json<'de>>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < MOST_ITEMS {
            let Some(item) = seq.next_element::<&RawValue>()? else { return Ok(items) };
            items.push(item.into());
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

struct Count;

impl<'de> Visitor<'de> for Count {
    type Value = usize;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> Json<'_> {
        Json::from(serde_json::from_str::<&RawValue>(text).expect("valid JSON"))
    }

    #[test]
    fn values_are_found_and_what_is_of_another_kind_is_none() {
        let json = root(r#" {"a": {"\u0062": [1, "x\n", {}]}, "c": 5, "c": true, "d": -1} "#);
        let items = json.get("a").get("b").items();
        assert_eq!((items[0].number(), items[1].text().as_deref(), items[2].keys()), (Some(1), Some("x\n"), Some(0)));
        assert_eq!((json.get("c").truth(), json.get("c").number(), json.get("d").number()), (Some(true), None, None));
        assert_eq!((json.keys(), json.get("a").keys(), json.get("c").keys()), (Some(4), Some(1), None));
        let missing = json.get("x").get("y");
        assert_eq!((missing.text(), missing.items().len(), missing.is_array()), (None, 0, false));
        assert!(json.get("a").get("b").is_array() && items[1].is_text("x\n") && !items[0].is_text("1"));
    }

    #[test]
    fn no_array_gives_more_than_the_first_items() {
        let many = format!("[0{}]", ",0".repeat(MOST_ITEMS + 5));
        assert_eq!(root(&many).items().len(), MOST_ITEMS);
    }
}
