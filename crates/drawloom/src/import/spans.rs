//! Where every value of a YAML text begins and ends, in bytes. What the config's own parser does not keep is kept here.

use std::ops::Range;

use serde_saphyr::granit_parser::{self, Event, Parser, StructureStyle};

use crate::config::yaml::DEPTH_LIMIT;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) range: Range<usize>,
    pub(super) shape: Shape,
    /// Whether it has an anchor, so that aliases elsewhere may stand for it.
    pub(super) is_anchored: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Scalar,
    /// It stands for a value elsewhere, so it cannot be edited here.
    Alias,
    List {
        items: Vec<Span>,
        style: Style,
    },
    Map {
        entries: Vec<Pair>,
        style: Style,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Block,
    Flow,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) at: Range<usize>,
    pub(super) value: Span,
}

impl Span {
    /// Whether it, or anything in it, has an anchor.
    pub(super) fn has_anchor(&self) -> bool {
        self.is_anchored
            || match &self.shape {
                Shape::Scalar | Shape::Alias => false,
                Shape::List { items, .. } => items.iter().any(Self::has_anchor),
                Shape::Map { entries, .. } => entries.iter().any(|pair| pair.value.has_anchor()),
            }
    }

    pub(super) fn pair(&self, key: &str) -> Option<&Pair> {
        match &self.shape {
            Shape::Map { entries, .. } => entries.iter().find(|pair| pair.key == key),
            Shape::Scalar | Shape::Alias | Shape::List { .. } => None,
        }
    }
}

/// A list or map that is not closed.
struct Open {
    start: usize,
    end: usize,
    style: Style,
    is_anchored: bool,
    parts: Parts,
}

enum Parts {
    List(Vec<Span>),
    Map(Vec<Pair>, Option<(String, Range<usize>)>),
}

/// The places of a text's only document; nothing when it is empty.
pub(super) fn parse(text: &str) -> Result<Option<Span>, String> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: DEPTH_LIMIT,
        block_nesting_limit: DEPTH_LIMIT,
    };
    let mut stack: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| error.info().to_owned())?;
        let range = span.byte_range().ok_or("the parser does not say where values are")?;
        let done = match event {
            Event::Scalar(value, _, anchor, _) => {
                if let Some(Open { parts: Parts::Map(_, key @ None), .. }) = stack.last_mut() {
                    *key = Some((value.into_owned(), range));
                    continue;
                }
                // Blank lines at the end count only where the text keeps them (`|+`).
                let keeps_blanks = value.ends_with("\n\n") || value == "\n";
                let range = if keeps_blanks { range } else { trimmed(text, range) };
                Span { range, shape: Shape::Scalar, is_anchored: anchor != 0 }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => Span { range, shape: Shape::Alias, is_anchored: false },
            Event::SequenceStart(style, anchor, _) => {
                stack.push(open(style, range, anchor != 0, Parts::List(Vec::new())));
                continue;
            }
            Event::MappingStart(style, anchor, _) => {
                stack.push(open(style, range, anchor != 0, Parts::Map(Vec::new(), None)));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(closed) = stack.pop() else { continue };
                let end = if closed.style == Style::Flow { range.end } else { closed.end };
                let shape = match closed.parts {
                    Parts::List(items) => Shape::List { items, style: closed.style },
                    Parts::Map(entries, _) => Shape::Map { entries, style: closed.style },
                };
                Span { range: closed.start..end, shape, is_anchored: closed.is_anchored }
            }
            _ => continue,
        };
        match stack.last_mut() {
            Some(open) => {
                let done = placed(text, &open.parts, done);
                open.end = open.end.max(done.range.end);
                match &mut open.parts {
                    Parts::List(items) => items.push(done),
                    Parts::Map(entries, key) => {
                        if let Some((key, at)) = key.take() {
                            entries.push(Pair { key, at, value: done });
                        }
                    }
                }
            }
            None => root = Some(done),
        }
    }
    Ok(root)
}

/// A value that is absent stands behind its key's colon, wherever the parser noticed that there is none.
fn placed(text: &str, parts: &Parts, done: Span) -> Span {
    match parts {
        Parts::Map(_, Some((_, at))) if done.range.is_empty() => {
            let rest = &text[at.end..];
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let end = if rest[blanks..].starts_with(':') { at.end + blanks + 1 } else { at.end };
            Span { range: end..end, ..done }
        }
        _ => done,
    }
}

fn open(style: StructureStyle, range: Range<usize>, is_anchored: bool, parts: Parts) -> Open {
    let style = if style == StructureStyle::Flow { Style::Flow } else { Style::Block };
    Open { start: range.start, end: range.start, style, is_anchored, parts }
}

/// The range without blanks at its end: a block's lines end with the last that says something.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let said = text.get(range.clone()).unwrap_or_default().trim_end().len();
    range.start..range.start + said
}
