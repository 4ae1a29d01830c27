//! Skills of the config: reads the directories of `skills` at start.
//!
//! A broken skill is left out and reported with its file and line; the rest of the config is not affected.

use std::path::{Path, PathBuf};

use drawloom_substrate::{
    Finding, Problem, SKILL_FILE, SKILL_FILE_LIMIT, SKILL_LIMIT, Skill, SkillTable, SkillsConfig, Weight,
};

use crate::{frontmatter::Document, import::read_limited};

/// How deep folders of skills are looked for below a directory, and in how many folders.
pub(crate) const MOST_DEPTH: usize = 4;
pub(crate) const MOST_FOLDERS: usize = 20_000;

/// The longest name of a skill, in characters.
pub(crate) const LONGEST_NAME: usize = 64;

/// Most characters of a description.
pub(crate) const LONGEST_DESCRIPTION: usize = 1024;

/// What the directories of `skills` hold.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) table: SkillTable,
    pub(crate) findings: Vec<Finding>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads all skills. Those of sources have names already.
pub(crate) fn read(config: &SkillsConfig, sourced: &[(&str, &Path)]) -> Found {
    let mut found = Found::default();
    for (index, directory) in config.directories.iter().enumerate() {
        let at = ["skills".to_owned(), "directories".to_owned(), index.to_string()];
        if !directory.is_dir() {
            let message = format!("{} is not a directory", directory.display());
            found
                .problems
                .push(Problem::new(at, message).with_hint("create it; a relative path starts at the config file"));
            continue;
        }
        let Folders { found: mut folders, left, .. } = folders(directory);
        for (path, reason) in left {
            found.say(&at, Weight::Warning, format!("{}: {reason}", path.display()));
        }
        if folders.is_empty() {
            found.say(&at, Weight::Note, format!("{} holds no folder with a {SKILL_FILE}", directory.display()));
        }
        let room = SKILL_LIMIT.saturating_sub(found.table.names().count());
        if folders.len() > room {
            let left_out = folders.split_off(room).len();
            let message = format!("more than {SKILL_LIMIT} skills: {left_out} in {} are left out", directory.display());
            found.say(&at, Weight::Warning, message);
        }
        for folder in folders {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            found.take(&at, &name, &folder);
        }
    }
    for (name, folder) in sourced {
        found.take(&["sources".to_owned()], name, folder);
    }
    found
}

/// The folders that agents may not change: those of `sources`, the directories of `skills`, and the folders of skills that a
/// link leads to from there.
pub(crate) fn guarded(sources: &[PathBuf], config: &SkillsConfig, table: &SkillTable) -> Vec<PathBuf> {
    let mut folders = [sources, &config.directories].concat();
    let real: Vec<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let linked = table.all().filter(|skill| !real.iter().any(|directory| skill.folder.starts_with(directory)));
    folders.extend(linked.map(|skill| skill.folder.clone()));
    folders
}

impl Found {
    fn say(&mut self, at: &[String], weight: Weight, message: String) {
        self.findings.push(Finding { weight, at: at.to_vec(), message });
    }

    fn take(&mut self, at: &[String], name: &str, folder: &Path) {
        match head(name, folder) {
            Ok(head) => {
                for (line, message) in head.remarks {
                    self.say(at, Weight::Note, place(folder, line, &message));
                }
                match Skill::open(name.to_owned(), head.description, folder).map(|skill| self.table.add(skill)) {
                    Ok(Ok(())) => {}
                    Ok(Err(skill)) => {
                        let first = self.table.find(&skill.name).map(|first| first.folder.display().to_string());
                        let message =
                            format!("skill {:?} exists already, in {}", skill.name, first.unwrap_or_default());
                        self.say(at, Weight::Warning, place(folder, 1, &message));
                    }
                    Err(error) => self.say(at, Weight::Warning, place(folder, 1, &error.to_string())),
                }
            }
            Err((line, message)) => self.say(at, Weight::Warning, place(folder, line, &message)),
        }
    }
}

