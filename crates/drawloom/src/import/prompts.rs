//! Slash commands as prompts: MCP hosts show them, and a person picks one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Item, Kind, Note, document, names, report::shown, tree::Entry};

/// A prompt, ready for a config.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) fields: Vec<(&'static str, Value)>,
}

impl Prompt {
    pub(crate) fn value(&self) -> Value {
        self.fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

const DROPPED: &[(&str, &str)] = &[
    ("allowed-tools", "a prompt gives no tools: it is text for the model of the host"),
    ("allowed_tools", "a prompt gives no tools: it is text for the model of the host"),
    ("model", "a prompt is answered by the model of the host"),
    ("disable-model-invocation", "prompts are picked by people only"),
    ("context", "a prompt is answered in the host's own conversation"),
    ("agent", "a prompt is answered in the host's own conversation"),
    ("hooks", "hooks run commands of Claude Code; Drawloom has no hooks"),
];

pub(super) fn map(entries: &[Entry], items: &mut Vec<Item>) -> Vec<Prompt> {
    let mut taken = BTreeSet::new();
    let mut prompts = Vec::new();
    for entry in entries {
        let stem = entry.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let groups = entry.plugin.iter().chain(&entry.groups);
        let parts: Vec<String> = groups.chain([&stem]).filter_map(|part| names::slug(part)).collect();
        let wanted = if parts.is_empty() { "command".to_owned() } else { parts.join(":") };
        let leave = |reason: String| Item::dropped(Kind::Prompt, wanted.clone(), entry.shown.clone(), reason);
        let read = match document::read(&entry.path) {
            Ok(read) => read,
            Err(reason) => {
                items.push(leave(reason));
                continue;
            }
        };
        let document = read.document;
        if document.body.is_empty() {
            items.push(leave("the file has no text".into()));
            continue;
        }
        let name = names::unique(&wanted, ":", &[], &mut taken);
        let mut item = Item::new(Kind::Prompt, name.clone(), entry.shown.clone());
        item.notes.extend(read.repairs.into_iter().map(|repair| Note::translated("file", "", "text", repair)));
        for (line, fault) in &document.faults {
            item.notes.push(Note::translated("frontmatter", "", "fields", format!("line {line}: {fault}")));
        }
        item.notes.push(Note::mapped("name", &name));
        let mut fields = Vec::new();
        for (key, field) in &document.fields {
            let to = match key.as_str() {
                "description" => Some("description"),
                "argument-hint" | "argument_hint" => Some("argument_hint"),
                _ => None,
            };
            match to {
                Some(to) if !fields.iter().any(|(known, _)| *known == to) => {
                    let text = match &field.value {
                        // `argument-hint: [file] [line]` is a list for YAML, but text for people.
                        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
                        value => document.text(key).unwrap_or_else(|| shown(value)),
                    };
                    item.notes.push(Note::mapped(key, to));
                    if !text.is_empty() {
                        fields.push((to, json!(text)));
                    }
                }
                _ => {
                    let reason = DROPPED.iter().find(|(known, _)| known == key).map(|(_, reason)| *reason);
                    let reason = reason.unwrap_or("not a field of commands that this version knows");
                    item.notes.push(Note::dropped(key, shown(&field.value), reason));
                }
            }
        }
        if document.body.contains("!`") {
            let reason = "commands in a prompt are not run; the text is kept as it is";
            item.notes.push(Note::translated("body", "!`…`", "text", reason));
        }
        item.notes.push(Note::mapped("body", "text"));
        fields.push(("text", json!(document.body)));
        items.push(item);
        prompts.push(Prompt { name, source: entry.shown.clone(), fields });
    }
    prompts
}
