//! Bounds of what a step of the loop answers. The journal keeps at most [`drawloom_contract::tool::MAX_RESULT_BYTES`] of a result, so each
//! answer is brought below that before it is journaled, and says how much it leaves out.

use serde::Serialize;

use crate::workspace::{CheckedOut, Checkpointed, Cleaned, Diffed, Merged, Prepared, Verified};

/// Maximum bytes of the JSON of one list of paths or sentences.
const MAX_LIST_BYTES: usize = 64 * 1024;

/// Maximum bytes of the JSON of what all verify commands printed.
const MAX_OUTPUT_BYTES: usize = 384 * 1024;

/// Maximum bytes of the JSON of a text, such as a difference.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The answer of a step, which brings itself below the bounds.
pub(crate) trait Bounded: Sized {
    fn bounded(self) -> Self;
}

impl Bounded for Prepared {
    fn bounded(mut self) -> Self {
        keep_sentences(&mut self.warnings);
        self
    }
}

impl Bounded for CheckedOut {
    /// Its lists have an entry for each object directory and variable.
    fn bounded(self) -> Self {
        self
    }
}

impl Bounded for Checkpointed {
    fn bounded(mut self) -> Self {
        self.changed_more += keep(&mut self.changed);
        self.left_out_more += keep(&mut self.left_out);
        self.out_of_scope_more += keep(&mut self.out_of_scope);
        keep_sentences(&mut self.warnings);
        self
    }
}

impl Bounded for Merged {
    fn bounded(self) -> Self {
        match self {
            Self::Merged { commit } => Self::Merged { commit },
            Self::Conflict { mut files, files_more, output } => {
                let more = keep(&mut files);
                Self::Conflict { files, files_more: files_more + more, output: head_within(output, MAX_TEXT_BYTES) }
            }
        }
    }
}

impl Bounded for Verified {
    fn bounded(mut self) -> Self {
        let share = MAX_OUTPUT_BYTES / self.results.len().max(1);
        for result in &mut self.results {
            result.output = tail_within(std::mem::take(&mut result.output), share);
            result.error = result.error.take().map(|error| head_within(error, share / 4));
        }
        keep_sentences(&mut self.refusals);
        keep_sentences(&mut self.warnings);
        self
    }
}

impl Bounded for Diffed {
    fn bounded(mut self) -> Self {
        self.truncated |= json_bytes(&self.text) > MAX_TEXT_BYTES;
        self.text = head_within(self.text, MAX_TEXT_BYTES);
        self.triggers_more += keep(&mut self.triggers);
        self.summarised()
    }
}

impl Bounded for Cleaned {
    fn bounded(mut self) -> Self {
        keep_sentences(&mut self.reasons);
        self
    }
}

/// How many bytes a value has as JSON.
pub(crate) fn json_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// Keeps the first entries that fit into a list. Answers how many are left out.
fn keep<T: Serialize>(list: &mut Vec<T>) -> u64 {
    let mut left = MAX_LIST_BYTES;
    let fits = list.iter().take_while(|entry| {
        let bytes = json_bytes(*entry) + 1;
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    });
    let kept = fits.count();
    let more = list.len() - kept;
    list.truncate(kept);
    more as u64
}

/// Keeps the first sentences that fit, and says how many are left out.
fn keep_sentences(list: &mut Vec<String>) {
    let more = keep(list);
    if more > 0 {
        list.push(format!("{more} more, which are not listed"));
    }
}

/// The beginning of a text, as much as has `most` bytes as JSON.
fn head_within(text: String, most: usize) -> String {
    if json_bytes(&text) <= most {
        return text;
    }
    let mut left = most.saturating_sub(64);
    let end = text.char_indices().find(|(_, sign)| !takes(*sign, &mut left)).map_or(text.len(), |(at, _)| at);
    format!("{}\n[{} more bytes are not shown]", &text[..end], text.len() - end)
}

/// The end of a text, as much as has `most` bytes as JSON.
fn tail_within(text: String, most: usize) -> String {
    if json_bytes(&text) <= most {
        return text;
    }
    let mut left = most.saturating_sub(64);
    let cut = text.char_indices().rev().find(|(_, sign)| !takes(*sign, &mut left));
    let start = cut.map_or(0, |(at, sign)| at + sign.len_utf8());
    format!("[{start} bytes before this are not shown]\n{}", &text[start..])
}

/// Whether a character still fits as JSON.
fn takes(sign: char, left: &mut usize) -> bool {
    let bytes = match sign {
        '"' | '\\' => 2,
        control if u32::from(control) < 0x20 => 6,
        other => other.len_utf8(),
    };
    let fits = bytes <= *left;
    *left = left.saturating_sub(bytes);
    fits
}

#[cfg(test)]
mod tests {
    use drawloom_contract::tool::MAX_RESULT_BYTES;

    use super::*;
    use crate::workspace::{ChangedFile, CommandResult, LeftOut, Trigger};

    fn paths(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("\"a\\{:03o}/{}{number}\"", 7, "long name ".repeat(30))).collect()
    }

    fn fits<T: Serialize + Bounded>(value: T) -> T {
        let bounded = value.bounded();
        let bytes = json_bytes(&bounded);
        assert!(bytes < MAX_RESULT_BYTES, "{bytes} bytes");
        bounded
    }

    #[test]
    fn the_answers_of_all_steps_stay_below_what_the_journal_keeps() {
        let left_out = paths(20_000).into_iter().map(|path| LeftOut { path, reason: "too large".into() });
        let kept = fits(Checkpointed {
            changed: paths(20_000),
            left_out: left_out.collect(),
            out_of_scope: paths(20_000),
            warnings: paths(20_000),
            ..Checkpointed::default()
        });
        assert_eq!(kept.changed.len() as u64 + kept.changed_more, 20_000);
        assert!(kept.warnings.last().is_some_and(|last| last.ends_with("more, which are not listed")));

        let noise = "\u{1}\u{2}\"\\é".repeat(100_000);
        let result =
            CommandResult { output: format!("{noise} the end"), error: Some(noise.clone()), ..Default::default() };
        let verified = fits(Verified {
            results: vec![result; 33],
            refusals: paths(20_000),
            warnings: paths(20_000),
            ..Verified::default()
        });
        assert!(verified.results.iter().all(|result| result.output.ends_with("the end")));

        let conflict = Merged::Conflict { files: paths(20_000), files_more: 0, output: noise.clone() };
        let Merged::Conflict { files, files_more, .. } = fits(conflict) else { panic!("no conflict") };
        assert_eq!(files.len() as u64 + files_more, 20_000);

        fits(Cleaned { kept: None, reasons: paths(20_000) });
        let changes = paths(20_000).into_iter().map(|path| ChangedFile { path, status: "added".into(), bytes: 1 });
        let triggers = paths(20_000).into_iter().map(|path| Trigger { path, why: "shells run it".into() });
        let diff =
            Diffed { text: noise, changes: changes.collect(), triggers: triggers.collect(), ..Diffed::default() };
        let diff = fits(diff);
        assert!(diff.truncated);
        assert_eq!(diff.triggers.len() as u64 + diff.triggers_more, 20_000);
        assert_eq!(diff.count(), 20_000);
    }

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(head_within("short".into(), 100), "short");
        assert_eq!(head_within("é".repeat(100), 68), format!("éé\n[196 more bytes are not shown]"));
        assert_eq!(tail_within("é".repeat(100), 68), format!("[196 bytes before this are not shown]\néé"));
    }
}
