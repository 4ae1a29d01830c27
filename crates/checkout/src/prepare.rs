//! Preparing a goal: checks the user's repository, makes our git directory, and fixes the commit that all workers start from.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    checkouts::Checkouts,
    clone::copy_included,
    error::Error,
    git::{Repository, parts},
    names,
    oid::Oid,
    opened::inode_of,
    places::{blocking, write_json},
    state::{Goal, Record},
};

/// What a goal starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// A branch, tag or commit; HEAD when absent.
    pub base: Option<String>,
    /// Whether uncommitted changes of the user's checkout are part of the base: a commit of ours on top of it.
    pub uncommitted: bool,
    /// Globs of more files of the user's checkout that workers get. New files become part of the base. Ignored files and those
    /// whose names usually mean secrets are copied into each checkout instead, and never committed.
    pub include: Vec<String>,
    /// A shell command that is run once in each new writable checkout and each one for verification, in place of the one of the config.
    #[serde(default)]
    pub setup: Option<String>,
    /// Whether workers change the user's checkout itself, one after another. It must be clean and at the base.
    #[serde(default)]
    pub in_place: bool,
    /// An earlier goal: this one has its base, and begins with its branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// The time of the commit that holds uncommitted files, in seconds since 1970.
    pub at: i64,
}

/// A goal that is prepared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The top of the user's checkout, or the repository when it is bare.
    pub repository: PathBuf,
    /// Where in the checkout the goal's directory is; empty for the top.
    pub subdirectory: String,
    /// What workers start from. Not `base_commit` when uncommitted files were taken in.
    pub base: Oid,
    pub base_tree: Oid,
    /// The user's commit that the base is or builds on.
    pub base_commit: Oid,
    /// The branch that the base was, to land on.
    pub base_branch: Option<String>,
    /// The branch of the goal, which the first merge makes.
    pub branch: String,
    /// Where that branch begins, for a goal that goes on from an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Oid>,
    /// How many uncommitted files are part of the base.
    pub uncommitted: usize,
    /// What workers will not see, in sentences.
    pub warnings: Vec<String>,
}

/// What git says about the user's repository.
pub(crate) struct Facts {
    pub(crate) git_directory: PathBuf,
    pub(crate) common: PathBuf,
    pub(crate) objects: PathBuf,
    pub(crate) object_format: String,
    pub(crate) is_shallow: bool,
    /// The top of the checkout and the path from there; absent when it is bare.
    pub(crate) work_tree: Option<(PathBuf, String)>,
}

impl Checkouts {
    /// Prepares a goal for the repository that `directory` is in. A repeated call answers what the first one did.
    pub async fn prepare(&self, goal: &str, directory: &Path, options: &Prepare) -> Result<Prepared, Error> {
        names::check("goal", goal)?;
        let _refs = self.lock_refs(goal).await;
        if let Some(found) = self.find_goal(goal).await? {
            let same = found.record.directory == directory && found.record.options == *options;
            if !same {
                return Err(Error::OtherOptions { goal: goal.to_owned() });
            }
            self.begin_branch(&found).await?;
            self.claim(&found).await?;
            return Ok(found.record.prepared);
        }
        let facts = self.facts(goal, directory).await?;
        let places = self.places(goal);
        let earlier = match &options.continues {
            Some(earlier) => Some(self.earlier(earlier, &facts).await?),
            None => None,
        };
        let (base, branch) = match &earlier {
            Some(Earlier { goal, .. }) => (goal.record.prepared.base.clone(), goal.record.prepared.base_branch.clone()),
            None => self.base(goal, directory, &facts, options).await?,
        };
        self.check_refs(goal, &facts).await?;
        let tree = self.git_in(goal, directory).args(["rev-parse", "--verify", &format!("{base}^{{tree}}")]);
        let base_tree = tree.ok().await?.oid()?;
        let mut record = Record {
            goal: goal.to_owned(),
            directory: directory.to_owned(),
            options: options.clone(),
            prepared: Prepared {
                repository: facts.work_tree.as_ref().map_or_else(|| facts.common.clone(), |(top, _)| top.clone()),
                subdirectory: facts.work_tree.as_ref().map(|(_, prefix)| prefix.clone()).unwrap_or_default(),
                base_commit: base.clone(),
                base,
                base_tree,
                base_branch: branch,
                branch: format!("drawloom/{goal}"),
                head: earlier.as_ref().and_then(|earlier| earlier.head.clone()),
                uncommitted: 0,
                warnings: Vec::new(),
            },
            borrowed: borrowed(&facts.objects)?,
            inode: Some(inode_of(&facts.common)?),
            common: facts.common.clone(),
            objects: facts.objects.clone(),
            submodules: BTreeSet::new(),
            included: Vec::new(),
            is_cleaned: false,
        };
        let is_partial = self.make_git_directory(&places, &facts, &record).await?;
        let mut goal = Goal { record: record.clone(), places };
        let files = self.look_at_base(&mut goal, &facts).await?;
        if is_partial {
            self.check_complete(&goal, files).await?;
        }
        match &earlier {
            Some(earlier) => take_over_files(&mut goal, &earlier.goal).await?,
            None => self.take_in_users_files(&mut goal, &facts).await?,
        }
        goal.warn_in_place();
        record = goal.record.clone();
        let reference = format!("refs/drawloom/{}/base", goal.name());
        // An earlier try may have been killed here, and HEAD may have moved since. Nothing builds on that try.
        let found = self.read_ref(&goal, &reference).await?;
        self.move_ref(&goal, &reference, &record.prepared.base, found.as_ref()).await?;
        let path = goal.places.record();
        let saved = record.clone();
        blocking(move || write_json(&path, &saved)).await?;
        self.begin_branch(&goal).await?;
        // Last: what has a record is given back at the end of its goal.
        self.claim(&goal).await?;
        Ok(record.prepared)
    }

