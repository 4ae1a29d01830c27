//! Names: which goals and checkouts may have, how paths are shown, and which file names git must not get.

use crate::error::Error;

/// Names that have a meaning of their own in `refs/drawloom/<goal>/`.
const RESERVED: &[&str] = &["base", "wip"];

/// Checks the name of a goal, a checkout or a key: it becomes part of paths and refs.
pub(crate) fn check(what: &'static str, name: &str) -> Result<(), Error> {
    let invalid = |reason| Err(Error::Invalid { what, value: name.to_owned(), reason });
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > 100 || !name.bytes().all(is_plain) {
        return invalid("it must have 1 to 100 ASCII letters, digits, dots, hyphens or underscores");
    }
    if name.starts_with(['.', '-']) || name.ends_with('.') || name.contains("..") || name.ends_with(".lock") {
        return invalid("it must not begin with a dot or hyphen, end with a dot or `.lock`, or contain `..`");
    }
    if RESERVED.contains(&name) {
        return invalid("it is reserved");
    }
    Ok(())
}

/// A path as people and JSON get it: unchanged when it is plain text, and otherwise quoted as git quotes it.
pub(crate) fn shown(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) => text.to_owned(),
        _ => quoted(path),
    }
}

/// A path as git quotes it.
pub(crate) fn quoted(path: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in path {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            b'\n' => quoted.push_str("\\n"),
            b'\t' => quoted.push_str("\\t"),
            b'\r' => quoted.push_str("\\r"),
            0x20..=0x7e => quoted.push(char::from(*byte)),
            other => quoted.push_str(&format!("\\{other:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a path has a part that some file system takes for `.git`, or a link that git refuses. Git refuses such paths; they
/// are found before, so that the rest can be kept.
pub(crate) fn is_git_name(path: &[u8], is_link: bool) -> bool {
    // On Windows a backslash divides paths too.
    let mut parts = path.split(|byte| matches!(byte, b'/' | b'\\')).peekable();
    while let Some(part) = parts.next() {
        let plain = plain_name(part);
        let is_last = parts.peek().is_none();
        if matches!(&plain[..], b".git" | b"git~1" | b"." | b"..")
            || (is_last && is_link && plain.starts_with(b".gitmodules"))
            || (is_last && is_link && plain.starts_with(b"gitmod~"))
        {
            return true;
        }
    }
    false
}

/// A name as file systems compare it that ignore case (Windows, macOS), trailing dots and spaces and streams (Windows), or
/// invisible characters (macOS).
pub(crate) fn plain_name(name: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(name);
    let visible = text.chars().filter(
        |c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'),
    );
    let mut plain: String = visible.collect::<String>().to_ascii_lowercase();
    if let Some(at) = plain.find(':') {
        plain.truncate(at);
    }
    if plain != "." && plain != ".." {
        plain.truncate(plain.trim_end_matches(['.', ' ']).len());
    }
    plain.into_bytes()
}

/// A glob from the top of the repository, of one that is written for a directory of it. One that begins with `/` is from the top.
pub(crate) fn rooted(glob: &str, subdirectory: &str) -> Result<String, Error> {
    let invalid = |reason: &str| Err(Error::Glob { glob: glob.to_owned(), reason: reason.to_owned() });
    let (from_top, mut plain) = match glob.strip_prefix('/') {
        Some(rest) => (true, rest),
        None => (false, glob),
    };
    while let Some(rest) = plain.strip_prefix("./") {
        plain = rest;
    }
    if plain.is_empty() || plain == "." {
        return invalid("it names no file; `**` means all");
    }
    if plain.split('/').any(|part| part == "..") {
        return invalid("it leads out of the directory");
    }
    Ok(match from_top || subdirectory.is_empty() {
        true => plain.to_owned(),
        false => format!("{subdirectory}/{plain}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_begin_in_the_directory_of_the_goal_or_at_the_top() {
        for (glob, subdirectory, expected) in [
            ("tests/**", "", "tests/**"),
            ("./tests/**", "", "tests/**"),
            ("tests/**", "sub", "sub/tests/**"),
            ("././a", "sub/b", "sub/b/a"),
            ("/tests/**", "sub", "tests/**"),
        ] {
            assert_eq!(rooted(glob, subdirectory).expect(glob), expected, "{glob}");
        }
        for glob in ["", "/", ".", "./", "../x", "a/../../b"] {
            rooted(glob, "sub").expect_err(glob);
        }
    }

    #[test]
    fn names_become_parts_of_paths_and_refs_safely() {
        for good in ["a", "run-1", "01J.b_c"] {
            check("goal", good).expect(good);
        }
        for bad in ["", ".", "..", "a/b", "a..b", ".a", "-a", "a.", "a.lock", "ä", "a b", "base", "wip", "a\n"] {
            check("goal", bad).expect_err(bad);
        }
    }

    #[test]
    fn variants_of_the_git_directory_are_found() {
        for name in [
            ".git",
            ".GIT/config",
            "a/.Git/x",
            "git~1",
            "a/GIT~1",
            ".git ",
            ".git./x",
            ".g\u{200c}it/config",
            ".git::$INDEX_ALLOCATION/x",
            "a\\.git\\x",
        ] {
            assert!(is_git_name(name.as_bytes(), false), "{name:?}");
        }
        for name in [".gitignore", ".github/x", "a.git/x", "git", ".gitattributes", ".gitmodules", ":(glob)x", "\\back"]
        {
            assert!(!is_git_name(name.as_bytes(), false), "{name:?}");
        }
        assert!(is_git_name(b"a/.gitmodules", true));
    }

    #[test]
    fn paths_are_shown_as_text_or_quoted() {
        assert_eq!(shown("a b/ä".as_bytes()), "a b/ä");
        assert_eq!(shown(b"a\nb\xff\"c"), "\"a\\nb\\377\\\"c\"");
    }
}
