//! Files of the user's checkout that are not committed: they become part of the base, or copies in each checkout. The user's
//! index is only read.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{
    attributes::Attributes,
    checkouts::{Checkouts, globs},
    error::Error,
    git::Repository,
    in_place::check_clean,
    names::{is_git_name, rooted, shown},
    places::{Places, blocking, copy_index, make_directory},
    prepare::Facts,
    scan::{Scan, Tracked},
    stage::{Reason, stage},
    state::Goal,
};

/// Where the copy of the user's index lies. No checkout can have this name.
const USERS: &str = ".users";

const MESSAGE: &str = "uncommitted files of the user's checkout";

impl Checkouts {
    /// Takes in what the goal's options name, and warns about uncommitted changes that workers will not see.
    pub(crate) async fn take_in_users_files(&self, goal: &mut Goal, facts: &Facts) -> Result<(), Error> {
        let options = goal.record.options.clone();
        let Some((top, _)) = &facts.work_tree else {
            return match options.in_place {
                true => {
                    Err(Error::InPlace { directory: facts.common.clone(), reason: "it is a bare repository".into() })
                }
                false => Ok(()),
            };
        };
        let head =
            self.git_in(goal.name(), top).args(["rev-parse", "--verify", "--quiet", "HEAD"]).run(&[0, 1]).await?;
        let is_head = head.code == 0 && head.oid()? == goal.record.prepared.base_commit;
        if options.uncommitted && !is_head {
            let reason = "uncommitted changes belong to HEAD; leave out the base or the changes";
            return Err(Error::Invalid { what: "base", value: options.base.unwrap_or_default(), reason });
        }
        if options.in_place {
            // First: what another goal changed there is not the user's.
            self.check_free(goal).await?;
        }
        let index = self.copy_users_index(goal, facts).await?;
        let mut scan = self.scan_changed(goal, Repository::Ours, top, &index).await?;
        if is_head {
            let base = goal.record.prepared.base.to_string();
            let asked = ["diff-index", "--cached", "--name-only", "-z", "--no-renames", &base];
            for path in self.git(goal, Repository::Ours).index(&index).args(asked).ok().await?.parts()? {
                scan.changed.entry(path).or_insert(Tracked::Yes);
            }
        }
        if options.in_place {
            check_clean(goal, &scan, is_head)?;
        }
        let included = self.listed_by(goal, top, &index, &options.include).await?;
        let (taken, copied) = self.divide(&scan, &included, options.uncommitted);
        self.warn(goal, &scan, &taken);
        goal.record.included = self.copy(goal, top, copied).await?;
        self.commit_users_files(goal, top, Scan { changed: taken, ..Scan::default() }).await
    }

    async fn copy_users_index(&self, goal: &Goal, facts: &Facts) -> Result<PathBuf, Error> {
        let (indexes, copy) = (goal.places.indexes(USERS), goal.places.next_index(USERS));
        let (from, ours) = (facts.git_directory.clone(), goal.places.git());
        let to = copy.clone();
        let copied = blocking(move || {
            make_directory(&indexes)?;
            // A split index is continued in a file beside it.
            for entry in fs::read_dir(&from).into_iter().flatten().flatten() {
                if entry.file_name().as_bytes().starts_with(b"sharedindex.") {
                    let _ = fs::copy(entry.path(), ours.join(entry.file_name()));
                }
            }
            Ok::<_, Error>(copy_index(&from.join("index"), &to).is_ok())
        });
        if !copied.await? {
            let tree = goal.record.prepared.base_tree.to_string();
            self.git(goal, Repository::Ours).index(&copy).args(["read-tree", &tree]).ok().await?;
        }
        Ok(copy)
    }

    /// Files that the index does not have and that one of the globs matches.
    async fn listed_by(
        &self,
        goal: &Goal,
        top: &Path,
        index: &Path,
        include: &[String],
    ) -> Result<Vec<Vec<u8>>, Error> {
        if include.is_empty() {
            return Ok(Vec::new());
        }
        let include: Vec<String> =
            include.iter().map(|glob| rooted(glob, &goal.record.prepared.subdirectory)).collect::<Result<_, _>>()?;
        globs(&include)?;
        let specs = include.iter().map(|glob| format!(":(glob){glob}"));
        let git = self.git(goal, Repository::Ours).work_tree(top, index).with_globs();
        git.args(["ls-files", "-z", "--others", "--"]).args(specs).ok().await?.parts()
    }