    /// Makes the branch of a goal that goes on from an earlier one. One that is there already has moved on since.
    async fn begin_branch(&self, goal: &Goal) -> Result<(), Error> {
        let Some(head) = &goal.record.prepared.head else { return Ok(()) };
        let reference = format!("refs/heads/{}", goal.record.prepared.branch);
        match self.read_ref(goal, &reference).await? {
            Some(_) => Ok(()),
            None => self.move_ref(goal, &reference, head, None).await,
        }
    }

    /// The goal that another one goes on from, which must be about the same repository.
    async fn earlier(&self, name: &str, facts: &Facts) -> Result<Earlier, Error> {
        let goal = self.goal(name).await?;
        if goal.record.common != facts.common {
            let reason = "it is a goal of another repository";
            return Err(Error::Invalid { what: "earlier goal", value: name.to_owned(), reason });
        }
        let head = self.read_ref(&goal, &format!("refs/heads/{}", goal.record.prepared.branch)).await?;
        Ok(Earlier { goal, head })
    }

    /// Whether goals can work in a directory, and what they would begin with. Changes nothing.
    pub async fn look(&self, directory: &Path) -> Result<String, Error> {
        let facts = self.facts("look", directory).await?;
        let (base, branch) = self.base("look", directory, &facts, &Prepare::default()).await?;
        let at = branch.map_or_else(|| "no branch".to_owned(), |branch| format!("branch {branch}"));
        let shallow = if facts.is_shallow { ", a shallow clone" } else { "" };
        Ok(format!("{at} at {}{shallow}", base.short()))
    }

