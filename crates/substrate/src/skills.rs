//! Skills: folders with a `SKILL.md` whose instructions agents load when a task needs them.
//!
//! The binary reads the folders at start and parses their frontmatter; this table answers which skills there are and opens
//! their files through the folder's directory handle, so that no link leads out.

mod stored;
mod tool;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::{definition::matches, ids::Tenant};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2},
    io::Errno,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use stored::SkillSource;
pub(crate) use stored::{STORED_FILES_LIMIT, StoredSkill, problems as source_problems};
pub use tool::{Commands, SkillTool};

/// The file of a skill's folder that holds its name, description and instructions.
pub const SKILL_FILE: &str = "SKILL.md";

/// The largest file of a skill that is read, in bytes.
pub const SKILL_FILE_LIMIT: u64 = 256 * 1024;

/// Most skills of a config.
pub const SKILL_LIMIT: usize = 512;

/// Most files of a skill's folder whose names a model is told.
const MOST_FILES: usize = 200;

/// How deep files of a skill are listed.
const MOST_DEPTH: usize = 4;

/// Where skills are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SkillsConfig {
    /// Directories, relative to the config file. Every folder below them that has a `SKILL.md` is a skill.
    #[schemars(inner(length(min = 1)))]
    #[schemars(extend("x-power" = { "words": "takes skills from {}", "as": "path" }))]
    pub directories: Vec<PathBuf>,
}

/// A skill that was found.
#[derive(Debug, Clone)]
pub struct Skill {
    pub name: String,
    /// When to use it, for models.
    pub description: String,
    /// The folder's real path.
    pub folder: PathBuf,
    handle: Arc<File>,
}

impl Skill {
    /// Opens the folder of a skill.
    pub fn open(name: String, description: String, folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let handle = File::open(&folder)?;
        Ok(Self { name, description, folder, handle: Arc::new(handle) })
    }

    /// The instructions: `SKILL.md` without its frontmatter, as it is now.
    pub fn instructions(&self) -> Result<String, String> {
        let text = self.read(SKILL_FILE)?;
        Ok(frontmatter(&text).1.trim().to_owned())
    }

    /// A text file of the folder. Links are not followed, and hidden files are not part of a skill: its folder may be that of
    /// the config, with an `.env` in it.
    pub(crate) fn read(&self, file: &str) -> Result<String, String> {
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => format!("skill {:?} has no file {file:?}", self.name),
            io::ErrorKind::CrossesDevices | io::ErrorKind::PermissionDenied => {
                format!("{file:?} is outside the folder of skill {:?}, or not readable", self.name)
            }
            _ => format!("cannot read {file:?} of skill {:?}: {error}", self.name),
        };
        if Path::new(file).components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".")) {
            return Err(format!("{file:?} of skill {:?} is hidden, or not in its folder", self.name));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = openat2(&*self.handle, file, flags, Mode::empty(), resolve).map_err(|error| match error {
            Errno::LOOP => format!("{file:?} of skill {:?} is a symlink, or inside one", self.name),
            error => explain(error.into()),
        })?;
        let stat = fstat(&opened).map_err(|error| explain(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(format!("{file:?} of skill {:?} is not a regular file", self.name));
        }
        let mut bytes = Vec::new();
        File::from(opened).take(SKILL_FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(explain)?;
        if bytes.len() as u64 > SKILL_FILE_LIMIT {
            return Err(format!("{file:?} of skill {:?} is longer than {SKILL_FILE_LIMIT} bytes", self.name));
        }
        String::from_utf8(bytes).map_err(|_| format!("{file:?} of skill {:?} is not UTF-8 text", self.name))
    }

    /// The paths of its other files, sorted, and whether there are more.
    pub(crate) fn files(&self) -> (Vec<String>, bool) {
        let mut found = Vec::new();
        let mut cut = false;
        list(&self.folder, Path::new(""), &mut found, &mut cut);
        found.sort();
        (found, cut)
    }
}

/// Adds the files below `folder`. Only names are read here; files are opened through the handle.
fn list(folder: &Path, below: &Path, found: &mut Vec<String>, cut: &mut bool) {
    let mut entries: Vec<_> = std::fs::read_dir(folder.join(below)).into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries.into_iter().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".")) {
        let path = below.join(entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && path.components().count() < MOST_DEPTH {
            list(folder, &path, found, cut);
        } else if kind.is_file()
            && path != Path::new(SKILL_FILE)
            && let Some(path) = path.to_str()
        {
            if found.len() == MOST_FILES {
                *cut = true;
                return;
            }
            found.push(path.to_owned());
        }
    }
}

