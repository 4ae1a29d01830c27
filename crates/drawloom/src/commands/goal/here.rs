//! Which repository a command is in, and which goals belong to it.

use std::path::{Path, PathBuf};

use drawloom_substrate::files;

/// Bytes of a file of git that holds a path.
const MAX_BYTES: u64 = 64 * 1024;

/// The git directory that all worktrees of a repository share, found from a folder in one of them.
pub(super) fn repository_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    folder.ancestors().find_map(|ancestor| {
        let git = ancestor.join(".git");
        if git.is_dir() {
            return common_of(&git);
        }
        if let Ok(text) = files::read_text(&git, MAX_BYTES) {
            return common_of(&ancestor.join(text.strip_prefix("gitdir:")?.trim()));
        }
        let is_bare = ancestor.join("HEAD").is_file() && ancestor.join("objects").is_dir();
        if is_bare { common_of(ancestor) } else { None }
    })
}

/// The directory that the git directory of a worktree names, or itself.
fn common_of(git: &Path) -> Option<PathBuf> {
    match files::read_text(&git.join("commondir"), MAX_BYTES) {
        Ok(text) => git.join(text.trim()).canonicalize().ok(),
        Err(_) => git.canonicalize().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_worktrees_of_a_repository_are_one() {
        let place = tempfile::tempdir().expect("a directory");
        let (main, linked, bare) = (place.path().join("main"), place.path().join("linked"), place.path().join("bare"));
        let private = main.join(".git/worktrees/linked");
        fs::create_dir_all(&private).expect("made");
        fs::create_dir_all(main.join("sub/deep")).expect("made");
        fs::write(private.join("commondir"), "../..\n").expect("written");
        fs::create_dir_all(linked.join("sub")).expect("made");
        fs::write(linked.join(".git"), format!("gitdir: {}\n", private.display())).expect("written");
        fs::create_dir_all(bare.join("objects")).expect("made");
        fs::write(bare.join("HEAD"), "ref: refs/heads/main\n").expect("written");
        let common = main.join(".git").canonicalize().ok();
        for folder in [main.clone(), main.join("sub/deep"), linked.join("sub"), linked] {
            assert_eq!(repository_of(&folder), common, "{}", folder.display());
        }
        assert_eq!(repository_of(&bare), bare.canonicalize().ok());
        assert_eq!(repository_of(&place.path().join("missing")), None);
    }
}