    async fn facts(&self, goal: &str, directory: &Path) -> Result<Facts, Error> {
        let not_here = |reason: String| Error::NotARepository { directory: directory.to_owned(), reason };
        if !directory.is_absolute() || directory.to_str().is_none_or(|text| text.contains('\n')) {
            return Err(not_here("the path must be absolute, UTF-8 text and without line ends".into()));
        }
        if !directory.is_dir() {
            return Err(not_here("no such directory".into()));
        }
        let version = self.git_in(goal, directory).args(["version"]).ok().await?.text()?;
        check_version(&version)?;
        let asked = [
            "rev-parse",
            "--path-format=absolute",
            "--git-dir",
            "--git-common-dir",
            "--git-path",
            "objects",
            "--show-object-format",
            "--is-bare-repository",
            "--is-shallow-repository",
            "--is-inside-work-tree",
        ];
        let said = |error| match error {
            Error::Git { message, .. } => not_here(message),
            other => other,
        };
        let answer = self.git_in(goal, directory).args(asked).ok().await.map_err(said)?.text()?;
        let lines: Vec<&str> = answer.lines().collect();
        let [git_directory, common, objects, object_format, is_bare, is_shallow, is_inside] = lines[..] else {
            return Err(Error::GitAnswer { command: "rev-parse".into(), answer });
        };
        let work_tree = match (is_bare, is_inside) {
            (_, "true") => {
                let asked = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--show-prefix"];
                let answer = self.git_in(goal, directory).args(asked).ok().await?.text()?;
                let (top, prefix) = answer.split_once('\n').unwrap_or((&answer, ""));
                Some((PathBuf::from(top), prefix.trim_end_matches('/').to_owned()))
            }
            ("true", _) => None,
            (_, _) => return Err(not_here("it is inside a git directory".into())),
        };
        let resolve = |path: &str| fs::canonicalize(path).map_err(Error::file("resolve", path));
        let facts = Facts {
            git_directory: resolve(git_directory)?,
            common: resolve(common)?,
            objects: resolve(objects)?,
            object_format: object_format.to_owned(),
            is_shallow: is_shallow == "true",
            work_tree,
        };
        self.check_opened(directory, &facts, &borrowed(&facts.objects)?)?;
        Ok(facts)
    }

    /// The commit to start from and the branch that it is.
    async fn base(
        &self,
        goal: &str,
        directory: &Path,
        facts: &Facts,
        options: &Prepare,
    ) -> Result<(Oid, Option<String>), Error> {
        let name = options.base.as_deref().unwrap_or("HEAD");
        let unknown = || Error::UnknownBase { base: name.to_owned(), repository: facts.common.clone() };
        if name.is_empty() || name.starts_with('-') || name.contains(['\0', '\n']) {
            return Err(unknown());
        }
        let asked = ["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")];
        let found = self.git_in(goal, directory).args(asked).run(&[0, 1, 128]).await?;
        if found.code != 0 {
            return Err(match options.base {
                None => Error::NoCommit { repository: facts.common.clone() },
                Some(_) => unknown(),
            });
        }
        let commit = found.oid()?;
        let asked = ["rev-parse", "--verify", "--quiet", "--symbolic-full-name", name];
        let full = self.git_in(goal, directory).args(asked).run(&[0, 1, 128]).await?.text()?;
        Ok((commit, full.strip_prefix("refs/heads/").map(str::to_owned)))
    }

    /// Refs of ours that exist already: a branch in our way is an error, and so are the refs of another goal of this name.
    async fn check_refs(&self, goal: &str, facts: &Facts) -> Result<(), Error> {
        let patterns = ["refs/heads/drawloom".to_owned(), format!("refs/heads/drawloom/{goal}")];
        let asked = ["for-each-ref", "--format=%(refname)"].into_iter().map(str::to_owned).chain(patterns.clone());
        let git = self.git_in(goal, &facts.common).variable("GIT_DIR", &facts.common);
        let found = git.args(asked).ok().await?.text()?;
        match found.lines().find(|name| patterns.iter().any(|pattern| pattern == name)) {
            Some(name) => Err(Error::BranchExists { branch: name.trim_start_matches("refs/heads/").to_owned() }),
            None => Ok(()),
        }
    }

    /// That a partial clone has all files of the base: our git fetches nothing.
    async fn check_complete(&self, goal: &Goal, files: Vec<u8>) -> Result<(), Error> {
        let asked = ["cat-file", "--batch-check=%(objecttype)"];
        let found = self.git(goal, Repository::Ours).args(asked).input(files).ok().await?.bytes()?;
        let missing = found.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b" missing")).count();
        match missing {
            0 => Ok(()),
            _ => Err(Error::Incomplete {
                repository: goal.record.common.clone(),
                reason: format!("{missing} files are not fetched"),
            }),
        }
    }

    /// Lists what of the base workers will not see as it is. Answers the ids of its files, one on each line.
    async fn look_at_base(&self, goal: &mut Goal, facts: &Facts) -> Result<Vec<u8>, Error> {
        let base = goal.record.prepared.base.to_string();
        let listed = self.git(goal, Repository::Ours).args(["ls-tree", "-r", "-z", "--full-tree", &base]);
        let incomplete = |error| match error {
            Error::Git { message, .. } => Error::Incomplete { repository: facts.common.clone(), reason: message },
            other => other,
        };
        let listed = listed.ok().await.map_err(incomplete)?.bytes()?;
        let (mut has_attributes, mut files) = (false, Vec::new());
        for entry in parts(&listed) {
            let Some(at) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let path = &entry[at + 1..];
            has_attributes |= path == b".gitattributes" || path.ends_with(b"/.gitattributes");
            if entry.starts_with(b"160000 ") {
                goal.record.submodules.insert(names::shown(path));
            } else if let Some(id) = entry[..at].rsplit(|byte| *byte == b' ').next() {
                files.extend_from_slice(id);
                files.push(b'\n');
            }
        }
        let mut warnings = Vec::new();
        if !goal.record.submodules.is_empty() {
            let all: Vec<&str> = goal.record.submodules.iter().take(5).map(String::as_str).collect();
            let more = if goal.record.submodules.len() > all.len() { ", …" } else { "" };
            let all = all.join(", ");
            warnings.push(match goal.record.options.in_place {
                true => format!("changes in submodules ({all}{more}) are in no checkpoint, and verification does not see them"),
                false => format!(
                    "submodules are not checked out ({all}{more}): workers see empty directories, and changes there are not kept"
                ),
            });
        }
        if has_attributes {
            let asked = ["grep", "-I", "-h", "-e", "filter=", &base, "--", ":(glob)**/.gitattributes"];
            let found = self.git(goal, Repository::Ours).with_globs().args(asked).run(&[0, 1]).await?.stdout;
            let found = String::from_utf8_lossy(&found);
            if goal.record.options.in_place && !found.trim().is_empty() {
                let reason = "files pass filters of .gitattributes, such as Git LFS".into();
                return Err(Error::InPlace { directory: goal.record.prepared.repository.clone(), reason });
            }
            if found.contains("filter=lfs") {
                warnings
                    .push("Git LFS is not used in checkouts: workers see pointer files in place of large files".into());
            } else if !found.trim().is_empty() {
                warnings
                    .push("filters of .gitattributes are not run in checkouts: workers see files as committed".into());
            }
        }
        if facts.is_shallow {
            warnings.push("the repository is a shallow clone: workers see only the history that it has".into());
        }
        goal.record.prepared.warnings.extend(warnings);
        Ok(files)
    }
}

