//! Edits of a YAML text that touch nothing but their own place: comments, order and form of everything else stay byte for byte.

use std::{cmp::Reverse, ops::Range};

use serde_json::Value;

use super::{
    emit,
    spans::{self, Pair, Shape, Span, Style},
};

/// What a comment above an imported entry begins with.
const MARKER: &str = "# imported from ";

/// Says where an entry came from, and what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) source: String,
    /// The digest of the value as it was written.
    pub(super) digest: String,
}

impl Marker {
    fn line(&self) -> String {
        // A path may hold a line end.
        let source: String = self.source.chars().map(|sign| if sign.is_control() { '?' } else { sign }).collect();
        format!("{MARKER}{source}, sha256:{}", self.digest)
    }

    fn read(line: &str) -> Option<Self> {
        let (source, digest) = line.trim().strip_prefix(MARKER)?.rsplit_once(", sha256:")?;
        Some(Self { source: source.to_owned(), digest: digest.trim().to_owned() })
    }
}

/// An entry that is added.
pub(super) struct New<'a> {
    pub(super) marker: Option<Marker>,
    pub(super) key: &'a str,
    pub(super) value: Value,
}

/// A text and the edits of it.
pub(super) struct Editor<'a> {
    text: &'a str,
    root: Option<Span>,
    edits: Vec<Edit>,
}

struct Edit {
    range: Range<usize>,
    /// How deep the place is: of several insertions at one place the deepest comes first.
    depth: usize,
    text: String,
}