fn place(folder: &Path, line: usize, message: &str) -> String {
    format!("{}:{line}: {message}", folder.join(SKILL_FILE).display())
}

/// What the frontmatter of a skill says.
struct Head {
    description: String,
    /// What its reader should know, with the line.
    remarks: Vec<(usize, String)>,
}

/// Reads the head of a skill, or says with the line why it cannot be used. The folder's name is the name of the skill.
fn head(name: &str, folder: &Path) -> Result<Head, (usize, String)> {
    let bytes = read_limited(&folder.join(SKILL_FILE), SKILL_FILE_LIMIT).map_err(|message| (1, message))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        (line + 1, "this is not UTF-8 text".to_owned())
    })?;
    if !is_name(name) {
        let form = format!("at most {LONGEST_NAME} letters, digits, `-`, `_` and `.`");
        return Err((1, format!("the name of the folder, {name:?}, cannot be the name of a skill ({form})")));
    }
    let document = Document::parse(&text);
    let mut remarks = document.faults.clone();
    if let Some(said) = document.text("name").filter(|said| said != name) {
        let line = document.fields.get("name").map_or(1, |field| field.line);
        remarks.push((line, format!("the skill is called {name:?}, as its folder is, and not {said:?}")));
    }
    let mut description = document.text("description").unwrap_or_default();
    let line = document.fields.get("description").map_or(1, |field| field.line);
    if description.is_empty() {
        remarks.push((line, format!("skill {name:?} has no description: a model cannot know when to load it")));
    }
    if let Some((end, _)) = description.char_indices().nth(LONGEST_DESCRIPTION) {
        description.truncate(end);
        remarks.push((line, format!("the description is cut after {LONGEST_DESCRIPTION} characters")));
    }
    if document.body.is_empty() {
        remarks.push((1, format!("skill {name:?} has no instructions")));
    }
    Ok(Head { description, remarks })
}

/// Whether a text can be the name of a skill.
fn is_name(name: &str) -> bool {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(plain) && !name.trim_matches('.').is_empty()
}

/// The folders of skills below a directory.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// Those with a `SKILL.md`, sorted.
    pub(crate) found: Vec<PathBuf>,
    /// What was not looked at, and why.
    pub(crate) left: Vec<(PathBuf, String)>,
    /// How many folders may still be looked at.
    room: usize,
}

/// The folders with a `SKILL.md` below a directory, itself included. What is inside a skill is not looked at, nor are hidden folders:
/// an import that was killed may have left one.
pub(crate) fn folders(directory: &Path) -> Folders {
    let mut folders = Folders { room: MOST_FOLDERS, ..Folders::default() };
    folders.collect(directory, 0);
    if folders.room == 0 {
        folders.left.push((directory.to_owned(), format!("more than {MOST_FOLDERS} folders; the rest is not read")));
    }
    folders
}

impl Folders {
    fn collect(&mut self, directory: &Path, depth: usize) {
        if directory.join(SKILL_FILE).is_file() {
            self.found.push(directory.to_owned());
            return;
        }
        if depth == MOST_DEPTH || self.found.len() > SKILL_LIMIT {
            return;
        }
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let mut below: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| !is_hidden(path) && path.is_dir()).collect();
        below.sort();
        for path in below {
            if leads_above(&path) {
                self.left.push((path, "a link to a folder above".to_owned()));
                continue;
            }
            let Some(room) = self.room.checked_sub(1) else { return };
            self.room = room;
            self.collect(&path, depth + 1);
        }
    }
}

/// Whether a path is a link to a folder that it lies in, such as the root of the file system.
pub(crate) fn leads_above(path: &Path) -> bool {
    path.is_symlink()
        && match (path.canonicalize(), path.parent().map(Path::canonicalize)) {
            (Ok(to), Some(Ok(folder))) => folder.starts_with(to),
            _ => false,
        }
}
