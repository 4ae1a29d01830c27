//! Which session a run has at its CLI, for CLIs that choose the id themselves. Small files beside the checkouts: a cache, not the
//! truth. Without one, the work goes on in a new session.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use drawloom_contract::{
    ids::{Digest, RunId},
    usage::Usage,
};
use serde::{Deserialize, Serialize};

/// What is known of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) cli: String,
    pub(crate) session: String,
    /// What the CLI last reported of it, when that is a sum over its processes.
    #[serde(default)]
    pub(crate) reported: Usage,
}

fn path(tree: &Path, run: RunId) -> PathBuf {
    tree.join("sessions").join(format!("{run}.json"))
}

/// The session of a run at this CLI.
pub(crate) fn find(tree: &Path, run: RunId, cli: &str) -> Option<Known> {
    let text = fs::read(path(tree, run)).ok()?;
    serde_json::from_slice::<Known>(&text).ok().filter(|known| known.cli == cli && !known.session.starts_with('-'))
}

/// Remembers the session of a run.
pub(crate) fn remember(tree: &Path, run: RunId, known: &Known) -> io::Result<()> {
    let path = path(tree, run);
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let written = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(&written)?;
    serde_json::to_writer(file, known)?;
    fs::rename(written, path)
}

/// Where the files of a run's session are kept, for CLIs that have all sessions of a user in one file.
pub(crate) fn kept(tree: &Path, run: RunId) -> PathBuf {
    path(tree, run).with_extension("state")
}

/// Forgets the session of a run, and the directories that are empty then.
pub(crate) fn forget(tree: &Path, run: RunId) {
    let path = path(tree, run);
    let _ = fs::remove_file(&path);
    let _ = fs::remove_dir_all(kept(tree, run));
    for directory in path.ancestors().skip(1).take(2) {
        // It fails while something is in it.
        let _ = fs::remove_dir(directory);
    }
}

/// The id of a session that is known before its process starts: derived from the run and the number of the call. A UUID.
pub(crate) fn derived_id(run: RunId, attempt: u32) -> String {
    let digest = Digest::of(format!("drawloom cli session {run} {attempt}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    // Version 8: made by a rule of our own.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// What this process used, when the CLI reports the sum of all processes of a session.
pub(crate) fn since(sum: Usage, before: Usage) -> Usage {
    Usage {
        input_tokens: sum.input_tokens.saturating_sub(before.input_tokens),
        output_tokens: sum.output_tokens.saturating_sub(before.output_tokens),
        cache_creation_input_tokens: sum.cache_creation_input_tokens.saturating_sub(before.cache_creation_input_tokens),
        cache_read_input_tokens: sum.cache_read_input_tokens.saturating_sub(before.cache_read_input_tokens),
        reasoning_tokens: sum.reasoning_tokens.saturating_sub(before.reasoning_tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_remembered_for_its_cli_and_forgotten() {
        let run = RunId::from_bytes([7; 16]);
        let directory = tempfile::tempdir().expect("a directory");
        let tree = directory.path().join("tree");
        let known = Known { cli: "codex".into(), session: "abc".into(), ..Known::default() };
        remember(&tree, run, &known).expect("written");
        assert_eq!(find(&tree, run, "codex"), Some(known));
        assert_eq!(find(&tree, run, "opencode"), None);
        forget(&tree, run);
        assert!(!tree.exists());
    }

    #[test]
    fn ids_are_the_same_for_the_same_call_and_uuids() {
        let run = RunId::from_bytes([7; 16]);
        assert_eq!(derived_id(run, 0), derived_id(run, 0));
        assert_ne!(derived_id(run, 0), derived_id(run, 1));
        let id = derived_id(run, 7);
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!((lengths, &id[14..15]), (vec![8, 4, 4, 4, 12], "8"));
    }
}
