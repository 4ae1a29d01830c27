//! `read_artifact`: part of a text of a run that is too long to be shown whole.

use drawloom_contract::ids::{Digest, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    request::{Changes, Request, Route},
    runs::RunResult,
};

/// The most bytes of an outline.
const OUTLINE_BYTES: usize = 600;
/// The most bytes of one of its lines.
const OUTLINE_LINE: usize = 120;

/// The most bytes of an error, and of all warnings, of one run in an answer that has a limit.
const REMARK_BYTES: usize = 2048;

/// How many bytes one read gives when nobody says.
pub const DEFAULT_READ: u64 = 16 * 1024;
/// The most bytes that one read gives.
pub const MAX_READ: u64 = 256 * 1024;
/// The most bytes of texts that an answer can be asked to hold.
pub const MAX_RESULT_BYTES: u64 = 4 * 1024 * 1024;
/// How many matches one search gives when nobody says.
const DEFAULT_MATCHES: u32 = 50;

/// The name of the text of the last turn: what the agent answered.
pub const FINAL_TEXT: &str = "final_text";
/// The name of every record of the run, one JSON object a line.
pub const JOURNAL: &str = "journal";

/// A text that was left out of an answer because it is long: `read_artifact` gives it in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// The run.
    pub run_id: RunId,
    /// Which text of it.
    pub name: String,
    /// Its bytes, in UTF-8.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Its headings, else its first and last lines, each after its number.
    pub outline: String,
}

/// Reads part of a text of a run, or searches it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArtifact {
    /// The run.
    pub run_id: RunId,
    /// Which text: `final_text` (the answer, and the default), `journal` (all records), or the name of an artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[A-Za-z0-9._/-]*$"))]
    pub name: Option<String>,
    /// The first line to give, from 1. Give this or `offset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub from_line: Option<u64>,
    /// At most this many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub lines: Option<u64>,
    /// The first byte to give, from 0: `next_offset` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Maximum bytes of text. Defaults to 16,384.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_READ))]
    pub max_bytes: Option<u64>,
    /// A regular expression: only lines that match are given, each after its number. It sees 64 KiB of a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000))]
    pub grep: Option<String>,
    /// Lines of context around each match. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 20))]
    pub context: Option<u32>,
    /// Maximum number of matches. Defaults to 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_matches: Option<u32>,
}

/// Part of a text of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactPart {
    /// The run.
    pub run_id: RunId,
    /// Which text of it.
    pub name: String,
    /// The bytes of the whole text.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// SHA-256 of the whole text, in hexadecimal.
    pub sha256: String,
    /// The part, or the lines that match.
    pub text: String,
    /// The line that the part begins in, from 1.
    pub from_line: u64,
    /// Where the next part begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// How many lines match in all, when it was searched; of those that were searched, when `truncated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<u64>,
    /// Whether matches were left out, or not all of the text was searched because that takes too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl Request for ReadArtifact {
    const NAME: &'static str = "read_artifact";
    const ROUTES: &'static [Route] = &[Route::get("/v1/runs/{run_id}/artifact")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ArtifactPart;
}

impl Artifact {
    /// What stands in an answer in place of `text`.
    pub fn of(run_id: RunId, name: &str, text: &str) -> Self {
        Self {
            run_id,
            name: name.to_owned(),
            bytes: text.len() as u64,
            lines: text.lines().count() as u64,
            sha256: Digest::of(text.as_bytes()).to_string(),
            outline: outline(text),
        }
    }
}

/// Takes the longest texts out of `results` until the rest is at most `budget` bytes; each leaves an artifact. Errors and
/// warnings are cut short: the journal has them whole.
pub fn fit(results: &mut [RunResult], budget: u64) {
    results.iter_mut().for_each(cut_remarks);
    let contexts: u64 =
        results.iter().filter_map(|result| Some(result.parent_context.as_ref()?.to_string().len() as u64)).sum();
    // They are the caller's own words, so they go before what was answered.
    let budget = match contexts <= budget / 2 {
        true => budget - contexts,
        false => {
            results.iter_mut().for_each(|result| result.parent_context = None);
            budget
        }
    };
    let mut sizes: Vec<u64> = results.iter().map(length).collect();
    sizes.sort_unstable();
    // The largest size that may stay: short texts are never taken out for the sake of long ones.
    let mut left = budget;
    let mut largest = 0;
    for (at, size) in sizes.iter().enumerate() {
        let others = (sizes.len() - at) as u64;
        if size.saturating_mul(others) > left {
            break;
        }
        left -= size;
        largest = *size;
    }
    for result in results {
        if length(result) > largest
            && let Some(text) = result.final_text.take()
        {
            result.artifact = Some(Artifact::of(result.run_id, FINAL_TEXT, &text));
        }
    }
}

fn cut_remarks(result: &mut RunResult) {
    if let Some(error) = &mut result.error {
        error.message = clip(&error.message, REMARK_BYTES);
        error.hint = error.hint.as_deref().map(|hint| clip(hint, REMARK_BYTES));
    }
    let mut used = 0;
    let kept = result.warnings.iter().take_while(|warning| {
        used += warning.len();
        used <= REMARK_BYTES
    });
    let (kept, all) = (kept.count(), result.warnings.len());
    if kept < all {
        result.warnings.truncate(kept);
        result.warnings.push(format!("{} more warnings are in the journal", all - kept));
    }
}

fn length(result: &RunResult) -> u64 {
    result.final_text.as_ref().map_or(0, |text| text.len() as u64)
}

/// Headings with their line numbers; without headings, the first and the last lines.
fn outline(text: &str) -> String {
    let numbered = |(at, line): (usize, &str)| format!("{}: {}", at + 1, clip(line, OUTLINE_LINE));
    let is_heading = |line: &str| {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        (1..=6).contains(&level) && line.as_bytes().get(level) == Some(&b' ')
    };
    let headings: Vec<String> =
        text.lines().enumerate().filter(|(_, line)| is_heading(line)).take(64).map(numbered).collect();
    let lines = if headings.is_empty() {
        let mut shown: Vec<String> =
            text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(4).map(numbered).collect();
        let last = text.lines().enumerate().last().filter(|_| text.lines().count() > 4);
        shown.extend(last.map(numbered));
        shown
    } else {
        headings
    };
    let mut whole = String::new();
    for line in lines {
        if whole.len() + line.len() + 1 > OUTLINE_BYTES {
            whole.push('…');
            break;
        }
        whole.push_str(&line);
        whole.push('\n');
    }
    whole.trim_end().to_owned()
}

/// The first `most` bytes, at the edge of a character.
fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

impl ReadArtifact {
    /// The whole of a run's answer, from the beginning.
    pub fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            name: None,
            from_line: None,
            lines: None,
            offset: None,
            max_bytes: None,
            grep: None,
            context: None,
            max_matches: None,
        }
    }

    /// Most bytes of the part.
    pub fn most(&self) -> u64 {
        self.max_bytes.unwrap_or(DEFAULT_READ)
    }

    /// Most matches that are shown.
    pub fn most_matches(&self) -> u32 {
        self.max_matches.unwrap_or(DEFAULT_MATCHES)
    }
}

#[cfg(test)]
mod tests;