    /// Which changed files become part of the base, and which files are copied.
    fn divide(
        &self,
        scan: &Scan,
        included: &[Vec<u8>],
        uncommitted: bool,
    ) -> (BTreeMap<Vec<u8>, Tracked>, Vec<Vec<u8>>) {
        let mut taken = if uncommitted { scan.changed.clone() } else { BTreeMap::new() };
        let mut copied = Vec::new();
        for path in included {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            let name = Path::new(OsStr::from_bytes(name));
            let is_secret = self.leave_out.is_match(name) && !self.keep.is_match(name);
            match scan.changed.get(path) {
                Some(tracked) if !is_secret => {
                    taken.insert(path.clone(), *tracked);
                }
                Some(_) | None => {
                    taken.remove(path);
                    copied.push(path.clone());
                }
            }
        }
        (taken, copied)
    }

    fn warn(&self, goal: &mut Goal, scan: &Scan, taken: &BTreeMap<Vec<u8>, Tracked>) {
        let unseen: Vec<String> =
            scan.changed.keys().filter(|path| !taken.contains_key(*path)).map(|path| shown(path)).collect();
        let unseen: Vec<&String> = unseen.iter().filter(|path| !goal.record.submodules.contains(*path)).collect();
        if let Some(first) = unseen.first() {
            goal.record.prepared.warnings.push(format!(
                "workers do not see {} uncommitted {} of your checkout, such as {first}",
                unseen.len(),
                if unseen.len() == 1 { "file" } else { "files" },
            ));
        }
    }

    /// Copies files for all checkouts. Answers those that are plain files with a name that is text.
    async fn copy(&self, goal: &Goal, top: &Path, paths: Vec<Vec<u8>>) -> Result<Vec<String>, Error> {
        let (places, top, most) = (goal.places.clone(), top.to_owned(), self.parts.config.max_included_bytes);
        blocking(move || copy_all(&places, &top, &paths, most)).await
    }

    /// Makes the taken files a commit on top of the base, which is then the base.
    async fn commit_users_files(&self, goal: &mut Goal, top: &Path, scan: Scan) -> Result<(), Error> {
        if scan.changed.is_empty() {
            return Ok(());
        }
        let index = self.index_of(goal, USERS, &goal.record.prepared.base_tree).await?;
        let (rules, places) = (self.rules(goal), goal.places.clone());
        let (from, to) = (top.to_owned(), goal.places.stage(USERS));
        let staged = blocking(move || {
            places.remove(&to)?;
            make_directory(&to)?;
            stage(&from, &to, &scan, &rules)
        });
        let staged = staged.await?;
        for left_out in staged.left_out.iter().filter(|left_out| left_out.reason != Reason::Submodule) {
            let reason = serde_json::to_string(&left_out.reason).unwrap_or_default();
            let warning = format!("the uncommitted file {} is left out: {}", left_out.path, reason.trim_matches('"'));
            goal.record.prepared.warnings.push(warning);
        }
        if staged.is_empty() {
            return Ok(());
        }
        let parent = (&goal.record.prepared.base_tree, Attributes::Files);
        let tree = self.write_tree(goal, USERS, &index, &staged, parent).await?;
        let prepared = &goal.record.prepared;
        if tree == prepared.base_tree {
            return Ok(());
        }
        let at = goal.record.options.at;
        let commit = self.commit_tree(goal, &tree, &[&prepared.base_commit], MESSAGE, at).await?;
        let changes = self.changes(goal, &prepared.base_tree, &tree).await?;
        let new = [commit.clone(), tree.clone()];
        self.make_durable(goal, changes.objects.into_iter().chain(new).collect()).await?;
        let prepared = &mut goal.record.prepared;
        (prepared.base, prepared.base_tree, prepared.uncommitted) = (commit, tree, staged.paths().count());
        Ok(())
    }
}

fn copy_all(places: &Places, top: &Path, paths: &[Vec<u8>], most: u64) -> Result<Vec<String>, Error> {
    let to = places.included();
    places.remove(&to)?;
    let (mut copied, mut bytes) = (Vec::new(), 0);
    for path in paths {
        let Ok(name) = std::str::from_utf8(path) else { continue };
        let from = top.join(name);
        let Ok(metadata) = from.symlink_metadata() else { continue };
        if !metadata.is_file() || is_git_name(path, false) {
            continue;
        }
        bytes += metadata.len();
        if bytes > most {
            return Err(Error::IncludedTooLarge { bytes, most });
        }
        let target = to.join(name);
        make_directory(target.parent().expect("a file has a directory"))?;
        fs::copy(&from, &target).map_err(Error::file("copy", from))?;
        copied.push(name.to_owned());
    }
    Ok(copied)
}
