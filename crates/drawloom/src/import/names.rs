//! Names that a config can hold, made of whatever names files have.

use std::collections::BTreeSet;

use crate::skills::LONGEST_NAME;

/// The longest name of an MCP server; it is part of the names of its tools.
const LONGEST_SERVER: usize = 32;

/// A text as a name: what is not a letter, a digit or one of `_ . -` becomes `-`. Nothing, when nothing is left.
pub(super) fn slug(text: &str) -> Option<String> {
    let mut name = String::new();
    for sign in text.trim().chars() {
        match sign {
            _ if sign.is_ascii_alphanumeric() || "_.-".contains(sign) => name.push(sign),
            _ if !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    let name = name.trim_matches(['-', '.']).to_owned();
    let name: String = name.chars().take(LONGEST_NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// A text as the name of a group, short enough that names below it stay names.
pub(super) fn group(text: &str) -> Option<String> {
    let name: String = slug(text)?.chars().take(30).collect();
    Some(name.trim_matches(['-', '.']).to_owned()).filter(|name| !name.is_empty())
}

/// A text as the name of an MCP server.
pub(super) fn server(text: &str) -> Option<String> {
    let mut name = String::new();
    for sign in text.trim().chars().map(|sign| if sign.is_ascii_alphanumeric() || sign == '-' { sign } else { '_' }) {
        if sign != '_' || !name.ends_with('_') {
            name.push(sign);
        }
    }
    let name: String = name.trim_matches('_').chars().take(LONGEST_SERVER).collect();
    let name = name.trim_matches('_').to_owned();
    (!name.is_empty()).then_some(name)
}

/// The name of an MCP server as Claude Code writes it into the names of tools.
pub(super) fn in_tools(server: &str) -> String {
    server.chars().map(|sign| if sign.is_ascii_alphanumeric() || "_-".contains(sign) { sign } else { '_' }).collect()
}

/// A name that is not taken: the name itself, then below each of `groups`, then with a number. Names that differ only by case
/// count as one: file systems may take them for one.
pub(super) fn unique(name: &str, separator: &str, groups: &[String], taken: &mut BTreeSet<String>) -> String {
    let grouped = groups.iter().map(|group| format!("{group}{separator}{name}"));
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut candidates = [name.to_owned()].into_iter().chain(grouped).chain(numbered);
    candidates.find(|candidate| taken.insert(candidate.to_lowercase())).unwrap_or_else(|| name.to_owned())
}
