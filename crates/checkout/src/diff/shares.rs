//! A difference within a limit: each file has its share, and what is missing of a file is said in its place.

use drawloom_process::Captured;

use super::Change;

/// What a section begins with. No line of content can: they begin with a space, a sign or a backslash.
const HEADER: &[u8] = b"diff --git ";

/// With less than this a part of a section says nothing.
const LEAST: usize = 160;

/// What the lines take that say what is missing.
const MARKS: usize = 140;

/// The difference of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) bytes: Vec<u8>,
}

/// A difference within a limit.
pub(super) struct Limited {
    pub(super) text: String,
    /// Whether something is missing.
    pub(super) is_cut: bool,
}

/// Divides a difference into its files.
pub(super) fn sections(patch: &[u8]) -> Vec<Section> {
    let mut starts = Vec::new();
    for (at, window) in patch.windows(HEADER.len()).enumerate() {
        if window == HEADER && (at == 0 || patch[at - 1] == b'\n') {
            starts.push(at);
        }
    }
    // A file that became a link has two parts: its end and its beginning.
    let header = |start: &usize| patch[*start..].split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec();
    starts.dedup_by_key(|start| header(start));
    let ends = starts.iter().copied().skip(1).chain([patch.len()]);
    starts.iter().zip(ends).map(|(start, end)| Section { bytes: patch[*start..end].to_vec() }).collect()
}

/// Gives each file its share of `most` bytes. Files of which nothing is shown are named, as long as their names take no more than a quarter
/// of that; then their number is told.
pub(super) fn within(files: &[Change], sections: Vec<Section>, most: usize) -> Limited {
    let lengths: Vec<usize> = sections.iter().map(|section| section.bytes.len()).collect();
    let (mut text, mut is_cut) = (String::new(), false);
    let mut shares = divide(&lengths, most).into_iter();
    let mut sections = sections.into_iter();
    let (mut unnamed, mut left) = (0_u64, most / 4);
    for file in files {
        let shown = sections.next().zip(shares.next());
        let Some((section, share)) = shown.filter(|(section, share)| *share > 0 || section.bytes.is_empty()) else {
            let line = format!("[the difference of {} is not shown]\n", file.path);
            if let Some(rest) = left.checked_sub(line.len()) {
                left = rest;
                text.push_str(&line);
            } else {
                (left, unnamed) = (0, unnamed + 1);
            }
            is_cut = true;
            continue;
        };
        let whole = section.bytes.len();
        if share >= whole {
            text.push_str(&String::from_utf8_lossy(&section.bytes));
            continue;
        }
        is_cut = true;
        let (shown, missing) = ends(&section.bytes, share);
        text.push_str(&shown);
        text.push_str(&format!("[{missing} of {whole} bytes of the difference of {} are not shown]\n", file.path));
    }
    if unnamed > 0 {
        text.push_str(&format!("[the differences of {unnamed} more files are not shown]\n"));
    }
    Limited { text, is_cut }
}

/// The shares of texts with these lengths: the short ones whole, the long ones as much as each other.
fn divide(lengths: &[usize], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|index| lengths[*index]);
    let (mut shares, mut left) = (vec![0; lengths.len()], most);
    for (done, index) in order.iter().enumerate() {
        let fair = left / (lengths.len() - done);
        let share = lengths[*index].min(fair);
        // Too little for one is enough for another.
        shares[*index] = if share < LEAST && share < lengths[*index] { 0 } else { share };
        left -= shares[*index];
    }
    shares
}

/// The beginning and the end of a section within a limit, in whole lines, and how many bytes are missing between them.
fn ends(bytes: &[u8], share: usize) -> (String, u64) {
    let share = share.saturating_sub(MARKS);
    let (head, rest) = bytes.split_at(share / 2);
    let tail = &rest[rest.len() - (share - share / 2)..];
    let missing = (bytes.len() - share) as u64;
    let captured = Captured { head: head.to_vec(), tail: tail.to_vec(), missing }.whole_lines();
    let missing = captured.missing;
    let mut text = captured.into_text();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    (text, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::Status;

    fn change(path: &str) -> Change {
        Change { path: path.into(), status: Status::Added, from: None, bytes: None }
    }

    #[test]
    fn one_huge_file_pushes_no_other_out() {
        let huge = format!("diff --git a/huge b/huge\n{}", "+x\n".repeat(100_000));
        let small = |name: &str| format!("diff --git a/{name} b/{name}\n+small {name}\n");
        let patch = format!("{}{huge}{}", small("a"), small("z"));
        let files = [change("a"), change("huge"), change("z"), change("last")];
        let limited = within(&files, sections(patch.as_bytes()), 2_000);
        assert!(limited.is_cut && limited.text.len() < 2_300, "{}", limited.text.len());
        assert!(limited.text.contains("+small a\n") && limited.text.contains("+small z\n"));
        let (missing, whole) = (huge.len() - 1_876, huge.len());
        assert!(
            limited.text.contains(&format!(" of {whole} bytes of the difference of huge are not shown]")),
            "{missing}"
        );
        assert!(limited.text.ends_with("[the difference of last is not shown]\n"));
    }

    #[test]
    fn files_that_are_too_many_to_name_are_counted() {
        let files: Vec<Change> = (0..10_000).map(|number| change(&format!("f{number}"))).collect();
        let patch: String =
            files.iter().map(|file| format!("diff --git a/{0} b/{0}\n{1}", file.path, "+line\n".repeat(50))).collect();
        let limited = within(&files, sections(patch.as_bytes()), 8_000);
        assert!(limited.is_cut && limited.text.len() <= 11_000, "{}", limited.text.len());
        let named = limited.text.lines().filter(|line| line.contains(" of f")).count();
        let last = limited.text.lines().last().expect("a line");
        assert_eq!(last, format!("[the differences of {} more files are not shown]", files.len() - named));
    }

    #[test]
    fn shares_are_fair_and_within_the_limit() {
        assert_eq!(divide(&[10, 10_000, 10_000], 4_010), [10, 2_000, 2_000]);
        assert_eq!(divide(&[5, 5], 100), [5, 5]);
        let many = divide(&[1_000; 1_000], 10_000);
        assert!(many.iter().sum::<usize>() <= 10_000 && many.iter().any(|share| *share >= LEAST), "{many:?}");
    }

    #[test]
    fn a_header_inside_of_content_divides_nothing() {
        let patch = b"diff --git a/x b/x\n+diff --git a/y b/y\n diff --git a/z b/z\n";
        assert_eq!(sections(patch).len(), 1);
    }
}
