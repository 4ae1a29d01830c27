//! A server put into a config file; everything else in it stays as it is, comments and spaces included.

use std::collections::BTreeSet;

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

use super::clients::Form;

/// What the server is called in every config.
pub(super) const NAME: &str = "drawloom";

/// Fields that lead to a server elsewhere: beside a command they would say two things at once.
const ELSEWHERE: [&str; 3] = ["url", "httpUrl", "serverUrl"];

/// What is said to a server elsewhere, and to no other.
const SAID_ELSEWHERE: [&str; 2] = ["headers", "oauth"];

/// The same in TOML, that is for Codex, which refuses its whole config when one of them stands beside a command.
const SAID_ELSEWHERE_TOML: [&str; 5] =
    ["bearer_token", "bearer_token_env_var", "env_http_headers", "http_headers", "oauth_resource"];

/// What some editors of other systems put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// `text` with `entry` as the server's, and whether one was there: of that one everything stays that the entry does not
/// say otherwise. Fails in words when the file is not what it should be.
pub(super) fn put(text: &str, form: Form, entry: &Value) -> Result<(String, bool), String> {
    let (mark, text) = split_mark(text);
    let (after, was_there) = match form {
        Form::Json(key) => put_json(text, key, entry),
        Form::Toml(key) => put_toml(text, key, entry),
    }?;
    Ok((format!("{mark}{after}"), was_there))
}

/// The server's entry in a text that `put` can change.
pub(super) fn find(text: &str, form: Form) -> Option<Value> {
    let (_, text) = split_mark(text);
    match form {
        Form::Json(key) => {
            let whole = CstRootNode::parse(text, &json_options()).ok()?.object_value()?;
            whole.get(key)?.object_value()?.get(NAME)?.value()?.to_serde_value()
        }
        Form::Toml(key) => {
            let document: DocumentMut = text.parse().ok()?;
            let mine = document.get(key)?.as_table_like()?.get(NAME)?.as_table_like()?;
            let fields = mine.iter().filter_map(|(name, item)| Some((name.to_owned(), json_of(item)?)));
            Some(Value::Object(fields.collect()))
        }
    }
}

/// Whether a field that is there need not be changed: it is the same, or a larger number. A number of ours is a timeout, and a user may
/// want a longer one.
pub(super) fn is_enough(found: &Value, wanted: &Value) -> bool {
    let larger = found.as_f64().zip(wanted.as_f64()).is_some_and(|(found, wanted)| found >= wanted);
    found == wanted || larger
}

/// A text, a number or a list of texts, as JSON; nothing else is in an entry of ours.
fn json_of(item: &Item) -> Option<Value> {
    match item.as_value()? {
        toml_edit::Value::String(text) => Some(text.value().as_str().into()),
        toml_edit::Value::Integer(number) => Some((*number.value()).into()),
        toml_edit::Value::Float(number) => Some((*number.value()).into()),
        toml_edit::Value::Array(items) => Some(items.iter().filter_map(toml_edit::Value::as_str).collect()),
        _ => None,
    }
}

/// The mark that a text begins with, if it has one, and the rest.
pub(super) fn split_mark(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 })
}

/// JSON as hosts read it: with comments and commas at the end, and nothing looser.
pub(super) fn json_options() -> ParseOptions {
    ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    }
}

fn put_json(text: &str, key: &str, entry: &Value) -> Result<(String, bool), String> {
    let blank = text.trim().is_empty();
    let root = CstRootNode::parse(if blank { "{}\n" } else { text }, &json_options())
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let whole = root.object_value().ok_or("it is not a JSON object")?;
    once(&whole, "the file")?;
    let servers = whole.object_value_or_create(key).ok_or_else(|| format!("{key:?} is not an object"))?;
    once(&servers, key)?;
    let Some(mine) = servers.get(NAME) else {
        servers.append(NAME, input(entry));
        return Ok((root.to_string(), false));
    };
    let mine = mine.object_value().ok_or_else(|| format!("{key}.{NAME} is not an object"))?;
    once(&mine, &format!("{key}.{NAME}"))?;
    for (name, wanted) in fields(entry) {
        let found = mine.get(name);
        let said = found.as_ref().and_then(|found| found.value()).and_then(|value| value.to_serde_value());
        // An empty object asks for nothing, so what the user put there stays; what is the same stays as it is written.
        if said.is_some_and(|said| is_enough(&said, wanted))
            || wanted.as_object().is_some_and(serde_json::Map::is_empty)
        {
            continue;
        }
        match found {
            Some(found) => found.set_value(input(wanted)),
            None => drop(mine.append(name, input(wanted))),
        }
    }
    let was_elsewhere = ELSEWHERE.iter().any(|name| mine.get(name).is_some());
    let said = SAID_ELSEWHERE.iter().filter(|_| was_elsewhere);
    for found in ELSEWHERE.iter().chain(said).filter_map(|name| mine.get(name)) {
        found.remove();
    }
    Ok((root.to_string(), true))
}

