//! A config as it was written: values with the position of each, so that every mistake can be pointed at.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

/// Where something stands: the file by its number, line and column from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) tree: Tree,
}

/// A value whose parts have places.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Entry>),
}

/// What stands under a key, and the key's own position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) at: Position,
    pub(crate) node: Node,
}

impl Node {
    /// The value without places.
    pub(crate) fn to_value(&self) -> Value {
        match &self.tree {
            Tree::Null => Value::Null,
            Tree::Bool(flag) => Value::Bool(*flag),
            Tree::Number(number) => Value::Number(number.clone()),
            Tree::Text(text) => Value::String(text.clone()),
            Tree::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Tree::Map(entries) => {
                let pairs = entries.iter().map(|(key, entry)| (key.clone(), entry.node.to_value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// What stands under a key, when this is a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.tree {
            Tree::Map(entries) => entries.get(key),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) | Tree::List(_) => None,
        }
    }

    /// The value under a key of a map, or at an index of a list.
    pub(crate) fn child(&self, step: &str) -> Option<&Self> {
        match &self.tree {
            Tree::Map(entries) => entries.get(step).map(|entry| &entry.node),
            Tree::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => None,
        }
    }

    /// The value at `path`, or the last thing on the way there that exists.
    pub(crate) fn nearest(&self, path: &[String]) -> &Self {
        let mut node = self;
        for step in path {
            match node.child(step) {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// The position of the value at `path`, or of the last thing on the way there that exists.
    pub(crate) fn position_of_value(&self, path: &[String]) -> Position {
        self.nearest(path).at
    }

    /// The position of the last key of `path`, or of the last thing on the way there that exists.
    pub(crate) fn position_of_key(&self, path: &[String]) -> Position {
        let Some((last, above)) = path.split_last() else { return self.at };
        let mut node = self;
        for step in above {
            match node.child(step) {
                Some(next) => node = next,
                None => return self.position_of_value(path),
            }
        }
        node.get(last).map_or_else(|| self.position_of_value(path), |entry| entry.at)
    }

    /// Lays `over` on this: maps merge by key, everything else is replaced.
    pub(crate) fn merge(&mut self, over: Self) {
        match (&mut self.tree, over) {
            (Tree::Map(entries), Self { tree: Tree::Map(others), .. }) => {
                for (key, entry) in others {
                    match entries.get_mut(&key) {
                        Some(mine) => mine.node.merge(entry.node),
                        None => drop(entries.insert(key, entry)),
                    }
                }
            }
            (_, over) => *self = over,
        }
    }
}
