//! Names and media types of artifacts.

/// Most bytes of a name.
pub const LONGEST_NAME: usize = 200;
/// Texts that every run has; no artifact can have these names.
pub const RESERVED: [&str; 2] = ["final_text", "journal"];
const LONGEST_MEDIA_TYPE: usize = 100;

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("an artifact name must have 1 to {LONGEST_NAME} bytes, not {0}")]
    Length(usize),
    #[error(
        "invalid artifact name {0:?}: use ASCII letters, digits and . _ - with / between parts (example: \
         review/store.md)"
    )]
    Form(String),
    #[error("the name {0} is reserved; choose another name")]
    Reserved(String),
}

/// Parts of ASCII letters, digits, `.`, `_` and `-`, none of them empty, `.` or `..`. Such a name needs no escaping in a URL, a header or
/// a file system.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(NameError::Length(name.len()));
    }
    let is_part = |part: &str| {
        !["", ".", ".."].contains(&part)
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if !name.split('/').all(is_part) {
        return Err(NameError::Form(name.to_owned()));
    }
    match RESERVED.contains(&name) {
        true => Err(NameError::Reserved(name.to_owned())),
        false => Ok(()),
    }
}

/// The media type that a name's ending says.
pub(super) fn media_type_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("md" | "markdown") => "text/markdown",
        Some("json") => "application/json",
        Some("jsonl" | "ndjson") => "application/jsonl",
        Some("csv") => "text/csv",
        Some("html" | "htm") => "text/html",
        Some("svg") => "image/svg+xml",
        Some("xml") => "application/xml",
        Some("yaml" | "yml") => "application/yaml",
        Some("diff" | "patch") => "text/x-diff",
        _ => "text/plain",
    }
}

/// Refuses what is not `type/subtype`; parameters are not kept, because every artifact is UTF-8.
pub(super) fn check_media_type(media_type: &str) -> Result<(), String> {
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let is_pair = media_type.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    match is_pair && media_type.len() <= LONGEST_MEDIA_TYPE {
        true => Ok(()),
        false => Err(format!("invalid media type {media_type:?} (example: text/markdown)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        for name in ["a", "review/store.md", "..hidden", "A-1_b.c/d"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["/a", "a/", "a//b", "../a", "a/./b", "a b", "a\\b", "ä", "a\nb", "a?b", "a\"b"] {
            assert_eq!(check_name(name), Err(NameError::Form(name.into())), "{name}");
        }
        assert_eq!(check_name(""), Err(NameError::Length(0)));
        assert_eq!(check_name(&"x".repeat(201)), Err(NameError::Length(201)));
        assert_eq!(check_name("journal"), Err(NameError::Reserved("journal".into())));
    }

    #[test]
    fn media_types_are_pairs_without_parameters() {
        for media_type in ["text/plain", "image/svg+xml", "application/vnd.a-b.c"] {
            assert_eq!(check_media_type(media_type), Ok(()), "{media_type}");
        }
        for media_type in ["text", "text/", "/plain", "text/plain; charset=x", "text/pl ain", "a/b\r\nc"] {
            assert!(check_media_type(media_type).is_err(), "{media_type}");
        }
        assert_eq!(media_type_of("a/b.MD"), "text/markdown");
        assert_eq!(media_type_of("plain"), "text/plain");
    }
}
