//! The parts of a directory that everybody may read.

use std::{
    fs::{self, Metadata},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Deepest directory that is looked into, and most files and directories; what is beyond is left out.
const DEEPEST: usize = 12;
const MOST_LOOKED_AT: usize = 20_000;

/// The fewest paths that hold what everybody may read at and below `path`, and nothing else.
pub(super) fn parts(path: &Path) -> Vec<PathBuf> {
    let mut left = MOST_LOOKED_AT;
    match look(path, DEEPEST, &mut left) {
        Look::All => vec![path.to_owned()],
        Look::Some(parts) => parts,
    }
}

/// What everybody may read of a directory or file.
enum Look {
    All,
    Some(Vec<PathBuf>),
}

fn look(path: &Path, deeper: usize, left: &mut usize) -> Look {
    let none = Look::Some(Vec::new());
    let Ok(metadata) = fs::symlink_metadata(path) else { return none };
    // A link needs no right of its own; what it leads to does.
    if metadata.is_symlink() {
        return Look::All;
    }
    if !everybody_may_read(&metadata) || *left == 0 {
        return none;
    }
    *left -= 1;
    if !metadata.is_dir() {
        return Look::All;
    }
    let (Some(deeper), Ok(entries)) = (deeper.checked_sub(1), fs::read_dir(path)) else { return none };
    let (mut all, mut parts) = (true, Vec::new());
    for entry in entries {
        let Ok(entry) = entry else {
            all = false;
            continue;
        };
        match look(&entry.path(), deeper, left) {
            Look::All => parts.push(entry.path()),
            Look::Some(some) => {
                all = false;
                parts.extend(some);
            }
        }
    }
    // A link as a rule would be a rule for what it leads to.
    parts.retain(|path| !path.is_symlink());
    if all { Look::All } else { Look::Some(parts) }
}

fn everybody_may_read(metadata: &Metadata) -> bool {
    let wanted = if metadata.is_dir() { 0o005 } else { 0o004 };
    metadata.permissions().mode() & wanted == wanted
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn what_only_some_may_read_is_left_out_and_the_rest_is_named_by_few_paths() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("permissions");
        for (name, mode) in [("open", 0o644), ("shadow", 0o640), ("ssl/open", 0o644), ("ssl/private/key", 0o644)] {
            fs::create_dir_all(at(name).parent().expect("a parent")).expect("a directory");
            fs::write(at(name), "x").expect("a file");
            fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("permissions");
        }
        fs::create_dir(at("whole")).expect("a directory");
        fs::write(at("whole/file"), "x").expect("a file");
        std::os::unix::fs::symlink("../shadow", at("whole/link")).expect("a link");
        for (name, mode) in [("ssl", 0o755), ("ssl/private", 0o710), ("whole", 0o755), ("whole/file", 0o644)] {
            fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("permissions");
        }
        let mut found = parts(directory.path());
        found.sort();
        assert_eq!(found, [at("open"), at("ssl/open"), at("whole")]);
    }
}
