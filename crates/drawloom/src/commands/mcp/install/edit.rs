//! A server put into a config file; everything else in it stays as it is, comments and spaces included.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstRootNode},
};
use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

use super::clients::Form;

/// What the server is called in every config.
const NAME: &str = "drawloom";

/// `text` with `entry` as the server's, and whether one was there. Fails in words when the file is not what it should be.
pub(super) fn put(text: &str, form: Form, entry: &Value) -> Result<(String, bool), String> {
    match form {
        Form::Json(key) => put_json(text, key, entry),
        Form::Toml(key) => put_toml(text, key, entry),
    }
}

fn put_json(text: &str, key: &str, entry: &Value) -> Result<(String, bool), String> {
    let blank = text.trim().is_empty();
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    };
    let root = CstRootNode::parse(if blank { "{}\n" } else { text }, &options)
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let whole = root.object_value().ok_or("it is not a JSON object")?;
    let servers = whole.object_value_or_create(key).ok_or_else(|| format!("{key:?} is not an object"))?;
    let mine = servers.get(NAME);
    let was_there = mine.is_some();
    // What is the same is left alone, however it is written.
    let same = mine.as_ref().and_then(|mine| mine.to_serde_value()).is_some_and(|found| found == *entry);
    if same {
        return Ok((text.to_owned(), true));
    }
    match mine {
        Some(mine) => mine.set_value(input(entry)),
        None => drop(servers.append(NAME, input(entry))),
    }
    Ok((root.to_string(), was_there))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(_) => {
            CstInputValue::Object(fields(value).map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

/// The fields of an entry in the order in which people write them.
fn fields(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let place = |name: &str| ["type", "enabled", "command", "args"].iter().position(|first| *first == name);
    let mut fields: Vec<_> = entry.as_object().into_iter().flatten().collect();
    fields.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    fields.into_iter()
}

fn put_toml(text: &str, key: &str, entry: &Value) -> Result<(String, bool), String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let servers = document.entry(key).or_insert(Item::Table(implicit));
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("{key:?} is not a table"))?;
    let was_there = servers.contains_key(NAME);
    let mine = servers.entry(NAME).or_insert(Item::Table(Table::new()));
    let mine = mine.as_table_like_mut().ok_or_else(|| format!("{key}.{NAME} is not a table"))?;
    let mut changed = false;
    for (name, wanted) in fields(entry) {
        if says(mine, name, wanted) {
            continue;
        }
        changed = true;
        match mine.get_mut(name).and_then(Item::as_value_mut) {
            Some(found) => {
                // A comment behind it stays.
                let decor = found.decor().clone();
                *found = value(wanted);
                *found.decor_mut() = decor;
            }
            None => drop(mine.insert(name, Item::Value(value(wanted)))),
        }
    }
    Ok((if changed { document.to_string() } else { text.to_owned() }, was_there))
}

fn says(table: &dyn TableLike, name: &str, wanted: &Value) -> bool {
    let Some(found) = table.get(name) else { return false };
    match wanted {
        Value::String(text) => found.as_str() == Some(text),
        Value::Array(items) => found.as_array().is_some_and(|found| {
            found.len() == items.len() && found.iter().zip(items).all(|(one, other)| one.as_str() == other.as_str())
        }),
        _ => false,
    }
}

/// Texts and lists of texts: all that an entry in TOML has.
fn value(value: &Value) -> toml_edit::Value {
    match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Array>().into(),
        value => value.as_str().unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        json!({ "command": "drawloom", "args": ["mcp"] })
    }

    #[test]
    fn json_keeps_its_comments_and_other_entries() {
        let before = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // why\n  },\n}\n";
        let (after, was_there) = put(before, Form::Json("mcpServers"), &entry()).expect("JSON");
        insta::assert_snapshot!(after, @r#"
        {
          // mine
          "theme": "dark",
          "mcpServers": {
            "other": { "command": "x" }, // why
            "drawloom": {
              "command": "drawloom",
              "args": ["mcp"],
            },
          },
        }
        "#);
        assert!(!was_there);
        assert_eq!(put(&after, Form::Json("mcpServers"), &entry()).expect("JSON"), (after, true));
    }

    #[test]
    fn an_entry_of_ours_is_replaced_and_nothing_else() {
        let before = r#"{"a":1,"mcp":{"x":{},"drawloom":{"command":"old","more":true},"y":[1, 2]}}"#;
        let (after, was_there) = put(before, Form::Json("mcp"), &entry()).expect("JSON");
        insta::assert_snapshot!(after, @r#"
        {"a":1,"mcp":{"x":{},"drawloom":{
              "command": "drawloom",
              "args": ["mcp"]
            },"y":[1, 2]}}
        "#);
        assert!(was_there);
    }

    #[test]
    fn a_file_that_is_not_there_is_made() {
        insta::assert_snapshot!(put("", Form::Json("servers"), &entry()).expect("JSON").0, @r#"
        {
          "servers": {
            "drawloom": {
              "command": "drawloom",
              "args": ["mcp"]
            }
          }
        }
        "#);
        insta::assert_snapshot!(put("", Form::Toml("mcp_servers"), &entry()).expect("TOML").0, @r#"
        [mcp_servers.drawloom]
        command = "drawloom"
        args = ["mcp"]
        "#);
    }

    #[test]
    fn toml_keeps_its_comments_and_what_else_is_said_of_us() {
        let before = "# mine\nmodel = \"m\"   # which\n\n[mcp_servers.other]\ncommand = 'x'\n\n[mcp_servers.drawloom]\ncommand = \"old\" # hm\ntool_timeout_sec = 600\n\n[tail]\nx = 1\n";
        let (after, was_there) = put(before, Form::Toml("mcp_servers"), &entry()).expect("TOML");
        insta::assert_snapshot!(after, @r#"
        # mine
        model = "m"   # which

        [mcp_servers.other]
        command = 'x'

        [mcp_servers.drawloom]
        command = "drawloom" # hm
        tool_timeout_sec = 600
        args = ["mcp"]

        [tail]
        x = 1
        "#);
        assert!(was_there);
        assert_eq!(put(&after, Form::Toml("mcp_servers"), &entry()).expect("TOML"), (after, true));
    }

    #[test]
    fn what_is_not_as_it_should_be_is_refused_and_not_overwritten() {
        for (text, form) in [
            ("[1]", Form::Json("mcp")),
            ("{\"mcp\": 7}", Form::Json("mcp")),
            ("{\"mcp\": ", Form::Json("mcp")),
            ("mcp = 7", Form::Toml("mcp")),
            ("mcp = [", Form::Toml("mcp")),
            ("[mcp]\ndrawloom = 7", Form::Toml("mcp")),
        ] {
            assert!(put(text, form, &entry()).is_err(), "{text}");
        }
    }
}
