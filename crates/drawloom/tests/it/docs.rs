//! The reference pages are made from the lists in the code. `UPDATE_DOCS=1` writes them; without it they are compared.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use drawloom::errors::{ERRORS, Group};
use drawloom_contract::limits::Amount;
use drawloom_server::Operations;
use regex::Regex;
use schemars::SchemaGenerator;
use serde_json::Value;

const NOTE: &str = "<!-- Made from the code: UPDATE_DOCS=1 cargo test -p drawloom --test it docs -->\n\n";

pub(crate) fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Compares a page with what the code says today, or writes it.
#[track_caller]
fn page(name: &str, text: &str) {
    let file = workspace().join("docs/reference").join(name);
    let (title, rest) = text.split_once('\n').expect("a title");
    let text = format!("{title}\n\n{NOTE}{}\n", rest.trim());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a writable folder");
        return fs::write(&file, text).expect("a writable page");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "docs/reference/{name} is not what the code says; run with UPDATE_DOCS=1");
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[test]
fn operations_are_described() {
    let mut text = String::from(
        "# Operations\n\nOperations of the API: over REST, and with `drawloom call NAME key=value…`. Requests are validated: unknown keys, wrong types and values out of range are rejected.\n",
    );
    for served in Operations::builtin().iter() {
        let entry = served.entry();
        let card = &entry.card;
        write!(text, "\n## {}\n\n{}\n\n", card.name(), card.summary).expect("text");
        for route in card.routes() {
            writeln!(text, "- `{} {}`", route.method.as_str(), route.path).expect("text");
        }
        match card.scope {
            Some(scope) => writeln!(text, "- scope `{scope}`").expect("text"),
            None => writeln!(text, "- no scope; any valid token").expect("text"),
        }
        if card.streams {
            text.push_str("- returns a stream of [events](events.md), or JSON with `Accept: application/json`\n");
        }
        let schema = (entry.input)(&mut SchemaGenerator::default()).to_value();
        fields(&mut text, &schema);
    }
    page("operations.md", &text);
}

/// A table of an object's fields.
fn fields(text: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty()) else {
        return text.push_str("\nNo fields.\n");
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    text.push_str("\n| field | type | description |\n|---|---|---|\n");
    for (name, field) in properties {
        let must = if required.iter().any(|other| other == name) { ", required" } else { "" };
        let says = cell(field["description"].as_str().unwrap_or_default());
        writeln!(text, "| `{name}` | {}{must} | {says} |", kind(field)).expect("text");
    }
}

