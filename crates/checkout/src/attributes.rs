//! The attributes of the base hold for all that git does with the files of a goal. A `.gitattributes` of a worker is a file like
//! any other: it is committed, and it changes no byte of another file on its way into a checkout or a commit.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use crate::{
    checkouts::Checkouts,
    error::Error,
    git::Repository,
    oid::Oid,
    places::{blocking, make_directory},
    raw::{Entry, LINK, RawChange, index_line},
    stage::Staged,
    state::Goal,
};

/// The file that git reads attributes from, in any directory.
const NAME: &[u8] = b".gitattributes";

/// Attributes that change no byte of a file.
pub(crate) const NEUTRAL: &str = "-text !eol -ident !filter !working-tree-encoding";

/// Whose attributes hold when files become a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// Those of the base of the goal.
    Base,
    /// Those that lie beside the files: they are the user's own.
    Files,
}

pub(crate) fn is_attributes(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(NAME)
}

/// A file of attributes that is committed as it is.
struct Aside {
    path: Vec<u8>,
    mode: &'static str,
    content: Vec<u8>,
}

impl Checkouts {
    /// The files of attributes in which a tree differs from the base.
    pub(crate) async fn changed_attributes(&self, goal: &Goal, tree: &Oid) -> Result<Vec<RawChange>, Error> {
        let base = &goal.record.prepared.base_tree;
        match base == tree {
            true => Ok(Vec::new()),
            false => self.raw_changes(goal, base, tree, &[":(glob)**/.gitattributes"]).await,
        }
    }

    /// What compares the files of a checkout of `tree` with it. Attributes that a worker changed are not asked.
    pub(crate) async fn comparing(&self, goal: &Goal, tree: &Oid) -> Result<Repository, Error> {
        let changed = self.changed_attributes(goal, tree).await?;
        Ok(if changed.is_empty() { Repository::Ours } else { Repository::Plain })
    }

    /// Brings the files in `work`, which `index` is about, to a tree. The attributes of the base decide how they are written.
    pub(crate) async fn write_files(&self, goal: &Goal, work: &Path, index: &Path, tree: &Oid) -> Result<(), Error> {
        let changed = self.changed_attributes(goal, tree).await?;
        let with_base = match changed.is_empty() {
            true => tree.clone(),
            false => self.with_base_attributes(goal, index, tree, &changed).await?,
        };
        let git = self.git(goal, Repository::Ours).work_tree(work, index);
        git.args(["read-tree", "--reset", "-u", with_base.as_str()]).ok().await?;
        if with_base != *tree {
            // What differs are the files of attributes. No other file is written again. Git replaces none that it takes for changed.
            let (places, top) = (goal.places.clone(), work.to_owned());
            let directory = top.clone();
            let of_base: Vec<Vec<u8>> =
                changed.into_iter().filter(|change| change.old.is_some()).map(|change| change.path).collect();
            blocking(move || {
                of_base.iter().try_for_each(|path| places.remove(&directory.join(OsStr::from_bytes(path))))
            })
            .await?;
            let git = self.git(goal, Repository::Plain).work_tree(&top, index);
            git.args(["read-tree", "-m", "-u", with_base.as_str(), tree.as_str()]).ok().await?;
        }
        Ok(())
    }

    /// The tree with the attributes of the base.
    async fn with_base_attributes(
        &self,
        goal: &Goal,
        index: &Path,
        tree: &Oid,
        changed: &[RawChange],
    ) -> Result<Oid, Error> {
        let mut aside = index.as_os_str().to_owned();
        aside.push(".attributes");
        let aside = PathBuf::from(aside);
        let _ = fs::remove_file(&aside);
        let git = || self.git(goal, Repository::Ours).index(&aside);
        git().args(["read-tree", tree.as_str()]).ok().await?;
        let (mut input, zero) = (Vec::new(), tree.zero());
        for change in changed.iter().filter(|change| change.old.is_none()) {
            index_line(&mut input, &change.path, None, &zero);
        }
        for change in changed.iter().filter(|change| change.old.is_some()) {
            index_line(&mut input, &change.path, change.old.as_ref(), &zero);
        }
        git().args(["update-index", "-z", "--add", "--replace", "--index-info"]).input(input).ok().await?;
        let written = git().args(["write-tree"]).ok().await?.oid()?;
        fs::remove_file(&aside).map_err(Error::file("remove", aside))?;
        Ok(written)
    }

