//! The private clone of a checkout, written by us file by file: its own refs, config, hooks and index, and the user's objects to
//! read.

use std::{fs, path::Path};

use crate::{
    error::Error,
    names,
    oid::Oid,
    places::{Places, copy_index, make_directory},
    private::{format, write_repository},
    state::Goal,
};

/// Settings of a clone: workers can commit, and their git starts nothing in the background.
const SETTINGS: &str = "[core]\n\tbare = false\n\tlogAllRefUpdates = true\n[user]\n\tname = drawloom\n\temail = \
                        drawloom@localhost\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n";

/// Replaces `.git` of a checkout. Whatever a worker made of it goes: links are not followed.
pub(crate) fn write(goal: &Goal, checkout: &Path, index: &Path, branch: &str, commit: &Oid) -> Result<(), Error> {
    let git = checkout.join(".git");
    goal.places.remove(&git)?;
    make_directory(&git)?;
    let object_format = if commit.as_str().len() == 40 { "sha1" } else { "sha256" };
    let mut config = format(object_format);
    config.push_str(SETTINGS);
    write_repository(&git, &config, &goal.record.objects, &goal.places.git().join("shallow"))?;
    let written = (|| {
        fs::copy(goal.places.git().join("info/exclude"), git.join("info/exclude"))?;
        let reference = git.join("refs/heads").join(branch);
        fs::create_dir_all(reference.parent().expect("a ref has a directory"))?;
        fs::write(reference, format!("{commit}\n"))?;
        fs::write(git.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
        copy_index(index, &git.join("index"))
    })();
    written.map_err(Error::file("write", git))
}

/// Copies the user's files that every checkout gets. What a worker put in their place goes.
pub(crate) fn copy_included(places: &Places, included: &[String], checkout: &Path) -> Result<(), Error> {
    for path in included {
        if names::is_git_name(path.as_bytes(), false) {
            continue;
        }
        let (from, to) = (places.included().join(path), checkout.join(path));
        let mut above = checkout.to_owned();
        for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
            above.push(part);
            if above.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
                places.remove(&above)?;
            }
        }
        places.remove(&to)?;
        let directory = to.parent().expect("a file has a directory");
        let copied = fs::create_dir_all(directory).and_then(|()| fs::copy(&from, &to));
        copied.map_err(Error::file("copy", from))?;
    }
    Ok(())
}
