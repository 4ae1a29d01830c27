//! Files that make the user's tools run code without a command of the user: settings of coding agents and editors, hooks, scripts of
//! package managers, workflows. `land` asks before it lands them.

mod names;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    checkouts::Checkouts,
    embedded::{is_git_directory, possible_git_directories},
    error::Error,
    git::Repository,
    names::{quoted, shown},
    oid::Oid,
    raw::{Entry, LINK, RawChange, SUBMODULE},
    state::Goal,
};

/// A changed file that makes a tool of the user run something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trigger {
    /// Plain text, or quoted as git quotes it.
    pub path: String,
    /// Which tool runs what, and when.
    pub why: String,
}

impl Trigger {
    /// Whether this names it: its path, as it is or as it is shown, or a folder that it is in, with a slash at the end.
    pub fn is_named(&self, name: &str) -> bool {
        let form = if self.path.starts_with('"') { quoted(name.as_bytes()) } else { name.to_owned() };
        let is_folder = name.ends_with('/') && self.path.starts_with(form.trim_end_matches('"'));
        name == self.path || form == self.path || is_folder
    }
}

/// Maximum number of links that are followed one after another.
const MAX_LINKS: usize = 8;

/// Maximum number of paths that links lead to one file by. Links to the folder that they are in would make them countless.
const MAX_ALIASES: usize = 1_000;

/// Fields of `package.json` that make a package manager or a hook run something, or another program take its place.
const PACKAGE_FIELDS: &[&str] = &[
    "scripts",
    "husky",
    "lint-staged",
    "pre-commit",
    "pre-push",
    "simple-git-hooks",
    "packageManager",
    "pnpm",
    "trustedDependencies",
];

/// The links of a tree, by the path in it that they lead to.
type Links = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

impl Checkouts {
    /// The files that differ between two commits and make a tool of the user run something.
    pub async fn triggers(&self, goal: &str, from: &Oid, to: &Oid) -> Result<Vec<Trigger>, Error> {
        let goal = self.goal(goal).await?;
        let (from, to) = tokio::try_join!(self.tree_of(&goal, from), self.tree_of(&goal, to))?;
        let (changes, entries) = tokio::try_join!(self.raw_changes(&goal, &from, &to, &[]), self.entries(&goal, &to))?;
        let links = self.links(&goal, &entries).await?;
        let repositories = repositories(&changes, &entries);
        let mut found = Vec::new();
        for change in &changes {
            if let Some(why) = self.why(&goal, change, &links, &repositories).await? {
                found.push(Trigger { path: shown(&change.path), why });
            }
        }
        found.sort();
        Ok(found)
    }

    async fn why(
        &self,
        goal: &Goal,
        change: &RawChange,
        links: &Links,
        repositories: &BTreeSet<Vec<u8>>,
    ) -> Result<Option<String>, Error> {
        if repositories.iter().any(|directory| is_below(&change.path, directory)) {
            return Ok(Some("git takes the folder for a repository, and runs its hooks and fsmonitor there".into()));
        }
        if [&change.old, &change.new].into_iter().flatten().any(|entry| entry.mode == SUBMODULE) {
            return Ok(Some("git fetches the submodule".into()));
        }
        let Some(paths) = aliases(&change.path, links) else {
            return Ok(Some("links lead to it in too many ways to say what runs it".into()));
        };
        for path in paths {
            match names::why(&path) {
                Some(names::Rule::Always(why)) => return Ok(Some(why.to_owned())),
                Some(names::Rule::PackageScripts) => return self.package_scripts(goal, change).await,
                None => {}
            }
        }
        Ok(None)
    }

    /// Why a changed `package.json` runs something, if what changed in it does.
    async fn package_scripts(&self, goal: &Goal, change: &RawChange) -> Result<Option<String>, Error> {
        let old = self.json_of(goal, change.old.as_ref()).await?;
        let new = self.json_of(goal, change.new.as_ref()).await?;
        let changed: Vec<&str> = match (&old, &new) {
            (Some(old), Some(new)) => {
                PACKAGE_FIELDS.iter().copied().filter(|field| old.get(*field) != new.get(*field)).collect()
            }
            _ => return Ok(Some("its scripts cannot be compared; package managers run them".into())),
        };
        Ok((!changed.is_empty())
            .then(|| format!("package managers and hooks run what it names ({})", changed.join(", "))))
    }

    /// The JSON in a file; an empty object for a missing file, nothing for what is not JSON.
    async fn json_of(&self, goal: &Goal, entry: Option<&Entry>) -> Result<Option<Value>, Error> {
        let Some(entry) = entry else { return Ok(Some(Value::Object(serde_json::Map::new()))) };
        if entry.mode == LINK {
            return Ok(None);
        }
        let blob = self.git(goal, Repository::Ours).args(["cat-file", "blob", &entry.id]).ok().await?.bytes()?;
        Ok(serde_json::from_slice(&blob).ok().filter(Value::is_object))
    }

    /// The links of a tree.
    async fn links(&self, goal: &Goal, entries: &[(Vec<u8>, Entry)]) -> Result<Links, Error> {
        let links: Vec<&(Vec<u8>, Entry)> = entries.iter().filter(|(_, entry)| entry.mode == LINK).collect();
        if links.is_empty() {
            return Ok(Links::new());
        }
        let input: String = links.iter().map(|(_, entry)| format!("{}\n", entry.id)).collect();
        let git = self.git(goal, Repository::Ours).args(["cat-file", "--batch"]);
        let answer = git.input(input.into_bytes()).ok().await?.bytes()?;
        let mut leads = Links::new();
        for ((path, _), to) in links.iter().zip(blobs(&answer)) {
            if let Some(to) = inside(path, to) {
                leads.entry(to).or_default().push(path.clone());
            }
        }
        Ok(leads)
    }
}