    /// Puts what is staged in `stage` into the index, as the attributes of the base say.
    pub(crate) async fn add_with_base_attributes(
        &self,
        goal: &Goal,
        stage: &Path,
        index: &Path,
        staged: &Staged,
        parent_tree: &Oid,
    ) -> Result<(), Error> {
        let changed = self.changed_attributes(goal, parent_tree).await?;
        let touched: Vec<Vec<u8>> = staged.paths().filter(|path| is_attributes(path)).cloned().collect();
        if changed.is_empty() && touched.is_empty() {
            return self.add_staged(goal, stage, index, &staged.deleted, &staged.copied).await;
        }
        let of_base = self.base_attributes(goal).await?;
        let own: Vec<Vec<u8>> = staged.copied.iter().filter(|path| is_attributes(path)).cloned().collect();
        let all: Vec<Vec<u8>> = touched.into_iter().chain(changed.into_iter().map(|change| change.path)).collect();
        let directory = stage.to_owned();
        // Git reads attributes beside the files first. An empty file hides those of the index.
        let aside = blocking(move || {
            let aside = own.iter().map(|path| set_aside(&directory, path)).collect::<Result<Vec<_>, _>>()?;
            for path in all {
                put(&directory, &path, of_base.get(&path).map_or(&[], Vec::as_slice));
            }
            Ok::<_, Error>(aside)
        });
        let aside = aside.await?;
        let copied: Vec<Vec<u8>> = staged.copied.iter().filter(|path| !is_attributes(path)).cloned().collect();
        self.add_staged(goal, stage, index, &staged.deleted, &copied).await?;
        let mut input = Vec::new();
        for Aside { path, mode, content } in aside {
            let git = self.git(goal, Repository::Shared).args(["hash-object", "-w", "--no-filters", "--stdin"]);
            let id = git.input(content).ok().await?.oid()?;
            let entry = Entry { mode: mode.to_owned(), id: id.to_string() };
            index_line(&mut input, &path, Some(&entry), &parent_tree.zero());
        }
        if input.is_empty() {
            return Ok(());
        }
        let git = self.git(goal, Repository::Shared).index(index);
        git.args(["update-index", "-z", "--add", "--replace", "--index-info"]).input(input).ok().await.map(|_| ())
    }

    /// Puts what is staged into the index, as the attributes in the stage and in the index say.
    pub(crate) async fn add_staged(
        &self,
        goal: &Goal,
        stage: &Path,
        index: &Path,
        deleted: &[Vec<u8>],
        copied: &[Vec<u8>],
    ) -> Result<(), Error> {
        // Deletions first, and without a look at files: a link may be where their directory was.
        for (option, paths) in [("--force-remove", deleted), ("--add", copied)] {
            if !paths.is_empty() {
                let input = paths.iter().flat_map(|path| path.iter().copied().chain([0])).collect();
                let git = self.git(goal, Repository::Shared).work_tree(stage, index);
                git.args(["update-index", "-z", option, "--replace", "--stdin"]).input(input).ok().await?;
            }
        }
        Ok(())
    }

    /// The files of attributes of the base, with their content. Git reads none through a link.
    async fn base_attributes(&self, goal: &Goal) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
        let mut found = BTreeMap::new();
        for (path, entry) in self.entries(goal, &goal.record.prepared.base_tree).await? {
            if is_attributes(&path) && entry.mode != LINK {
                let git = self.git(goal, Repository::Ours).args(["cat-file", "blob", &entry.id]);
                found.insert(path, git.ok().await?.bytes()?);
            }
        }
        Ok(found)
    }
}

/// Takes a file of attributes out of the stage.
fn set_aside(stage: &Path, path: &[u8]) -> Result<Aside, Error> {
    let place = stage.join(OsStr::from_bytes(path));
    let metadata = place.symlink_metadata().map_err(Error::file("read", &place))?;
    let (mode, content) = if metadata.is_symlink() {
        let target = fs::read_link(&place).map_err(Error::file("read", &place))?;
        (LINK, target.as_os_str().as_bytes().to_vec())
    } else {
        let mode = if metadata.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" };
        (mode, fs::read(&place).map_err(Error::file("read", &place))?)
    };
    fs::remove_file(&place).map_err(Error::file("remove", place))?;
    Ok(Aside { path: path.to_vec(), mode, content })
}

/// Puts a file of attributes into the stage. Where it has no place, no file of the stage is below it.
fn put(stage: &Path, path: &[u8], content: &[u8]) {
    let place = stage.join(OsStr::from_bytes(path));
    if place.symlink_metadata().is_err()
        && let Some(directory) = place.parent()
        && make_directory(directory).is_ok()
    {
        let _ = fs::write(place, content);
    }
}
