//! Names that belong to the program itself.

/// The first part of the names of what the program brings, such as the agents of goals.
const OWN: &str = "drawloom";

/// Whether a name is one of the program's, `drawloom/…`, or looks like one: with other cases, separators or empty parts before it.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let Some((first, _)) = name.split_once('/') else { return false };
    let plain: String = first.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.eq_ignore_ascii_case(OWN)
}

/// What is wrong with such a name.
pub(crate) const RESERVED: &str = "names that begin with drawloom/ are reserved";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_program_are_recognised_in_every_spelling() {
        for name in [
            "drawloom/model",
            "Drawloom/x",
            "DRAWLOOM/x",
            "draw-loom/x",
            "./drawloom/x",
            "/drawloom/x",
            "drawloom./a/b",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["drawloom", "drawloom-notes", "my/drawloom/x", "drawlooms/x", "drawing/x"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
