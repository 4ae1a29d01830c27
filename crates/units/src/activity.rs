//! What a tool call does now, such as the last tool that a coding CLI used. Live information: no journal has it.

use serde_json::Value;

use crate::{ids::RunId, money::Cost};

/// Maximum characters of a tool's name.
const MAX_TOOL: usize = 64;

/// Maximum characters of what a tool is used on.
const MAX_DETAIL: usize = 160;

/// What a call does now, and what it used so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// The last tool. Empty before the first.
    pub tool: String,
    /// What the tool is used on, such as a file or a command. May be empty.
    pub detail: String,
    pub tokens: u64,
    pub cost: Option<Cost>,
}

/// What a run does now.
#[derive(Debug, Clone, PartialEq)]
pub struct RunActivity {
    pub run: RunId,
    /// The call that reported it.
    pub call: u64,
    /// The run's `parent_context`.
    pub context: Option<Value>,
    pub activity: Activity,
}

/// Takes reports of what a call does. A report replaces the one before; it never blocks.
pub trait Progress: Send + Sync {
    fn report(&self, activity: Activity);
}

/// Discards reports.
impl Progress for () {
    fn report(&self, _: Activity) {}
}

impl Activity {
    /// The activity with each text on one line, without control characters, and cut to its maximum. Mask secrets before: a
    /// part of a secret is not recognised.
    pub fn bounded(self) -> Self {
        Self { tool: one_line(&self.tool, MAX_TOOL), detail: one_line(&self.detail, MAX_DETAIL), ..self }
    }

    /// The tool and what it is used on: `Edit src/lib.rs`.
    pub fn head(&self) -> String {
        format!("{} {}", self.tool, self.detail).trim().to_owned()
    }
}

/// The beginning of a text on one line.
fn one_line(text: &str, most: usize) -> String {
    let is_space = |character: char| character.is_whitespace() || character.is_control();
    let (mut line, mut length) = (String::new(), 0);
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        let space = if length > 0 { Some(' ') } else { None };
        for character in space.into_iter().chain(word.chars()) {
            if length + 1 == most {
                line.push('…');
                return line;
            }
            line.push(character);
            length += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_bounded_line_without_control_characters() {
        let activity =
            Activity { tool: "Bash\u{1b}[2J".into(), detail: " a\n\tb\u{9b}c ".into(), ..Activity::default() };
        assert_eq!(activity.bounded().head(), "Bash [2J a b c");
        let long = Activity { tool: "x".repeat(100), detail: "ä".repeat(1_000_000), ..Activity::default() }.bounded();
        assert_eq!((long.tool.chars().count(), long.detail.chars().count()), (MAX_TOOL, MAX_DETAIL));
        assert!(long.detail.ends_with("ä…"));
        assert_eq!(Activity::default().bounded().head(), "");
    }
}