/// Refuses an object that has a key twice: hosts read one of them, and it need not be the one that would be changed.
fn once(object: &CstObject, what: &str) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let all = object.properties();
    let twice =
        all.iter().filter_map(|found| found.name()?.decoded_value().ok()).find(|name| !names.insert(name.clone()));
    match twice {
        Some(name) => Err(format!("{name:?} is twice in {what}; remove one of them")),
        None => Ok(()),
    }
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
        let wanted = &match name.as_str() {
            // The user may hand on more than we need.
            "env_vars" => with_found(mine, name, wanted),
            _ => wanted.clone(),
        };
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
    for name in ELSEWHERE.into_iter().chain(SAID_ELSEWHERE_TOML) {
        changed |= mine.remove(name).is_some();
    }
    // Lines end as they did: what writes TOML knows only one way.
    let is_crlf = text.contains('\n') && text.matches('\n').count() == text.matches("\r\n").count();
    let after = match (changed, is_crlf) {
        (false, _) => text.to_owned(),
        (true, false) => document.to_string(),
        (true, true) => document.to_string().replace("\r\n", "\n").replace('\n', "\r\n"),
    };
    Ok((after, was_there))
}

/// The texts of a list that is there, and those of `wanted` that are not in it.
fn with_found(table: &dyn TableLike, name: &str, wanted: &Value) -> Value {
    let found = table.get(name).and_then(Item::as_array).into_iter().flatten();
    let mut all: Vec<&str> = found.filter_map(toml_edit::Value::as_str).collect();
    for text in wanted.as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.into()
}

fn says(table: &dyn TableLike, name: &str, wanted: &Value) -> bool {
    table.get(name).and_then(json_of).is_some_and(|found| is_enough(&found, wanted))
}

