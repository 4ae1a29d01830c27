//! The frontmatter of Markdown files as people write it: YAML, or nearly.
//!
//! A text that is valid YAML is read as YAML. Any other is read field by field, because one unquoted colon must not lose the
//! rest: each line that begins a field starts a piece, each piece is read as YAML, and a piece that is not YAML is taken as text.

use std::collections::{BTreeMap, btree_map::Entry};

use serde_json::Value;

use drawloom_substrate::frontmatter;

use crate::config::yaml;

/// What a Markdown file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Document {
    /// The fields of its frontmatter.
    pub(crate) fields: BTreeMap<String, Field>,
    /// Everything after the frontmatter, with `\n` as line end and without blank lines around it.
    pub(crate) body: String,
    /// What is wrong with the frontmatter, and the line of the file.
    pub(crate) faults: Vec<(usize, String)>,
    /// Whether there is a frontmatter.
    pub(crate) has_fields: bool,
}

/// A field and its line in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

impl Document {
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let (head, body) = frontmatter(&text);
        let mut document = Self { body: body.trim_matches(['\n', ' ', '\t']).to_owned(), ..Self::default() };
        let Some(head) = head else {
            if text.trim_start_matches(['\u{feff}', '\n', ' ']).starts_with("---\n") {
                document
                    .faults
                    .push((1, "the frontmatter has no closing `---`; the whole file is taken as text".into()));
            }
            return document;
        };
        document.has_fields = true;
        // Lines before the fields: blank ones, and the opening `---`.
        let offset = text[..text.find(head).unwrap_or_default()].matches('\n').count();
        let parsed = yaml::parse(0, head.as_bytes()).map_err(|fault| (fault.at.line, fault.message));
        let parsed = parsed.map(|(node, faults)| {
            let faults = faults
                .into_iter()
                .map(|fault| (offset + fault.at.line, format!("{}; the last one counts", fault.message)));
            document.faults.extend(faults);
            node.to_value()
        });
        match parsed {
            Ok(Value::Object(map)) => {
                let lines: BTreeMap<&str, usize> = pieces(head).map(|piece| (piece.key, piece.line)).collect();
                document.fields.extend(map.into_iter().map(|(key, value)| {
                    let line = offset + lines.get(key.as_str()).copied().unwrap_or(1);
                    (key, Field { line, value })
                }));
            }
            Ok(_) => document.faults.push((offset + 1, "the frontmatter has no fields".into())),
            Err((line, message)) => {
                document.faults.push((offset + line, format!("{message}; the frontmatter was read field by field")));
                for piece in pieces(head) {
                    let field = Field { line: offset + piece.line, value: piece.value() };
                    match document.fields.entry(piece.key.to_owned()) {
                        Entry::Vacant(place) => drop(place.insert(field)),
                        Entry::Occupied(first) => document.faults.push((
                            field.line,
                            format!(
                                "key {:?} stands here a second time; the first one, in line {}, counts",
                                piece.key,
                                first.get().line
                            ),
                        )),
                    }
                }
            }
        }
        document
    }

    /// A field as text; nothing when it is absent, null or empty.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let text = match &self.fields.get(key)?.value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        (!text.is_empty()).then_some(text)
    }
}

/// A field's lines.
struct Piece<'a> {
    key: &'a str,
    /// Its first line, from 1.
    line: usize,
    text: &'a str,
}

impl Piece<'_> {
    /// Its value: as YAML, or else as the text after the colon with the lines below it.
    fn value(&self) -> Value {
        let spaced = self.text.replace('\t', "  ");
        let parsed = yaml::parse(0, spaced.as_bytes()).ok().map(|(node, _)| node.to_value());
        if let Some(Value::Object(mut map)) = parsed
            && let Some(value) = map.remove(self.key)
        {
            return value;
        }
        let after = self.text.split_once(':').map_or("", |(_, rest)| rest).trim();
        let after = after.strip_prefix(['|', '>']).map_or(after, |rest| rest.trim_start_matches(['-', '+']).trim());
        let quoted = ['"', '\''].iter().find_map(|quote| after.strip_prefix(*quote)?.strip_suffix(*quote));
        Value::String(quoted.unwrap_or(after).to_owned())
    }
}

