//! YAML with places: one document, the plain JSON types, and limits on everything that can grow.
//!
//! Anchors work, but what they expand to is counted, so that a small file cannot become a large one. Tags, merge keys
//! and keys that are no text are refused: each would be a second way to say something.

use std::{collections::BTreeMap, str::FromStr as _};

use drawloom_wire::numbers;
use serde_json::Number;
use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle};

use super::tree::{Entry, Node, Position, Tree};

/// The largest file that is read, in bytes: enough for some hundred agents with their prompts.
pub(crate) const FILE_LIMIT: u64 = 8 * 1024 * 1024;
/// How deep values may stand in values.
pub(crate) const DEPTH_LIMIT: usize = 64;
/// How many values a file may hold, anchors expanded.
pub(crate) const NODE_LIMIT: usize = 50_000;
/// How many bytes of text a file may hold, anchors expanded.
pub(crate) const TEXT_LIMIT: usize = 2 * FILE_LIMIT as usize;

/// A mistake in a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Position,
    /// Keys and indices down to where it is, as far as is known.
    pub(crate) path: Vec<String>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// The file's only document, and mistakes that do not keep it from being read; or why it cannot be read.
pub(crate) fn parse(file: usize, bytes: &[u8]) -> Result<(Node, Vec<Fault>), Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(file, bytes, error.valid_up_to()))?;
    let mut builder = Builder { file, ..Builder::default() };
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH_LIMIT,
        block_nesting_limit: DEPTH_LIMIT,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| {
            let hint = match error.info() {
                info if info.contains("tab") => "indent with spaces",
                info if info.contains("mapping values are not allowed") => "quote a text that contains \": \"",
                info if info.contains("unknown anchor") => "define the anchor above with &NAME, or write the value",
                _ => "check quotes, brackets and indentation from here upwards",
            };
            let hint = Some(hint.to_owned());
            fault(builder.position(*error.marker()), format!("invalid YAML: {}", error.info()), hint)
        })?;
        builder.take(event, span.start)?;
    }
    let start = Position { file, line: 1, column: 1 };
    let root = builder.root.unwrap_or(Node { at: start, tree: Tree::Map(BTreeMap::new()) });
    let root = match root.tree {
        Tree::Null => Node { at: root.at, tree: Tree::Map(BTreeMap::new()) },
        _ => root,
    };
    Ok((root, builder.faults))
}

fn fault(at: Position, message: impl Into<String>, hint: Option<String>) -> Fault {
    Fault { at, path: Vec::new(), message: message.into(), hint }
}

fn not_utf8(file: usize, bytes: &[u8], valid: usize) -> Fault {
    let before = String::from_utf8_lossy(&bytes[..valid]).into_owned();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let hint = Some("save the file as UTF-8".to_owned());
    fault(Position { file, line, column }, format!("byte 0x{:02x} is not UTF-8", bytes[valid]), hint)
}

/// A list or map that is not closed.
struct Frame {
    at: Position,
    anchor: usize,
    parts: Parts,
}

enum Parts {
    List(Vec<Node>),
    Map { entries: BTreeMap<String, Entry>, key: Option<(String, Position)> },
}

#[derive(Default)]
struct Builder {
    file: usize,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
    text: usize,
    faults: Vec<Fault>,
}

impl Builder {
    fn position(&self, marker: Marker) -> Position {
        Position { file: self.file, line: marker.line().max(1), column: marker.col() + 1 }
    }

