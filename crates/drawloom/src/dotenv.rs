//! `.env` beside a config file: values for variables that the environment does not have.
//!
//! Only names that the config lists are taken, the environment wins, and every value counts as a secret.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use drawloom_substrate::files;
use rustix::process::geteuid;

use crate::environment;

/// The name of the file.
pub(crate) const FILE_NAME: &str = ".env";

/// The largest file that is read, in bytes.
pub(crate) const FILE_LIMIT: u64 = 64 * 1024;

/// Where the value of a variable comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Environment,
    /// The file and the line.
    File(PathBuf, usize),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment => f.write_str("the environment"),
            Self::File(file, line) => write!(f, "{}:{line}", file.display()),
        }
    }
}

/// Something about a `.env` file that its reader should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) file: PathBuf,
    /// From 1; nothing for the file as a whole.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file.display(), self.message),
            None => write!(f, "{}: {}", self.file.display(), self.message),
        }
    }
}

/// The values of the `.env` files beside the files of a config. They are not shown, also not by `Debug`.
#[derive(Clone, Default)]
pub(crate) struct DotEnv {
    values: BTreeMap<String, Value>,
    remarks: Vec<Remark>,
}

#[derive(Clone)]
struct Value {
    text: String,
    file: PathBuf,
    line: usize,
}

impl std::fmt::Debug for DotEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DotEnv").field("names", &self.values.keys()).field("remarks", &self.remarks).finish()
    }
}

impl DotEnv {
    /// Reads the `.env` beside each of these files; a later one replaces values of an earlier one.
    pub(crate) fn beside(configs: &[PathBuf]) -> Self {
        let mut found = Self::default();
        let mut folders: Vec<&Path> = Vec::new();
        for folder in configs.iter().filter_map(|config| config.parent()) {
            if !folders.contains(&folder) {
                folders.push(folder);
                found.read(&folder.join(FILE_NAME));
            }
        }
        found
    }

    fn read(&mut self, path: &Path) {
        let remark = |message: String| Remark { file: path.to_owned(), line: None, message };
        let file = match files::open_file(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => return,
            Err(error) => return self.remarks.push(remark(format!("not read: {error}"))),
        };
        let Ok(metadata) = file.metadata() else { return };
        if metadata.uid() != geteuid().as_raw() && metadata.uid() != 0 {
            let message = format!("not read: the file belongs to user {}", metadata.uid());
            return self.remarks.push(remark(message));
        }
        if metadata.mode() & 0o077 != 0 {
            let message = format!(
                "other users may read this file (mode {:o}); run: chmod 600 {}",
                metadata.mode() & 0o777,
                path.display()
            );
            self.remarks.push(remark(message));
        }
        match files::read_limited(file, FILE_LIMIT).and_then(files::text) {
            Ok(text) => self.take(path, &text),
            Err(error) => self.remarks.push(remark(format!("not read: {error}"))),
        }
    }

    fn take(&mut self, path: &Path, text: &str) {
        for (line, parsed) in lines(text) {
            match parsed {
                Ok((name, text)) => {
                    drop(self.values.insert(name, Value { text, file: path.to_owned(), line }));
                }
                Err(message) => {
                    self.remarks.push(Remark { file: path.to_owned(), line: Some(line), message: message.into() });
                }
            }
        }
    }

    /// Drops what the config does not list.
    pub(crate) fn keep(&mut self, listed: &BTreeSet<String>) {
        self.values.retain(|name, _| listed.contains(name));
    }

    /// The value in a file alone.
    pub(crate) fn file_value(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|value| value.text.clone())
    }

    /// A variable as it is, also when it is empty.
    pub(crate) fn exact_variable(&self, name: &str) -> Option<String> {
        environment::exact_variable(name).or_else(|| self.file_value(name))
    }

    /// A variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.exact_variable(name).filter(|value| !value.is_empty())
    }

    /// Where the value of a variable comes from, when it has one.
    pub(crate) fn origin(&self, name: &str) -> Option<Origin> {
        match environment::exact_variable(name) {
            Some(_) => Some(Origin::Environment),
            None => self.values.get(name).map(|value| Origin::File(value.file.clone(), value.line)),
        }
    }

    /// The names whose values come from a file.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str).filter(|name| environment::exact_variable(name).is_none())
    }

    /// The values that are used: all of them are secrets.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        self.values.values().map(|value| value.text.clone())
    }

    /// What the reader of the config should know about the files.
    pub(crate) fn remarks(&self) -> &[Remark] {
        &self.remarks
    }
}

type Line = Result<(String, String), &'static str>;

