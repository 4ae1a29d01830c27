//! Results as text, within the limit, with a notice for everything that is not there.

use std::path::Path;

use super::{
    OutputMode,
    collect::{InFile, Kind, Line, Results, Wanted, units},
};
use crate::{files::shown, walk::LeftOut};

/// Most bytes that one call returns.
pub(crate) const MOST_BYTES: usize = 256 * 1024;

/// The wanted part of the results.
pub(super) fn show(results: Results, wanted: Wanted, left_out: &LeftOut) -> String {
    let mut page = Page { text: String::new(), skip: wanted.offset, shown: 0, limit: wanted.limit, full: false };
    for (path, found) in &results.files {
        page.file(wanted.mode, path, found);
    }
    let total = match wanted.mode {
        OutputMode::Content => results.total_matches,
        OutputMode::FilesWithMatches | OutputMode::Count => results.total_files,
    };
    let mut notices = Vec::new();
    let next = wanted.offset + page.shown;
    match (total, page.shown) {
        (0, _) => notices.push("[no matches]".into()),
        (_, 0) => notices.push(format!("[offset {} is out of range: {total} results]", wanted.offset)),
        _ if (next as u64) < total => {
            let why = if page.full { format!(" at {} KiB", MOST_BYTES / 1024) } else { String::new() };
            notices.push(format!(
                "[truncated{why}: results {} to {next} of {total} in {} files; continue with offset={next}]",
                wanted.offset + 1,
                results.total_files
            ));
        }
        _ => {}
    }
    if wanted.mode == OutputMode::Content && results.cut_lines > 0 {
        notices.push("[long lines are truncated and end with …; use Read to see them in full]".into());
    }
    if results.binary > 0 {
        notices.push(format!("[binary files skipped: {}]", results.binary));
    }
    notices.extend(left_out.notices());
    page.text.push_str(&notices.join("\n"));
    page.text.trim_end_matches('\n').to_owned()
}

struct Page {
    text: String,
    skip: usize,
    shown: usize,
    limit: usize,
    full: bool,
}

impl Page {
    fn file(&mut self, mode: OutputMode, path: &Path, found: &InFile) {
        if self.skip >= units(mode, found) {
            self.skip -= units(mode, found);
            return;
        }
        match mode {
            OutputMode::FilesWithMatches => self.add(&format!("{}\n", shown(path))),
            OutputMode::Count => self.add(&format!("{}:{}\n", shown(path), found.matches)),
            OutputMode::Content => {
                for block in &found.blocks[std::mem::take(&mut self.skip)..] {
                    self.add(&lines(path, block));
                }
            }
        }
    }

    fn add(&mut self, result: &str) {
        if self.shown >= self.limit || self.full {
            return;
        }
        if self.shown > 0 && self.text.len() + result.len() > MOST_BYTES {
            self.full = true;
            return;
        }
        // Nothing stands before the first result, so nothing has to be set apart from it.
        let result = if self.text.is_empty() { result.strip_prefix("--\n").unwrap_or(result) } else { result };
        self.text.push_str(result);
        self.shown += 1;
    }
}

/// One result, cut where it alone would be too long.
fn lines(path: &Path, block: &[Line]) -> String {
    let path = shown(path);
    let mut text = String::new();
    for line in block {
        let next = match line.kind {
            Kind::Match => format!("{path}:{}:{}\n", line.number, line.text),
            Kind::Context => format!("{path}-{}-{}\n", line.number, line.text),
            Kind::Gap => "--\n".into(),
            Kind::Cut => goes_on(&path, line.number),
        };
        if text.len() + next.len() > MOST_BYTES {
            return text + &goes_on(&path, line.number);
        }
        text.push_str(&next);
    }
    text
}

fn goes_on(path: &str, number: u64) -> String {
    format!("[match truncated: it continues in {path} at line {number}; use Read with offset={number}]\n")
}