    fn take(&mut self, event: Event<'_>, start: Marker) -> Result<(), Fault> {
        let at = self.position(start);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let hint = "keep one document in a file; pass several files with --config";
                    return Err(fault(at, "a second YAML document starts here", Some(hint.into())));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(tag) = &tag
                    && !tag.is_yaml_core_schema_tag("str")
                {
                    return Err(refused_tag(at, &tag.original()));
                }
                if self.wants_key() {
                    return self.take_key(text.into_owned(), at);
                }
                let tree = match (style, tag) {
                    (ScalarStyle::Plain, None) => {
                        plain(&text).map_err(|(message, hint)| fault(at, message, Some(hint.into())))?
                    }
                    _ => Tree::Text(text.into_owned()),
                };
                self.add(Node { at, tree }, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(at, anchor, tag.map(|tag| tag.original()), Parts::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, tag) => {
                let parts = Parts::Map { entries: BTreeMap::new(), key: None };
                self.open(at, anchor, tag.map(|tag| tag.original()), parts)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Alias(anchor) => {
                if self.wants_key() {
                    return Err(fault(at, "an alias cannot be a key", Some("write the key".into())));
                }
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(fault(
                        at,
                        "this alias is inside the value that it names",
                        Some("write the value".into()),
                    ));
                };
                let node = node.clone();
                self.count(&node, at)?;
                self.add(Node { at, tree: node.tree }, 0)?;
            }
            Event::UnresolvedAlias(name) => {
                return Err(fault(
                    at,
                    format!("unknown anchor {name:?}"),
                    Some(format!("define it above with &{name}, or write the value")),
                ));
            }
            // Beginnings and ends of the stream, comments: nothing that is a value.
            _ => {}
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { parts: Parts::Map { key: None, .. }, .. }))
    }

    fn take_key(&mut self, text: String, at: Position) -> Result<(), Fault> {
        if text == "<<" {
            let hint = Some("write the keys out, or use several files with --config".to_owned());
            return Err(fault(at, "merge keys are not supported", hint));
        }
        self.spend(1, text.len(), at)?;
        let mut path = self.path();
        if let Some(Frame { parts: Parts::Map { entries, key }, .. }) = self.stack.last_mut() {
            if let Some(first) = entries.get(&text) {
                path.push(text.clone());
                self.faults.push(Fault {
                    at,
                    path,
                    message: format!("duplicate key {text:?}; first in line {}", first.at.line),
                    hint: Some("remove one of them".into()),
                });
            }
            *key = Some((text, at));
        }
        Ok(())
    }

    fn open(&mut self, at: Position, anchor: usize, tag: Option<String>, parts: Parts) -> Result<(), Fault> {
        if let Some(tag) = tag {
            return Err(refused_tag(at, &tag));
        }
        if self.wants_key() {
            return Err(fault(at, "a key must be text, not a list or a mapping", None));
        }
        if self.stack.len() >= DEPTH_LIMIT {
            return Err(fault(at, format!("values are nested more than {DEPTH_LIMIT} levels deep"), None));
        }
        self.spend(1, 0, at)?;
        self.stack.push(Frame { at, anchor, parts });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(frame) = self.stack.pop() else { return Ok(()) };
        let tree = match frame.parts {
            Parts::List(items) => Tree::List(items),
            Parts::Map { entries, .. } => Tree::Map(entries),
        };
        self.place_node(Node { at: frame.at, tree }, frame.anchor);
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let text = match &node.tree {
            Tree::Text(text) => text.len(),
            _ => 0,
        };
        self.spend(1, text, node.at)?;
        self.place_node(node, anchor);
        Ok(())
    }

    fn place_node(&mut self, node: Node, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|frame| &mut frame.parts) {
            Some(Parts::List(items)) => items.push(node),
            Some(Parts::Map { entries, key }) => {
                if let Some((key, at)) = key.take() {
                    entries.insert(key, Entry { at, node });
                }
            }
            None => self.root = Some(node),
        }
    }

    /// Counts what an alias adds.
    fn count(&mut self, node: &Node, at: Position) -> Result<(), Fault> {
        match &node.tree {
            Tree::Text(text) => self.spend(1, text.len(), at),
            Tree::List(items) => items.iter().try_for_each(|item| self.count(item, at)),
            Tree::Map(entries) => entries.values().try_for_each(|entry| self.count(&entry.node, at)),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => self.spend(1, 0, at),
        }
    }

    fn spend(&mut self, nodes: usize, text: usize, at: Position) -> Result<(), Fault> {
        self.nodes += nodes;
        self.text += text;
        if self.nodes > NODE_LIMIT {
            return Err(fault(at, format!("the file holds more than {NODE_LIMIT} values, aliases counted"), None));
        }
        if self.text > TEXT_LIMIT {
            return Err(fault(at, format!("the file holds more than {TEXT_LIMIT} bytes of text"), None));
        }
        Ok(())
    }

    /// Keys and indices down to the open list or map.
    fn path(&self) -> Vec<String> {
        let above = self.stack.len().saturating_sub(1);
        self.stack[..above]
            .iter()
            .map(|frame| match &frame.parts {
                Parts::List(items) => items.len().to_string(),
                Parts::Map { key, .. } => key.as_ref().map(|(key, _)| key.clone()).unwrap_or_default(),
            })
            .collect()
    }
}

fn refused_tag(at: Position, tag: &str) -> Fault {
    fault(at, format!("the tag {tag} is not supported"), Some("write the plain value".into()))
}

/// A scalar without quotes, by the core schema of YAML 1.2.
fn plain(text: &str) -> Result<Tree, (String, &'static str)> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Tree::Null,
        "true" | "True" | "TRUE" => Tree::Bool(true),
        "false" | "False" | "FALSE" => Tree::Bool(false),
        ".inf" | "+.inf" | "-.inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => {
            return Err((format!("{text} is not supported as a number"), "write a number"));
        }
        _ if numbers::is_too_large(text) => return Err((format!("{text} does not fit in 64 bits"), numbers::HINT)),
        _ => match number(text) {
            Some(number) => Tree::Number(number),
            None => Tree::Text(text.to_owned()),
        },
    })
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Number::from);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !unsigned.contains(|c: char| c.is_ascii_digit())
        || !unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
    {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    u64::from_str(plain)
        .map(Number::from)
        .or_else(|_| i64::from_str(plain).map(Number::from))
        .ok()
        .or_else(|| f64::from_str(plain).ok().and_then(Number::from_f64))
}