/// A goal that another one goes on from, and where its branch is.
struct Earlier {
    goal: Goal,
    head: Option<Oid>,
}

/// Takes over what an earlier goal began with: its commit of the user's files, and copies of ignored ones.
async fn take_over_files(goal: &mut Goal, earlier: &Goal) -> Result<(), Error> {
    let (base_commit, uncommitted) = (earlier.record.prepared.base_commit.clone(), earlier.record.prepared.uncommitted);
    (goal.record.prepared.base_commit, goal.record.prepared.uncommitted) = (base_commit, uncommitted);
    goal.record.included = earlier.record.included.clone();
    let (from, to, included) = (earlier.places.clone(), goal.places.clone(), earlier.record.included.clone());
    blocking(move || copy_included(&from, &included, &to.included())).await
}

/// Whether git has `merge-tree --write-tree`.
fn check_version(answer: &str) -> Result<(), Error> {
    let version = answer.trim_start_matches("git version ").split(' ').next().unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (2, 38) => Ok(()),
        _ => Err(Error::OldGit { version: version.to_owned() }),
    }
}

/// The object directories that this one borrows from, and those that they borrow from.
fn borrowed(objects: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut open) = (Vec::new(), vec![objects.to_owned()]);
    while let Some(directory) = open.pop() {
        let Ok(list) = fs::read_to_string(directory.join("info/alternates")) else { continue };
        for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Ok(path) = directory.join(line).canonicalize()
                && !found.contains(&path)
            {
                found.push(path.clone());
                open.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_needs_merge_tree() {
        for good in ["git version 2.38.0", "git version 2.39.5 (Apple Git-154)", "git version 3.0.rc1"] {
            check_version(good).expect(good);
        }
        for bad in ["git version 2.37.9", "git version 1.9", "nonsense"] {
            check_version(bad).expect_err(bad);
        }
    }
}