/// The assignments of a file, each with its line.
fn lines(text: &str) -> Vec<(usize, Line)> {
    let mut found = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut number = 1;
    while !rest.is_empty() {
        let (taken, parsed) = one(rest);
        found.extend(parsed.map(|parsed| (number, parsed)));
        number += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    found
}

/// The first line, or lines when a quoted value has several; and how many bytes that is.
fn one(text: &str) -> (usize, Option<Line>) {
    let end = text.find('\n').map_or(text.len(), |end| end + 1);
    let line = text[..end].trim();
    if line.is_empty() || line.starts_with('#') {
        return (end, None);
    }
    let Some(equals) = text[..end].find('=') else {
        return (end, Some(Err("not of the form NAME=value; the line is ignored")));
    };
    let name = text[..equals].trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    if !is_name(name) {
        return (end, Some(Err("the name before `=` is not a variable name; the line is ignored")));
    }
    let start =
        equals + 1 + (text[equals + 1..end].len() - text[equals + 1..end].trim_start_matches([' ', '\t']).len());
    let value = &text[start..];
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => match quoted(&value[1..], quote) {
            Some((value, length)) => {
                let after = start + 1 + length;
                let end = text[after..].find('\n').map_or(text.len(), |end| after + end + 1);
                let tail = text[after..end].trim();
                match tail.is_empty() || tail.starts_with('#') {
                    true => (end, Some(Ok((name.to_owned(), value)))),
                    false => (end, Some(Err("there is text after the closing quote; the line is ignored"))),
                }
            }
            None => (end, Some(Err("the quote is not closed; the line is ignored"))),
        },
        _ => {
            let value = text[start..end].trim_end();
            let comment = [" #", "\t#"].iter().filter_map(|mark| value.find(mark)).min();
            let value = if value.starts_with('#') { "" } else { &value[..comment.unwrap_or(value.len())] };
            (end, Some(Ok((name.to_owned(), value.trim_end().to_owned()))))
        }
    }
}

/// The text up to the closing quote, and the bytes that it takes with the quote. `\n`, `\"` and such only mean something in
/// double quotes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            sign if sign == quote => return Some((value, at + 1)),
            '\\' if quote == '"' => match signs.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other @ ('"' | '\\' | '$') => value.push(other),
                other => value.extend(['\\', other]),
            },
            sign => value.push(sign),
        }
    }
    None
}

/// Whether a text can be the name of a variable.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_comments_and_export_mean_what_they_mean_elsewhere() {
        let text = "\u{feff}# a comment\nA=1\n  export B = two words # not this\nC='single # $x \\n'\nD=\"a\\nb \\\"q\\\"\" # end\n\nE=\nF=a#b\nG=\"two\nlines\"\nH=# empty\r\n";
        let found: Vec<(usize, String, String)> = lines(text)
            .into_iter()
            .map(|(line, parsed)| {
                let (name, value) = parsed.expect("an assignment");
                (line, name, value)
            })
            .collect();
        let expected = [
            (2, "A", "1"),
            (3, "B", "two words"),
            (4, "C", "single # $x \\n"),
            (5, "D", "a\nb \"q\""),
            (7, "E", ""),
            (8, "F", "a#b"),
            (9, "G", "two\nlines"),
            (11, "H", ""),
        ];
        assert_eq!(found, expected.map(|(line, name, value)| (line, name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_and_never_shown() {
        let mut found = DotEnv::default();
        found.take(Path::new(".env"), "sk-secret\n1A=secret\nB=\"secret\nC='x' secret\nD=fine\n");
        let remarks: Vec<String> = found.remarks().iter().map(ToString::to_string).collect();
        assert_eq!(
            remarks,
            [
                ".env:1: not of the form NAME=value; the line is ignored",
                ".env:2: the name before `=` is not a variable name; the line is ignored",
                ".env:3: the quote is not closed; the line is ignored",
                ".env:4: there is text after the closing quote; the line is ignored",
            ]
        );
        assert_eq!(found.origin("D"), Some(Origin::File(".env".into(), 5)));
        assert!(!format!("{found:?}").contains("fine"));
    }

    #[test]
    fn only_listed_names_stay() {
        let mut found = DotEnv::default();
        found.take(Path::new(".env"), "DOTENV_TEST_A=1\nDOTENV_TEST_B=2\n");
        found.keep(&BTreeSet::from(["DOTENV_TEST_A".to_owned()]));
        assert_eq!(found.variable("DOTENV_TEST_A").as_deref(), Some("1"));
        assert_eq!(found.variable("DOTENV_TEST_B"), None);
    }
}