impl<'a> Editor<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, String> {
        Ok(Self { text, root: spans::parse(text)?, edits: Vec::new() })
    }

    fn find(&self, path: &[&str]) -> Option<&Pair> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.root.as_ref()?.pair(first)?, |pair, key| pair.value.pair(key))
    }

    /// The comment of an earlier import above an entry.
    pub(super) fn marker(&self, path: &[&str]) -> Option<Marker> {
        let line = self.line_above(self.find(path)?)?;
        Marker::read(&self.text[line])
    }

    /// Whether the entry, or a part of it, has an anchor: an edit would change what its aliases elsewhere mean.
    pub(super) fn is_anchored(&self, path: &[&str]) -> bool {
        self.find(path).is_some_and(|pair| pair.value.has_anchor())
    }

    fn line_above(&self, pair: &Pair) -> Option<Range<usize>> {
        let end = self.line_start(pair.at.start).checked_sub(1)?;
        Some(self.line_start(end)..end)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    /// The end of the line, its line end included.
    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }

    /// Past the comments that follow the line that ends at `at` and are indented as deep as `indent`: a text that is inserted
    /// before them could take them in.
    fn past_comments(&self, at: usize, indent: usize) -> usize {
        let mut end = at;
        let mut next = at;
        for line in self.text[at..].split_inclusive('\n') {
            let said = line.trim_start_matches(' ');
            next += line.len();
            match said.starts_with('#') && line.len() - said.len() >= indent {
                true => end = next,
                false if said.trim().is_empty() => {}
                false => break,
            }
        }
        end
    }

    fn indent(&self, pair: &Pair) -> usize {
        pair.at.start - self.line_start(pair.at.start)
    }

    /// Adds entries at the end of the map at `path`, which is made when it is absent or empty.
    pub(super) fn add(&mut self, path: &[&str], new: &[New<'_>]) -> Result<(), String> {
        if new.is_empty() {
            return Ok(());
        }
        let flow = new.iter().map(flow_entry).collect::<Vec<_>>().join(", ");
        self.put(path, &|indent| lines(new, indent), &flow)
    }

    /// Whether the value at `path` stands inside braces, where only more of the same can stand.
    fn is_in_flow(&self, path: &[&str]) -> bool {
        let is_flow = |span: &Span| matches!(span.shape, Shape::Map { style: Style::Flow, .. });
        let above = (1..path.len()).filter_map(|length| self.find(&path[..length]).map(|pair| &pair.value));
        self.root.iter().chain(above).any(is_flow)
    }

    /// Adds text at the end of the map at `path`: `block` with its indentation, or `flow` inside braces.
    fn put(&mut self, path: &[&str], block: &dyn Fn(usize) -> String, flow: &str) -> Result<(), String> {
        let depth = path.len();
        let place = if path.is_empty() { self.root.clone() } else { self.find(path).map(|pair| pair.value.clone()) };
        let indent = if path.is_empty() { 0 } else { self.find(path).map_or(0, |pair| self.indent(pair)) + 2 };
        match (place, path.split_last()) {
            (None, None) => self.insert_lines(self.end_of_empty(), depth, &block(0)),
            (None, Some((key, above))) => {
                let within = |indent: usize| format!("{}{key}:\n{}", " ".repeat(indent), block(indent + 2));
                return self.put(above, &within, &format!("{key}: {{ {flow} }}"));
            }
            (Some(Span { shape: Shape::Map { entries, style }, range, .. }), _) => {
                match (entries.first(), entries.last(), style) {
                    (Some(first), Some(last), Style::Block) => {
                        let indent = self.indent(first);
                        let end = self.past_comments(self.line_end(end_of(last)), indent);
                        let gap = if path.is_empty() { "\n" } else { "" };
                        self.insert_lines(end, depth, &format!("{gap}{}", block(indent)));
                    }
                    (_, Some(last), Style::Flow) => self.edit(end_of(last)..end_of(last), depth, format!(", {flow}")),
                    _ if path.is_empty() => self.edit(range, depth, block(0).trim_end().to_owned()),
                    _ if self.is_in_flow(path) => self.edit(range, depth, format!("{{ {flow} }}")),
                    _ => self.replace_by_block(range, depth, indent, &block(indent)),
                }
            }
            (Some(Span { shape: Shape::Scalar, range, .. }), above) if is_null(&self.text[range.clone()]) => {
                match above {
                    None if range.is_empty() => self.insert_lines(self.end_of_empty(), depth, &block(0)),
                    None => self.edit(range, depth, block(0).trim_end().to_owned()),
                    Some(_) if self.is_in_flow(path) => {
                        let gap = if range.is_empty() { " " } else { "" };
                        self.edit(range, depth, format!("{gap}{{ {flow} }}"));
                    }
                    Some(_) => self.replace_by_block(range, depth, indent, &block(indent)),
                }
            }
            _ => return Err(format!("`{}` is not a map that entries can be added to", path.join("."))),
        }
        Ok(())
    }

    /// Adds items at the end of the list at `path`, which must exist.
    pub(super) fn append(&mut self, path: &[&str], items: &[Value]) -> Result<(), String> {
        let Some(pair) = self.find(path).cloned() else { return Err(format!("list `{}` not found", path.join("."))) };
        let depth = path.len();
        match &pair.value.shape {
            Shape::List { items: known, style: Style::Block } if !known.is_empty() => {
                let first = &known[0].range;
                let indent = self.text[..first.start].rfind('-').map_or(0, |dash| dash - self.line_start(dash));
                let pad = " ".repeat(indent);
                let text: String = items.iter().map(|item| format!("{pad}- {}\n", emit::flow(item))).collect();
                self.insert_lines(self.line_end(pair.value.range.end), depth, &text);
            }
            Shape::List { items: known, style } if *style == Style::Flow || known.is_empty() => {
                let text = items.iter().map(emit::flow).collect::<Vec<_>>().join(", ");
                match known.last() {
                    Some(last) => self.edit(last.range.end..last.range.end, depth, format!(", {text}")),
                    None => self.edit(pair.value.range.clone(), depth, format!("[{text}]")),
                }
            }
            Shape::Scalar if is_null(&self.text[pair.value.range.clone()]) => {
                let text = items.iter().map(emit::flow).collect::<Vec<_>>().join(", ");
                let gap = if pair.value.range.is_empty() { " " } else { "" };
                self.edit(pair.value.range.clone(), depth, format!("{gap}[{text}]"));
            }
            _ => return Err(format!("`{}` is not a list that can be added to", path.join("."))),
        }
        Ok(())
    }

    /// Makes the entry at `path`, a map, say exactly `value`. Fields that stay the same are not touched.
    pub(super) fn update(
        &mut self,
        path: &[&str],
        before: &Value,
        value: &Value,
        marker: &Marker,
    ) -> Result<(), String> {
        let Some(pair) = self.find(path).cloned() else { return Err(format!("key `{}` not found", path.join("."))) };
        let depth = path.len();
        let fields = match (&pair.value.shape, value, before) {
            (Shape::Map { style: Style::Block, .. }, Value::Object(value), Value::Object(before)) => {
                Some((value, before))
            }
            _ => None,
        };
        let Some((after, before)) = fields else {
            if pair.value.shape == Shape::Alias {
                return Err(format!("`{}` is an alias, which cannot be edited", path.join(".")));
            }
            let gap = if pair.value.range.is_empty() { " " } else { "" };
            self.edit(pair.value.range.clone(), depth, format!("{gap}{}", emit::flow(value)));
            return self.mark(&pair, depth, marker);
        };
        self.mark(&pair, depth, marker)?;
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            if let Some(field) = pair.value.pair(key) {
                let lines = self.line_start(field.at.start)..self.line_end(end_of(field));
                self.edit(lines, depth + 1, String::new());
            }
        }
        let mut new = Vec::new();
        for (key, value) in after {
            match (pair.value.pair(key), before.get(key)) {
                (Some(_), Some(same)) if same == value => {}
                (Some(field), _) => self.set(&field.clone(), depth + 1, value),
                (None, _) => new.push(New { marker: None, key, value: value.clone() }),
            }
        }
        self.add(path, &new)
    }

    /// Puts the comment above an entry; entries in flow style have none.
    fn mark(&mut self, pair: &Pair, depth: usize, marker: &Marker) -> Result<(), String> {
        let start = self.line_start(pair.at.start);
        let is_own_line = self.text[start..pair.at.start].trim().is_empty();
        match self.line_above(pair).filter(|line| Marker::read(&self.text[line.clone()]).is_some()) {
            Some(line) => {
                let said = self.text[line.clone()].trim_end_matches('\r').to_owned();
                let blanks = said.len() - said.trim_start().len();
                self.edit(line.start..line.start + said.len(), depth, format!("{}{}", &said[..blanks], marker.line()));
            }
            None if is_own_line => {
                let pad = " ".repeat(self.indent(pair));
                self.edit(start..start, depth, format!("{pad}{}\n", marker.line()));
            }
            None => {}
        }
        Ok(())
    }

    /// Replaces the value of a field. A comment on its line stays.
    fn set(&mut self, field: &Pair, depth: usize, value: &Value) {
        let range = field.value.range.clone();
        let indent = self.indent(field);
        let next = self.line_end(range.end);
        let written = match self.past_comments(next, indent + 2) == next {
            true => emit::after_key(value, indent),
            false => format!(" {}", emit::flow(value)),
        };
        let colon = match range.is_empty() {
            true => range.start,
            false => self.text[field.at.end..range.start].find(':').map_or(field.at.end, |at| field.at.end + at + 1),
        };
        match written.split_once('\n') {
            None => self.edit(colon..range.end, depth, written),
            Some((head, below)) => {
                let mut end = self.line_end(range.end);
                if self.text[..end].ends_with('\n') {
                    end -= 1;
                }
                if self.text[..end].ends_with('\r') {
                    end -= 1;
                }
                let comment = self.text[range.end..end].to_owned();
                self.edit(colon..end, depth, format!("{head}{comment}\n{below}"));
            }
        }
    }

    fn edit(&mut self, range: Range<usize>, depth: usize, text: String) {
        self.edits.push(Edit { range, depth, text });
    }

    /// Inserts whole lines at a line's start.
    fn insert_lines(&mut self, at: usize, depth: usize, lines: &str) {
        let needs_end = at > 0 && !self.text[..at].ends_with('\n');
        let text = if needs_end { format!("\n{}", lines.trim_end_matches('\n')) } else { lines.to_owned() };
        // A file whose last line has no end keeps having none.
        self.edit(at..at, depth, text);
    }

    /// Takes an empty value away and puts lines below its key.
    fn replace_by_block(&mut self, range: Range<usize>, depth: usize, indent: usize, lines: &str) {
        let end = self.past_comments(self.line_end(range.end), indent);
        if !range.is_empty() {
            let blanks = self.text[..range.start].len() - self.text[..range.start].trim_end_matches(' ').len();
            self.edit(range.start - blanks..range.end, depth, String::new());
        }
        self.insert_lines(end, depth, lines);
    }

    /// Where entries go in a text without any: its end, before a mark that ends the document.
    fn end_of_empty(&self) -> usize {
        let mark = self.text.rfind("\n...").map(|at| at + 1).filter(|at| self.text[*at..].trim() == "...");
        mark.unwrap_or(self.text.len())
    }

    /// The edited text.
    pub(super) fn finish(self) -> String {
        let mut edits = self.edits;
        // A stable sort keeps the order of insertions at one place and depth.
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end, Reverse(edit.depth)));
        let has_returns = self.text.contains("\r\n");
        let mut out = String::with_capacity(self.text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
        let mut at = 0;
        for edit in edits {
            out.push_str(&self.text[at..edit.range.start.max(at)]);
            match has_returns {
                true => out.push_str(&edit.text.replace('\n', "\r\n")),
                false => out.push_str(&edit.text),
            }
            at = edit.range.end.max(at);
        }
        out.push_str(&self.text[at..]);
        out
    }
}

/// The end of an entry's value, or of its key when the value is absent.
fn end_of(pair: &Pair) -> usize {
    pair.value.range.end.max(pair.at.end)
}

fn lines(new: &[New<'_>], indent: usize) -> String {
    let pad = " ".repeat(indent);
    let each = new.iter().map(|new| {
        let marker = new.marker.as_ref().map(|marker| format!("{pad}{}\n", marker.line())).unwrap_or_default();
        format!("{marker}{}", emit::entry(new.key, &new.value, indent))
    });
    each.collect()
}

fn flow_entry(new: &New<'_>) -> String {
    let mut map = serde_json::Map::new();
    map.insert(new.key.to_owned(), new.value.clone());
    let text = emit::flow(&map.into());
    text.strip_prefix("{ ").and_then(|text| text.strip_suffix(" }")).unwrap_or(&text).to_owned()
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

#[cfg(test)]
mod tests;
