//! `drawloom config show`: the merged config, with the origin of each value. Secrets are never part of it.

use std::collections::BTreeSet;

use clap::Args;
use drawloom_substrate::did_you_mean;
use serde_json::{Map, Value, json};

use crate::{
    cli::Look,
    commands::Session,
    config::{
        self, Loaded,
        tree::{Node, Tree},
    },
    dotenv,
    exit::{CommandError, Exit},
    logging::{self, masked},
    output::{Format, Output, Style, shown},
    parts,
};

/// Print the merged config with the origin of each value
#[derive(Debug, Args)]
pub struct Show {
    /// Part of the config to show, such as agents.lead or listen [default: all of it]
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Leave out values that are defaults
    #[arg(long)]
    set: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Keys under which a name of an environment variable stands.
const NAMES: [&str; 6] = ["api_key_env", "token_env", "values_env", "bearer_env", "headers_env", "env"];

/// Where comments begin, when the lines are short enough.
const COMMENTS: usize = 44;

impl Show {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let files = config::find(&session.globals.config)?;
        let loaded = config::load_files(&files)?;
        logging::mask_also(parts::secret_values(&loaded));
        let mut lines = Vec::new();
        let steps: Vec<String> = self.path.iter().flat_map(|path| path.split('.')).map(str::to_owned).collect();
        let whole = serde_json::to_value(&loaded.config).unwrap_or_default();
        let value = select(&whole, &steps)?;
        let writer = Writer { loaded: &loaded, defaults: !self.set };
        match session.output.format() {
            Format::Json => {
                let (mut config, mut origins) = (value.clone(), Map::new());
                writer.collect(&mut config, &mut steps.clone(), &mut origins);
                session.output.json(&json!({ "files": loaded.files, "config": config, "origins": origins }));
            }
            Format::Human => {
                writer.entry(steps.last().map_or("", String::as_str), value, &mut steps.clone(), 0, &mut lines);
                print(&session.output, &lines);
            }
        }
        Ok(Exit::Done)
    }
}

/// The part at `steps`.
fn select<'a>(whole: &'a Value, steps: &[String]) -> Result<&'a Value, CommandError> {
    let mut at = whole;
    for (index, step) in steps.iter().enumerate() {
        let next = match at {
            Value::Object(map) => map.get(step),
            Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        at = next.filter(|next| !next.is_null()).ok_or_else(|| {
            let known: BTreeSet<&str> = at.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            let message = format!("the config has no value at {:?}", steps[..=index].join("."));
            let error = CommandError::usage("not_found", message);
            match did_you_mean(step, known) {
                Some(hint) => error.with_hint(hint),
                None => error.with_hint("`drawloom config show` prints all of it"),
            }
        })?;
    }
    Ok(at)
}

/// A line: the YAML, and the comment.
type Line = (String, Option<String>);

fn print(output: &Output, lines: &[Line]) {
    for (text, comment) in lines {
        let text = masked(text);
        output.line(match comment {
            Some(comment) => {
                let gap = " ".repeat(COMMENTS.saturating_sub(text.chars().count()).max(2));
                format!("{text}{gap}{}", output.styled(Style::Dim, &format!("# {}", shown(&masked(comment)))))
            }
            None => text,
        });
    }
}

struct Writer<'a> {
    loaded: &'a Loaded,
    /// Whether values that are defaults are shown.
    defaults: bool,
}

