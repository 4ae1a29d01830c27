//! `${NAME}` in values: filled from the environment, only for names that the same file lists under `env`.
//!
//! Expansion happens after parsing, so what a variable holds can never become structure, and the result is always text.
//! `$${` stands for `${`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    tree::{Node, Position, Tree},
    yaml::Fault,
};

/// Looks a name up in the environment.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Fills every `${NAME}` below `root`, except in the list `env` itself; returns what cannot be filled.
pub(crate) fn expand(root: &mut Node, lookup: Lookup<'_>) -> Vec<Fault> {
    let listed = listed(root);
    let mut faults = Vec::new();
    if let Tree::Map(entries) = &mut root.tree {
        for (key, entry) in entries.iter_mut().filter(|(key, _)| *key != "env") {
            walk(&mut entry.node, &mut vec![key.clone()], &listed, lookup, &mut faults);
        }
    }
    faults
}

/// The names that a file lists under `env`.
pub(crate) fn listed(root: &Node) -> BTreeSet<String> {
    let Some(Tree::List(items)) = root.get("env").map(|entry| &entry.node.tree) else { return BTreeSet::new() };
    items
        .iter()
        .filter_map(|item| match &item.tree {
            Tree::Text(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}

/// The names in a text with `${NAME}`, as it was written.
pub(crate) fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    // What fills it in is not used; a text with a fault is refused elsewhere.
    let _ = replace(text, &mut |name| {
        names.push(name.to_owned());
        Ok(String::new())
    });
    names
}

/// Adds every text with `${` in it, by its position.
pub(crate) fn written(node: &Node, found: &mut BTreeMap<Position, String>) {
    match &node.tree {
        Tree::Text(text) if text.contains("${") => drop(found.insert(node.at, text.clone())),
        Tree::List(items) => items.iter().for_each(|item| written(item, found)),
        Tree::Map(entries) => entries.values().for_each(|entry| written(&entry.node, found)),
        Tree::Text(_) | Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
    }
}

fn walk(
    node: &mut Node,
    path: &mut Vec<String>,
    listed: &BTreeSet<String>,
    lookup: Lookup<'_>,
    faults: &mut Vec<Fault>,
) {
    match &mut node.tree {
        Tree::Text(text) if text.contains("${") => match fill(text, listed, lookup) {
            Ok(filled) => *text = filled,
            Err((message, hint)) => {
                faults.push(Fault { at: node.at, path: path.clone(), message, hint: Some(hint) });
            }
        },
        Tree::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(index.to_string());
                walk(item, path, listed, lookup, faults);
                path.pop();
            }
        }
        Tree::Map(entries) => {
            for (key, entry) in entries.iter_mut() {
                path.push(key.clone());
                walk(&mut entry.node, path, listed, lookup, faults);
                path.pop();
            }
        }
        Tree::Text(_) | Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
    }
}

type Refusal = (String, String);

fn fill(text: &str, listed: &BTreeSet<String>, lookup: Lookup<'_>) -> Result<String, Refusal> {
    replace(text, &mut |name| {
        if !listed.contains(name) {
            return Err((
                format!("${{{name}}} is not listed under `env`, so it is not expanded"),
                format!("add {name:?} to the list `env` of this file, or write \"$${{{name}}}\" for the literal text"),
            ));
        }
        lookup(name).ok_or_else(|| {
            (
                format!("${{{name}}} is not set"),
                format!("set {name} in the environment or in a .env file beside the config"),
            )
        })
    })
}

/// A text with each `${NAME}` replaced by what `value` says.
fn replace(text: &str, value: &mut dyn FnMut(&str) -> Result<String, Refusal>) -> Result<String, Refusal> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            filled.push_str(&rest[..start - 1]);
            filled.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        filled.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            return Err(("\"${\" has no closing \"}\"".into(), "write \"$${\" for a literal \"${\"".into()));
        };
        filled.push_str(&value(&after[..end])?);
        rest = &after[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}