/// Texts, whole numbers and lists of texts: all that an entry in TOML has.
fn value(value: &Value) -> toml_edit::Value {
    match (value, value.as_i64()) {
        (Value::Array(items), _) => items.iter().filter_map(Value::as_str).collect::<Array>().into(),
        (_, Some(number)) => number.into(),
        (value, None) => value.as_str().unwrap_or_default().into(),
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
    fn what_the_user_put_into_our_entry_stays() {
        let wanted = json!({ "type": "stdio", "command": "drawloom", "args": ["mcp"], "env": {} });
        let before = "{\n  \"mcp\": {\n    \"drawloom\": {\n      \"command\": \"old\", // mine\n      \"env\": { \"DRAWLOOM_TOKEN\": \"t\" },\n      \"timeout\": 9,\n      \"url\": \"http://old\"\n    }\n  }\n}\n";
        let (after, _) = put(before, Form::Json("mcp"), &wanted).expect("JSON");
        assert!(after.contains("\"command\": \"drawloom\", // mine"), "{after}");
        let found = CstRootNode::parse(&after, &json_options()).expect("JSON").to_serde_value().expect("a value");
        let expected = json!({
            "type": "stdio", "command": "drawloom", "args": ["mcp"], "env": { "DRAWLOOM_TOKEN": "t" }, "timeout": 9,
        });
        assert_eq!(found["mcp"]["drawloom"], expected);
        assert_eq!(put(&after, Form::Json("mcp"), &wanted).expect("JSON"), (after, true));
        let wanted = json!({ "command": "drawloom", "env_vars": ["A", "B"] });
        let before = "[mcp.drawloom]\r\ncommand = \"drawloom\"\r\nenv_vars = [\"MINE\", \"A\"]\r\n";
        let (after, _) = put(before, Form::Toml("mcp"), &wanted).expect("TOML");
        assert_eq!(after, before.replace("\"A\"", "\"A\", \"B\""), "with the line ends that it had");
    }

    #[test]
    fn a_shorter_timeout_is_raised_and_a_longer_one_stays() {
        let wanted = json!({ "command": "drawloom", "timeout": 600 });
        let json =
            |timeout: u32| format!("{{\"mcp\":{{\"drawloom\":{{\"command\":\"drawloom\",\"timeout\":{timeout}}}}}}}");
        let toml = |timeout: &str| format!("[mcp.drawloom]\ncommand = \"drawloom\"\ntimeout = {timeout} # mine\n");
        assert_eq!(put(&json(9), Form::Json("mcp"), &wanted).expect("JSON").0, json(600));
        assert_eq!(put(&json(601), Form::Json("mcp"), &wanted).expect("JSON").0, json(601));
        assert_eq!(put(&toml("9"), Form::Toml("mcp"), &wanted).expect("TOML").0, toml("600"));
        for longer in ["600", "3600", "900.5"] {
            assert_eq!(put(&toml(longer), Form::Toml("mcp"), &wanted).expect("TOML").0, toml(longer));
        }
        let none = put("[mcp.drawloom]\ncommand = \"drawloom\"\n", Form::Toml("mcp"), &wanted).expect("TOML").0;
        assert_eq!(find(&none, Form::Toml("mcp")).expect("an entry")["timeout"], 600);
    }

    #[test]
    fn what_was_said_to_a_server_elsewhere_goes_with_its_address() {
        let before = "[mcp.drawloom]\nurl = \"http://old\"\nbearer_token_env_var = \"T\"\nenabled = true\nenv_http_headers = { A = \"B\" }\n\n[mcp.drawloom.http_headers]\nX = \"y\"\n\n[tail]\nx = 1\n";
        let (after, _) = put(before, Form::Toml("mcp"), &entry()).expect("TOML");
        insta::assert_snapshot!(after, @r#"
        [mcp.drawloom]
        enabled = true
        command = "drawloom"
        args = ["mcp"]

        [tail]
        x = 1
        "#);
        let before = r#"{"mcp":{"drawloom":{"type":"remote","url":"http://old","headers":{"A":"b"},"timeout":9}}}"#;
        let (after, _) = put(before, Form::Json("mcp"), &entry()).expect("JSON");
        let found: Value = serde_json::from_str(&after).expect("JSON");
        let expected = json!({ "type": "remote", "command": "drawloom", "args": ["mcp"], "timeout": 9 });
        assert_eq!(found["mcp"]["drawloom"], expected);
        let before = r#"{"mcp":{"drawloom":{"command":"old","headers":{"A":"b"}}}}"#;
        assert!(put(before, Form::Json("mcp"), &entry()).expect("JSON").0.contains("headers"), "no address was there");
    }

    #[test]
    fn a_byte_order_mark_is_taken_and_kept() {
        for (text, form) in [("{\"a\": 1}", Form::Json("mcp")), ("a = 1\n", Form::Toml("mcp"))] {
            let plain = put(text, form, &entry()).expect("a config").0;
            let marked = put(&format!("\u{feff}{text}"), form, &entry()).expect("a config").0;
            assert_eq!(marked, format!("\u{feff}{plain}"));
            assert_eq!(put(&marked, form, &entry()).expect("a config"), (marked, true));
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_refused() {
        for (text, name) in [
            (r#"{"mcp": {}, "a": 1, "mcp": {}}"#, "mcp"),
            (r#"{"mcp": {"drawloom": {}, "draw\u006coom": {}}}"#, "drawloom"),
            (r#"{"mcp": {"drawloom": {"command": "a", "command": "b"}}}"#, "command"),
        ] {
            let why = put(text, Form::Json("mcp"), &entry()).expect_err("it is ambiguous");
            assert!(why.starts_with(&format!("{name:?} is twice in ")), "{why}");
        }
    }

    #[test]
    fn an_entry_of_ours_is_changed_and_nothing_else() {
        let before = r#"{"a":1,"mcp":{"x":{},"drawloom":{"command":"old","more":true},"y":[1, 2]}}"#;
        let (after, was_there) = put(before, Form::Json("mcp"), &entry()).expect("JSON");
        insta::assert_snapshot!(after, @r#"
        {"a":1,"mcp":{"x":{},"drawloom":{
              "command":"drawloom",
              "more":true,
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
            ("{\"mcp\": {\"drawloom\": 7}}", Form::Json("mcp")),
            ("mcp = 7", Form::Toml("mcp")),
            ("mcp = [", Form::Toml("mcp")),
            ("[mcp]\ndrawloom = 7", Form::Toml("mcp")),
        ] {
            assert!(put(text, form, &entry()).is_err(), "{text}");
        }
    }
}