/// The type of a field, in a word or two.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(choices) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        let kinds: Vec<String> = choices.iter().filter(|choice| choice["type"] != "null").map(kind).collect();
        return kinds.join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    if let Some(value) = schema["const"].as_str() {
        return format!("`{value}`");
    }
    let one = |word: &str| match word {
        "array" => format!("list of {}", kind_of_items(schema)),
        "object" => match &schema["additionalProperties"] {
            Value::Object(_) => format!("map of {}", kind(&schema["additionalProperties"])),
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.map(one).collect::<Vec<_>>().join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn kind_of_items(schema: &Value) -> String {
    kind(&schema["items"])
}

#[test]
fn the_program_contains_the_schema_and_powers_of_its_config() {
    let made = [("schema", drawloom::config::made_schema()), ("powers", drawloom::config::made_powers())];
    for (name, made) in made {
        let file = workspace().join(format!("crates/drawloom/src/config/{name}.json"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let text = format!("{}\n", serde_json::to_string_pretty(&made).expect("JSON"));
            fs::write(file, text).expect("a writable file");
            continue;
        }
        let kept: Value = serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON");
        assert!(kept == made, "config/{name}.json is not what the types say; run with UPDATE_DOCS=1");
    }
}

#[test]
fn the_config_is_described() {
    let schema = drawloom::config::made_schema();
    let mut text = String::from(
        "# Config\n\nKeys of `drawloom.yaml`. Several `--config` files are merged, later ones win. `drawloom validate` checks a file, and `drawloom config schema` prints the JSON Schema that this page is made from.\n",
    );
    let described = |text: &mut String, title: &str, schema: &Value| {
        write!(text, "\n## {title}\n\n{}\n", schema["description"].as_str().unwrap_or_default()).expect("text");
        if schema["properties"].is_object() {
            text.push_str("\n| key | type | default | description |\n|---|---|---|---|\n");
            for (name, field) in schema["properties"].as_object().expect("an object") {
                let default = match &field["default"] {
                    Value::Null => String::new(),
                    value => format!("`{}`", cell(&value.to_string())),
                };
                // A section's default is its own table.
                let default = if default.len() > 40 { String::new() } else { default };
                let says = cell(field["description"].as_str().unwrap_or_default());
                writeln!(text, "| `{name}` | {} | {default} | {says} |", kind(field)).expect("text");
            }
        } else if schema["oneOf"].is_array() || schema["anyOf"].is_array() || schema["enum"].is_array() {
            writeln!(text, "\nOne of: {}.", kind(schema)).expect("text");
        }
    };
    described(&mut text, "The file", &schema);
    let empty = serde_json::Map::new();
    for (name, definition) in schema["$defs"].as_object().unwrap_or(&empty) {
        described(&mut text, name, definition);
    }
    page("config.md", &text);
}

#[test]
fn events_are_described() {
    let mut text = String::from(
        "# Events\n\nEvents of a stream of a run: `POST /v1/runs`, `GET /v1/runs/{run_id}/events`, `drawloom runs tail --json`. An event with an id is one record of the journal, and its id is the number of the record: `Last-Event-ID` continues after it. Events without an id are a preview; the `message` that follows replaces them. The last event is `done` or `error`. Every event has the field `type`, its name.\n",
    );
    for event in drawloom_wire::events::EVENTS {
        let id = if event.has_id { "has an id" } else { "has no id" };
        write!(text, "\n## {}\n\n{} It {id}.\n\n| field | description |\n|---|---|\n", event.name, event.when)
            .expect("text");
        for field in event.fields {
            writeln!(text, "| `{}` | {} |", field.name, cell(field.says)).expect("text");
        }
    }
    page("events.md", &text);
}

#[test]
fn metrics_are_described() {
    let mut text = String::from(
        "# Metrics\n\n`GET /metrics`, in Prometheus' text format; it needs the scope `runs:read`. Counters start at 0 when the server starts.\n\n| name | type | labels | description |\n|---|---|---|---|\n",
    );
    for metric in drawloom::metrics::METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.as_str(),
            labels.join(", "),
            cell(metric.help)
        )
        .expect("text");
    }
    page("metrics.md", &text);
}

#[test]
fn limits_are_described() {
    let mut text = String::from(
        "# Limits\n\nEverything that could grow has a limit. What crosses a limit is refused with the error code shown, or cut with a notice; `tool_error` is the result that a model gets for a failed tool call, and `truncated` means that the text says what is missing, `warnings` that the run has a warning, and `closed` that the connection is closed. A limit with a key can be changed in the [config](config.md).\n",
    );
    let schema = drawloom::config::made_schema();
    let mut names = std::collections::BTreeSet::new();
    for (title, limits) in drawloom::limits::LIMITS {
        write!(text, "\n## {title}\n\n| limit | default | key | code | description |\n|---|---|---|---|---|\n")
            .expect("text");
        for limit in *limits {
            assert!(names.insert(limit.name), "two limits are called {}", limit.name);
            let key = limit.key.map(|key| format!("`{key}`")).unwrap_or_default();
            if let Some(key) = limit.key {
                let default = default_of(&schema, key).unwrap_or_else(|| panic!("unknown config key {key}"));
                // A key without a default in the schema leaves it to the constant that the list refers to.
                assert!(default == "null" || default == plain(limit.default, key), "{key}: {default}");
            }
            writeln!(
                text,
                "| `{}` | {} | {key} | `{}` | {} |",
                limit.name,
                shown(limit.default),
                limit.code,
                cell(limit.what)
            )
            .expect("text");
        }
    }
    page("limits.md", &text);
}

/// The default of a config key, as JSON; nothing for an unknown key. `agents.*.x` is key `x` of every agent.
fn default_of(schema: &Value, key: &str) -> Option<String> {
    let mut found = schema;
    for name in key.split('.') {
        let below = match name {
            "*" => &found["additionalProperties"],
            name => found["properties"].get(name)?,
        };
        found = match below["$ref"].as_str() {
            Some(reference) => schema.pointer(reference.strip_prefix('#')?)?,
            None => below,
        };
    }
    Some(found.get("default").unwrap_or(&Value::Null).to_string())
}

/// An amount in its largest whole unit.
fn shown(amount: Amount) -> String {
    let in_units = |value: u64, units: &[(u64, &str)], smallest: &str| {
        let unit = units.iter().find(|(size, _)| value >= *size && value.is_multiple_of(*size));
        unit.map_or_else(|| format!("{value} {smallest}"), |(size, unit)| format!("{} {unit}", value / size))
    };
    match amount {
        Amount::Count(count) => count.to_string(),
        Amount::Bytes(bytes) => in_units(bytes, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")], "bytes"),
        Amount::Millis(millis) => {
            in_units(millis, &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")], "ms")
        }
        Amount::Percent(percent, whole) => format!("{percent} % of {whole}"),
        Amount::Off => "none".into(),
    }
}

#[test]
fn amounts_are_shown_in_their_largest_whole_unit() {
    for (amount, text) in [
        (Amount::Count(128), "128"),
        (Amount::Bytes(1_048_576), "1 MiB"),
        (Amount::Bytes(100_000), "100000 bytes"),
        (Amount::Millis(86_400_000), "1 d"),
        (Amount::Millis(90_000), "90 s"),
        (Amount::Millis(20), "20 ms"),
        (Amount::Percent(75, "the memory"), "75 % of the memory"),
        (Amount::Off, "none"),
    ] {
        assert_eq!(shown(amount), text);
    }
}

/// An amount as the config key writes it.
fn plain(amount: Amount, key: &str) -> String {
    match amount {
        Amount::Millis(number) if key.ends_with("_seconds") => (number / 1_000).to_string(),
        Amount::Count(number) | Amount::Bytes(number) | Amount::Millis(number) => number.to_string(),
        Amount::Percent(..) | Amount::Off => String::new(),
    }
}

#[test]
fn errors_are_described() {
    let mut text = String::from(
        "# Errors\n\nEvery error has a stable `code`, a `message`, often a `hint`, and `retryable`, which says whether the same request may work later. Commands show the same with `--json`.\n",
    );
    for group in Group::ALL {
        write!(text, "\n## {}\n\n| code | means | what to do |\n|---|---|---|\n", group.title()).expect("text");
        for error in ERRORS.iter().filter(|error| error.group == group) {
            writeln!(text, "| `{}` | {} | {} |", error.code, cell(error.means), cell(error.next)).expect("text");
        }
    }
    page("errors.md", &text);
}

#[test]
fn the_command_line_is_described() {
    let mut command = drawloom::cli::Cli::described().term_width(100);
    command.build();
    let mut text = String::from(
        "# Command line\n\nExit codes: 0 success, 1 failure, 2 usage or config error, 3 input needed.\n\nResults go to stdout, everything else to stderr. `--json` (or `-o json`), `-o yaml` and `-o wide` choose the format. With JSON or YAML, a command that fails prints `{ \"error\": { \"code\", \"message\", \"hint\" } }` to stdout in place of its result, and exits with a code other than 0; a command line that cannot be parsed is reported as text on stderr. [Error codes](errors.md)\n",
    );
    let options = command.find_subcommand_mut("options").expect("it has them").render_help().to_string();
    write!(text, "\n## Global options\n\n```text\n{}\n```\n", options.trim_end()).expect("text");
    describe(&mut text, &mut command);
    page("command-line.md", &text);
}

fn describe(text: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_help().to_string();
    // The global options have a section of their own.
    let own = help.trim_end().trim_end_matches("Global options: see `drawloom help options`");
    write!(text, "\n## {name}\n\n```text\n{}\n```\n", own.trim_end()).expect("text");
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .map(|below| below.get_name().to_owned())
        .collect();
    for name in names {
        describe(text, command.find_subcommand_mut(&name).expect("it was just listed"));
    }
}

/// Error codes as the sources write them.
fn codes_in_sources() -> BTreeMap<String, String> {
    let patterns = [
        r#"(?:Failure::new\(\s*(?:FailureKind::)?\w+,\s*|RunError::new\(\s*|CommandError::(?:usage|failed)\(\s*|refuse\(\s*)"([a-z_]+)"\s*,"#,
        r#"Self::(?:usage|failed)\(\s*"([a-z_]+)"\s*,"#,
        r#"\bcode: "([a-z_]+)""#,
        r#"\.say\(\s*[^"]*?"([a-z_]+)"\s*,"#,
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern"));
    let whole = Regex::new(r#"fn code\(&self\) -> &'static str \{((?s:.*?))\n    \}"#).expect("a pattern");
    let literal = Regex::new(r#""([a-z_]+)""#).expect("a pattern");
    let mut found = BTreeMap::new();
    let mut open = vec![workspace().join("crates")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let skipped = ["tests", "testkit", "examples", "target"].iter().any(|name| path.ends_with(name));
            if !skipped {
                open.extend(fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
            }
            continue;
        }
        let is_source = path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs");
        // A limit's code may be a notice in a result, which is no error.
        if !is_source || path.ends_with("drawloom/src/errors.rs") || path.ends_with("limits.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let place = path.strip_prefix(workspace()).unwrap_or(&path).display().to_string();
        let plain = patterns.iter().flat_map(|pattern| pattern.captures_iter(text)).map(|found| found[1].to_owned());
        let listed = whole.captures_iter(text).flat_map(|body| {
            literal
                .captures_iter(body.get(1).expect("a body").as_str())
                .map(|found| found[1].to_owned())
                .collect::<Vec<_>>()
        });
        found.extend(plain.chain(listed).map(|code| (code, place.clone())));
    }
    found
}

#[test]
fn every_error_code_in_the_sources_is_in_the_list_and_none_is_left_over() {
    let found = codes_in_sources();
    assert!(found.len() > 80, "the search finds codes: {}", found.len());
    let missing: Vec<String> = found
        .iter()
        .filter(|(code, _)| ERRORS.iter().all(|error| error.code != *code))
        .map(|(code, place)| format!("{code} in {place}"))
        .collect();
    assert!(missing.is_empty(), "add to crates/drawloom/src/errors.rs: {missing:#?}");
    let left: Vec<&str> = ERRORS.iter().map(|error| error.code).filter(|code| !found.contains_key(*code)).collect();
    assert!(left.is_empty(), "no source has these any more: {left:?}");
    for (place, error) in ERRORS.iter().enumerate() {
        assert!(ERRORS[..place].iter().all(|other| other.code != error.code), "{} is there twice", error.code);
        assert!(error.means.ends_with('.') && error.next.ends_with('.'), "{}", error.code);
    }
}

#[test]
fn hand_written_pages_name_only_things_that_are_there() {
    let command = drawloom::cli::Cli::described();
    let names: Vec<&str> = command.get_subcommands().map(|below| below.get_name()).chain(["help"]).collect();
    let mention = Regex::new(r"`drawloom ([a-z]+)").expect("a pattern");
    let link = Regex::new(r"\]\(([^)#:]+\.md)").expect("a pattern");
    let docs = workspace().join("docs");
    let mut pages = 0;
    for entry in fs::read_dir(&docs).expect("docs").flatten().filter(|entry| entry.path().is_file()) {
        let text = fs::read_to_string(entry.path()).expect("a page");
        for found in mention.captures_iter(&text) {
            assert!(names.contains(&&found[1]), "{:?} mentions drawloom {}", entry.path(), &found[1]);
        }
        for found in link.captures_iter(&text) {
            assert!(docs.join(&found[1]).exists(), "{:?} links to {}", entry.path(), &found[1]);
        }
        pages += 1;
    }
    assert!(pages >= 3, "{pages}");
}