/// The skills that there are, by name.
#[derive(Debug, Clone, Default)]
pub struct SkillTable {
    skills: BTreeMap<String, Skill>,
    /// Those that were defined at runtime; none has a name of the others.
    stored: BTreeMap<String, Arc<StoredSkill>>,
}

/// The skills of a tenant.
pub trait Skills: Send + Sync {
    fn table(&self, tenant: &Tenant) -> Arc<SkillTable>;
}

/// A skill of either kind.
pub(crate) enum Found<'a> {
    Folder(&'a Skill),
    Stored(&'a StoredSkill),
}

impl Found<'_> {
    pub(crate) fn instructions(&self) -> Result<String, String> {
        match self {
            Self::Folder(skill) => skill.instructions(),
            Self::Stored(skill) => Ok(skill.source.instructions.trim().to_owned()),
        }
    }

    fn read(&self, file: &str) -> Result<String, String> {
        match self {
            Self::Folder(skill) => skill.read(file),
            Self::Stored(skill) => skill.read(file),
        }
    }

    fn files(&self) -> (Vec<String>, bool) {
        match self {
            Self::Folder(skill) => skill.files(),
            Self::Stored(skill) => (skill.source.files.keys().cloned().collect(), false),
        }
    }

    /// The folder that commands see; a stored skill has none.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(skill) => Some(&skill.folder),
            Self::Stored(_) => None,
        }
    }
}

impl SkillTable {
    /// Adds a skill. A second one of the same name is handed back: the first one counts.
    pub fn add(&mut self, skill: Skill) -> Result<(), Skill> {
        match self.skills.contains_key(&skill.name) {
            true => Err(skill),
            false => {
                self.skills.insert(skill.name.clone(), skill);
                Ok(())
            }
        }
    }

    /// The skill of this name.
    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.skills.get(name)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// The names of all skills.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.skills.keys().chain(self.stored.keys()).map(String::as_str)
    }

    pub(crate) fn look(&self, name: &str) -> Option<Found<'_>> {
        let stored = || self.stored.get(name).map(|skill| Found::Stored(skill));
        self.skills.get(name).map(Found::Folder).or_else(stored)
    }

    /// The same skills with those of the store beside them. A name that a folder has stays that of the folder.
    pub(crate) fn with_stored(&self, stored: impl IntoIterator<Item = Arc<StoredSkill>>) -> Self {
        let stored = stored.into_iter().filter(|skill| !self.skills.contains_key(&skill.name));
        Self { skills: self.skills.clone(), stored: stored.map(|skill| (skill.name.clone(), skill)).collect() }
    }

    /// Names and descriptions of the skills that one of the patterns means.
    pub(crate) fn allowed(&self, patterns: &[String]) -> BTreeMap<String, String> {
        let folders = self.skills.values().map(|skill| (&skill.name, &skill.description));
        let stored = self.stored.values().map(|skill| (&skill.name, &skill.source.description));
        let meant = folders.chain(stored).filter(|(name, _)| patterns.iter().any(|pattern| matches(pattern, name)));
        meant.map(|(name, description)| (name.clone(), description.clone())).collect()
    }
}

/// A Markdown text as its frontmatter, when it has one, and the rest. A byte order mark is dropped.
pub fn frontmatter(text: &str) -> (Option<&str>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let start = text.trim_start_matches(['\n', '\r', ' ']);
    let Some((first, rest)) = start.split_once('\n') else { return (None, text) };
    if first.trim_end() != "---" {
        return (None, text);
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return (Some(&rest[..end]), &rest[end + line.len()..]);
        }
        end += line.len();
    }
    (None, text)
}

#[cfg(test)]
mod tests;
