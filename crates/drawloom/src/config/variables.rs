//! Keys of the config that hold the name of an environment variable: a key pasted there is recognised, and never shown.

use drawloom_contract::redact::Redactor;

use super::{
    tree::{Node, Tree},
    yaml::Fault,
};
use crate::dotenv::is_name;

/// A word of a name that is as long as this and has a digit is part of a key.
const LONGEST_WORD: usize = 20;

/// Where names of variables stand; `*` is any key or index. Those of `mcp_servers` are checked with the servers.
const PLACES: &[&[&str]] = &[
    &["env", "*"],
    &["auth", "token_env"],
    &["principals", "*", "token_env"],
    &["providers", "*", "api_key_env"],
    &["redaction", "values_env", "*"],
    &["tools", "bash", "env", "*"],
];

/// Everything in place of a variable's name that is none.
pub(super) fn check(root: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    for place in PLACES {
        walk(root, place, &mut Vec::new(), &mut faults);
    }
    faults
}

fn walk(node: &Node, rest: &[&str], path: &mut Vec<String>, faults: &mut Vec<Fault>) {
    let Some((step, rest)) = rest.split_first() else {
        if let Tree::Text(name) = &node.tree {
            faults.extend(fault(name).map(|(message, hint)| Fault {
                at: node.at,
                path: path.clone(),
                message: message.to_owned(),
                hint: Some(hint.to_owned()),
            }));
        }
        return;
    };
    let children: Vec<(String, &Node)> = match &node.tree {
        Tree::Map(entries) => entries.iter().map(|(key, entry)| (key.clone(), &entry.node)).collect(),
        Tree::List(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => Vec::new(),
    };
    for (key, child) in children.into_iter().filter(|(key, _)| *step == "*" || step == key) {
        path.push(key);
        walk(child, rest, path, faults);
        path.pop();
    }
}

fn fault(name: &str) -> Option<(&'static str, &'static str)> {
    if looks_secret(name) {
        let hint = "move the key to an environment variable or to .env, and write the variable's name here; if anyone else \
                    can read this file, revoke the key";
        Some(("this is a key, not the name of an environment variable", hint))
    } else if !is_name(name) {
        let hint = "write letters, digits and `_`, such as MY_API_KEY";
        Some(("not the name of an environment variable", hint))
    } else {
        None
    }
}

/// Whether a text has the form of a token, or a long word with digits in it.
fn looks_secret(name: &str) -> bool {
    let is_random = |word: &str| word.len() >= LONGEST_WORD && word.contains(|sign: char| sign.is_ascii_digit());
    name.split(['_', '-']).any(is_random)
        || name.starts_with("sk-")
        || Redactor::new([""; 0]).mask(&mut name.to_owned())
}