/// The contents in an answer of `cat-file --batch`, in its order.
fn blobs(answer: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut found) = (answer, Vec::new());
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        let Some(content) = size.and_then(|size| rest.get(end + 1..end + 1 + size)) else { break };
        found.push(content);
        rest = rest.get(end + 2 + content.len()..).unwrap_or_default();
    }
    found
}

/// Where a link leads in its tree, when it stays there.
fn inside(link: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = link.split(|byte| *byte == b'/').collect();
    parts.pop();
    if target.starts_with(b"/") {
        return None;
    }
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// All paths that a file is found at: its own, and those over links of the tree. Nothing when there are too many.
fn aliases(path: &[u8], links: &Links) -> Option<BTreeSet<Vec<u8>>> {
    let mut all = BTreeSet::from([path.to_vec()]);
    let mut new: Vec<Vec<u8>> = all.iter().cloned().collect();
    for _ in 0..MAX_LINKS {
        let mut found = BTreeSet::new();
        for path in &new {
            // The path itself, the directories above it, and the top.
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            for end in slashes.chain([path.len(), 0]) {
                let (to, rest) = path.split_at(end);
                let slash: &[u8] = if to.is_empty() && !rest.is_empty() { b"/" } else { b"" };
                for link in links.get(to).into_iter().flatten() {
                    let alias = [link, slash, rest].concat();
                    if alias.len() < 4096 && !all.contains(&alias) {
                        found.insert(alias);
                    }
                    if found.len() > MAX_ALIASES {
                        return None;
                    }
                }
            }
        }
        if found.is_empty() {
            break;
        }
        new = found.iter().cloned().collect();
        all.extend(found);
        if all.len() > MAX_ALIASES {
            return None;
        }
    }
    Some(all)
}

/// The directories that git takes for repositories and that the changes have a part in.
fn repositories(changes: &[RawChange], entries: &[(Vec<u8>, Entry)]) -> BTreeSet<Vec<u8>> {
    let possible: BTreeSet<&[u8]> = changes
        .iter()
        .filter(|change| change.new.is_some())
        .flat_map(|change| possible_git_directories(&change.path))
        .collect();
    let sorted: BTreeSet<&[u8]> = entries.iter().map(|(path, _)| path.as_slice()).collect();
    let is_repository = |directory: &&[u8]| {
        let first = [directory, &b"/"[..]].concat();
        let below = sorted.range(first.as_slice()..).take_while(|path| is_below(path, directory));
        is_git_directory(below.map(|path| {
            let rest = &path[directory.len() + 1..];
            rest.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec()
        }))
    };
    possible.into_iter().filter(is_repository).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_from_a_batch() {
        assert_eq!(blobs(b"abc blob 3\na\nb\ndef blob 0\n\nfff blob 1\nx\n"), [&b"a\nb"[..], b"", b"x"]);
        assert!(blobs(b"abc missing\n").is_empty());
    }

    #[test]
    fn a_name_is_that_of_the_file_or_of_a_folder_with_a_slash() {
        let named = |path: &[u8], name: &str| Trigger { path: shown(path), why: String::new() }.is_named(name);
        let odd = ".github/work\"q\n.yml".as_bytes();
        assert!(named(odd, ".github/work\"q\n.yml") && named(odd, &shown(odd)) && named(odd, ".github/"));
        assert!(named("ü/.envrc".as_bytes(), "ü/") && named("ü/\t.envrc".as_bytes(), "ü/"));
        for name in ["", ".", "/", ".git/", ".github", "github/", "\"", "\".github/", "../.github/"] {
            assert!(!named(odd, name) && !named(b".github/ci.yml", name), "{name}");
        }
    }

    #[test]
    fn files_are_found_over_links_of_the_tree_too() {
        let links = Links::from([
            (b"agents".to_vec(), vec![b".claude".to_vec()]),
            (b".claude".to_vec(), vec![b"a".to_vec()]),
            (b"loop".to_vec(), vec![b"loop/x".to_vec()]),
        ]);
        let found = aliases(b"agents/settings.json", &links).expect("few");
        assert!(found.contains(&b".claude/settings.json"[..]) && found.contains(&b"a/settings.json"[..]));
        assert!(aliases(b"loop/y", &links).is_some_and(|found| found.len() > 1));
        let countless =
            Links::from([(Vec::new(), (0..2_000).map(|number| format!("{number}").into_bytes()).collect())]);
        assert_eq!(aliases(b"README.md", &countless), None);
        let chain: Links =
            (0..100_000).map(|at| (format!("l{at}").into_bytes(), vec![format!("l{}", at + 1).into_bytes()])).collect();
        assert_eq!(aliases(b"l0", &chain).map(|found| found.len()), Some(MAX_LINKS + 1));
        assert_eq!(inside(b"a/b", b"../c/./d"), Some(b"c/d".to_vec()));
        assert_eq!((inside(b"a", b"../c"), inside(b"a", b"/etc")), (None, None));
    }
}