impl Writer<'_> {
    /// The node of the files at `path`, when they have one.
    fn node(&self, path: &[String]) -> Option<&Node> {
        path.iter().try_fold(self.loaded.root(), |node, step| match node.child(step) {
            // The only key of the config with another spelling.
            None if step == "tools" => node.child("allowed_tools"),
            found => found,
        })
    }

    /// Where the value at `path` comes from, for people and for programs.
    fn origin(&self, path: &[String]) -> (String, Value) {
        if let Some(node) = self.node(path) {
            let file = self.loaded.file_name(node.at.file);
            let mut text = format!("{file}:{}", node.at.line);
            let mut origin = json!({ "kind": "file", "file": file, "line": node.at.line, "column": node.at.column });
            let names = self.loaded.as_written(node.at).map(names_in).unwrap_or_default();
            let is_name = path.iter().rev().take(2).any(|key| NAMES.contains(&key.as_str()));
            let names = match &node.tree {
                Tree::Text(name) if names.is_empty() && is_name => vec![name.clone()],
                _ => names,
            };
            for name in names {
                let found = self.loaded.dotenv.origin(&name);
                let (word, from) = match &found {
                    Some(dotenv::Origin::Environment) => {
                        (format!("{name} is set in the environment"), json!("environment"))
                    }
                    Some(origin @ dotenv::Origin::File(..)) => {
                        (format!("{name} is set in {origin}"), json!(origin.to_string()))
                    }
                    None => (format!("{name} is not set"), Value::Null),
                };
                text.push_str(&format!("; {word}"));
                origin["variables"][&name] = from;
            }
            return (text, origin);
        }
        let source = path.get(..2).and_then(|path| self.loaded.sourced.origins.get(path));
        match source {
            Some(folder) => {
                let folder = folder.display().to_string();
                (format!("source {folder}"), json!({ "kind": "source", "folder": folder }))
            }
            None => ("default".into(), json!({ "kind": "default" })),
        }
    }

    /// The text at `path` as it was written: what `${NAME}` stands for is not shown.
    fn written(&self, path: &[String]) -> Option<&str> {
        self.loaded.as_written(self.node(path)?.at)
    }

    fn is_default(&self, path: &[String]) -> bool {
        self.origin(path).1["kind"] == "default"
    }

    /// Masks secrets, and adds the origin of every scalar and list.
    fn collect(&self, value: &mut Value, path: &mut Vec<String>, origins: &mut Map<String, Value>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                map.retain(|_, value| !value.is_null());
                for (key, value) in map.iter_mut() {
                    path.push(key.clone());
                    self.collect(value, path, origins);
                    path.pop();
                }
                let kept: Vec<String> = map
                    .keys()
                    .filter(|key| {
                        let path: Vec<String> = path.iter().chain([*key]).cloned().collect();
                        self.defaults
                            || !self.is_default(&path)
                            || map[key.as_str()].as_object().is_some_and(|map| !map.is_empty())
                    })
                    .cloned()
                    .collect();
                map.retain(|key, _| kept.contains(key));
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter_mut().enumerate() {
                    path.push(index.to_string());
                    self.collect(item, path, origins);
                    path.pop();
                }
            }
            scalar => {
                if let Some(written) = self.written(path) {
                    *scalar = json!(written);
                }
                if let Value::String(text) = scalar {
                    *text = masked(text);
                }
                if self.defaults || !self.is_default(path) {
                    origins.insert(path.join("."), self.origin(path).1);
                }
            }
        }
    }

    /// The lines of a key and its value.
    fn entry(&self, key: &str, value: &Value, path: &mut Vec<String>, depth: usize, lines: &mut Vec<Line>) {
        let pad = "  ".repeat(depth);
        let head = if key.is_empty() { pad.clone() } else { format!("{pad}{}:", yaml_text(key)) };
        match value {
            Value::Null => {}
            Value::Object(map) if !map.is_empty() => {
                let from = lines.len();
                if !key.is_empty() {
                    lines.push((head, None));
                }
                let inner = lines.len();
                let below = if key.is_empty() { depth } else { depth + 1 };
                for (key, value) in map {
                    path.push(key.clone());
                    self.entry(key, value, path, below, lines);
                    path.pop();
                }
                if lines.len() == inner {
                    lines.truncate(from);
                }
            }
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                if !self.defaults && self.is_default(path) {
                    return;
                }
                lines.push((head, Some(self.origin(path).0)));
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    let from = lines.len();
                    match item {
                        Value::Object(_) => self.entry("", item, path, depth + 2, lines),
                        other => {
                            lines.push((format!("{pad}    {}", flow(other, &|_| None)), Some(self.origin(path).0)))
                        }
                    }
                    if let Some((first, _)) = lines.get_mut(from) {
                        *first = format!("{pad}  - {}", first.trim_start());
                    }
                    path.pop();
                }
            }
            value => {
                if !self.defaults && self.is_default(path) {
                    return;
                }
                let written = self.written(path).map(|written| json!(written));
                let origin = self.origin(path).0;
                let gap = if key.is_empty() { "" } else { " " };
                match written.as_ref().unwrap_or(value) {
                    Value::String(text) if text.trim_end().contains('\n') && !text.starts_with([' ', '\n']) => {
                        let mark = if text.ends_with('\n') { "|" } else { "|-" };
                        lines.push((format!("{head}{gap}{mark}"), Some(origin)));
                        lines.extend(text.trim_end_matches('\n').lines().map(|line| (format!("{pad}  {line}"), None)));
                    }
                    value => {
                        let item = |index: usize| {
                            let path: Vec<String> = path.iter().cloned().chain([index.to_string()]).collect();
                            self.written(&path).map(str::to_owned)
                        };
                        lines.push((format!("{head}{gap}{}", flow(value, &item)), Some(origin)));
                    }
                }
            }
        }
    }
}

/// A value on one line; `written` gives items as they were written.
fn flow(value: &Value, written: &dyn Fn(usize) -> Option<String>) -> String {
    match value {
        Value::String(text) => yaml_text(text),
        Value::Array(items) => {
            let texts = items.iter().enumerate().map(|(index, item)| match written(index) {
                Some(text) => yaml_text(&text),
                None => flow(item, &|_| None),
            });
            format!("[{}]", texts.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A text as YAML reads it back.
fn yaml_text(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text.starts_with(|sign: char| sign.is_ascii_alphabetic() || matches!(sign, '/' | '.' | '_'))
        && text.chars().all(|sign| sign.is_ascii_alphanumeric() || " _-./:@+=()".contains(sign))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str())
        && text.parse::<f64>().is_err();
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// The names in a text with `${NAME}`.
fn names_in(text: &str) -> Vec<String> {
    let parts = text.replace("$${", "");
    parts.split("${").skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name.to_owned()).collect()
}