/// Splits a frontmatter at the lines that begin a field: a word, then a colon, at the first column.
fn pieces(head: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut starts: Vec<(usize, usize, &str)> = Vec::new();
    let mut at = 0;
    for (number, line) in head.split_inclusive('\n').enumerate() {
        let key = line.split_once(':').map_or("", |(key, _)| key);
        let is_word = |sign: char| sign.is_alphanumeric() || "_-".contains(sign);
        if !key.is_empty() && key.chars().all(is_word) {
            starts.push((number + 1, at, key));
        }
        at += line.len();
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|(_, start, _)| *start).chain([head.len()]).collect();
    starts.into_iter().zip(ends).map(|((line, start, key), end)| Piece { key, line, text: &head[start..end] })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(text: &str) -> Value {
        let document = Document::parse(text);
        document.fields.into_iter().map(|(key, field)| (key, field.value)).collect::<serde_json::Map<_, _>>().into()
    }

    #[test]
    fn valid_yaml_is_read_as_yaml_with_lines() {
        let document = Document::parse(
            "---\nname: a\ntools:\n  - Read\n  - Grep\ndescription: |\n  One.\n  Two.\n---\n\nBody.\n\n",
        );
        assert_eq!(document.fields["name"], Field { line: 2, value: json!("a") });
        assert_eq!(document.fields["tools"], Field { line: 3, value: json!(["Read", "Grep"]) });
        assert_eq!(document.fields["description"].value, json!("One.\nTwo.\n"));
        assert_eq!((document.body.as_str(), document.faults.len()), ("Body.", 0));
    }

    #[test]
    fn what_is_not_yaml_is_read_field_by_field_and_said() {
        let text = "---\nname: reviewer\ndescription: Use this: when user: \"Hi\" says\\nassistant: \"x\"\ntools: Read, Grep\n\
                    model: opus\n\tcolor: red\n---\nBody";
        let document = Document::parse(text);
        assert_eq!(document.text("name").as_deref(), Some("reviewer"));
        assert!(document.text("description").expect("text").starts_with("Use this: when user: \"Hi\""), "{document:?}");
        assert_eq!(document.text("tools").as_deref(), Some("Read, Grep"));
        assert_eq!(document.fields["tools"].line, 4);
        assert_eq!(document.faults.len(), 1);
        assert_eq!(document.body, "Body");
    }

    #[test]
    fn a_key_that_stands_there_twice_is_said() {
        let document = Document::parse("---\nname: a\ntools: Read\nname: b\n---\n");
        assert_eq!(document.text("name").as_deref(), Some("b"));
        assert_eq!(document.faults.len(), 1, "{document:?}");
        assert!(document.faults[0].0 == 4 && document.faults[0].1.contains("the last one counts"), "{document:?}");
        let broken = Document::parse("---\nname: a\ntools: Read: x: y\nname: b\n---\n");
        assert_eq!(broken.text("name").as_deref(), Some("a"));
        assert!(
            broken.faults.iter().any(|(line, fault)| *line == 4 && fault.contains("in line 2, counts")),
            "{broken:?}"
        );
    }

    #[test]
    fn lists_keep_their_form_beside_a_broken_field() {
        let text = "---\ndescription: a: b: c\ntools:\n  - Read\n  - Bash(git:*)\nskills: [a, b]\n---\n";
        let found = fields(text);
        assert_eq!(found["tools"], json!(["Read", "Bash(git:*)"]));
        assert_eq!(found["skills"], json!(["a", "b"]));
        assert_eq!(found["description"], json!("a: b: c"));
    }

    #[test]
    fn tags_anchors_quotes_and_starts_of_other_values_become_text() {
        let found = fields("---\na: @x\nb: `y`\nc: *missing\nd: 'open\ne: !tag v\nf: [1, 2\ng: \"q: r\" s\n---\n");
        assert_eq!(found["a"], json!("@x"));
        assert_eq!(found["c"], json!("*missing"));
        assert_eq!(found["d"], json!("'open"));
        assert_eq!(found["f"], json!("[1, 2"));
    }

    #[test]
    fn an_open_frontmatter_and_none_at_all_are_text() {
        let open = Document::parse("---\nname: a\n\nText");
        assert_eq!((open.has_fields, open.faults.len()), (false, 1));
        assert_eq!(Document::parse("Only text.\r\nTwo\r\n").body, "Only text.\nTwo");
        assert_eq!(Document::parse("").body, "");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_broken_to_read(text in "(---\n)?([a-z]{1,3}: ?[-\\[{|>&*!%@`'\"#:\t a-z]{0,12}\n|[ \t-]{0,3}[a-z:]{0,6}\n){0,8}(---\n)?[a-z]{0,5}") {
            let _ = Document::parse(&text);
        }
    }
}
