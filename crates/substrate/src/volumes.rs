//! Volumes: directories that agents may touch, opened once, and which of them a path is in.
//!
//! Everything here is about names. Links are no concern of this table: tools open what it locates through the volume's
//! directory handle, which no link leads out of.

mod below;
mod guarded;

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use drawloom_contract::{
    definition::Definition,
    suggest::closest,
    tool::{Guarded, Holder, Mode, Place, ToolError, Volumes},
};

pub(crate) use self::below::Parents;
pub use self::{below::VolumeParent, guarded::Protect};
use crate::problem::Problem;

/// Access to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeMode {
    /// Read and write.
    Rw,
    /// Read only.
    Ro,
}

/// A directory that agents may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-not-built" = ["dynamic_root"]))]
pub struct VolumeConfig {
    /// The directory, relative to the config file; it must exist.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-power" = { "words": "lets agents use files in {}", "as": "path", "when": "outside_or_rw" }))]
    pub path: String,
    /// `rw` (read-write) or `ro` (read-only, the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-power" = { "words": "lets agents change files in the volume", "as": "flag", "when": "rw" }))]
    pub mode: Option<VolumeMode>,
    /// Whether agents without `volumes` use it; at most one volume can be the default.
    #[serde(default)]
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub default: bool,
}

/// A volume, open.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    root: Arc<File>,
    mode: Mode,
    /// Whether the config does not say the mode.
    assumed: bool,
    /// The directory as the config spells it, made absolute, and as the file system does, when that differs.
    spellings: Vec<PathBuf>,
    guarded: Arc<[Guarded]>,
}

/// Every volume, open. It answers for any definition; the definition's gate decides.
#[derive(Debug, Default, Clone)]
pub struct VolumeTable {
    volumes: BTreeMap<String, Arc<Volume>>,
    default: Option<String>,
    /// What agents may not change in any volume.
    protected: Arc<[guarded::Protected]>,
    /// Folders that no volume may be inside of when agents can write it.
    protected_folders: Arc<[PathBuf]>,
}

impl VolumeTable {
    /// Opens every volume, or says all that is wrong. Relative paths are taken from the current directory.
    pub fn open(config: &BTreeMap<String, VolumeConfig>) -> Result<Self, Vec<Problem>> {
        let (table, problems) = Self::open_those_that_open(config);
        if problems.is_empty() { Ok(table) } else { Err(problems) }
    }

    /// The volumes that can be opened, and what is wrong with the others.
    pub fn open_those_that_open(config: &BTreeMap<String, VolumeConfig>) -> (Self, Vec<Problem>) {
        let mut table = Self::default();
        let mut problems = Vec::new();
        for (name, volume) in config {
            match open_volume(volume) {
                Ok(open) => drop(table.volumes.insert(name.clone(), Arc::new(open))),
                Err(message) => problems.push(
                    Problem::new(["volumes", name, "path"], message)
                        .with_hint("create the directory; a relative path starts at the config file"),
                ),
            }
            match &table.default {
                Some(first) if volume.default => problems.push(
                    Problem::new(
                        ["volumes", name, "default"],
                        format!("volume {first:?} is the default volume already"),
                    )
                    .with_hint("keep `default: true` for one volume only"),
                ),
                _ if volume.default => table.default = Some(name.clone()),
                _ => {}
            }
        }
        (table, problems)
    }

    /// Protects the server's config files, the `.env` beside each of them, and folders from agents in every volume. A file whose
    /// directory does not exist is left out: there is nothing to protect. Answers what cannot be protected: volumes inside such a
    /// folder that agents may write.
    pub fn guard(&mut self, protect: Protect<'_>) -> std::io::Result<Vec<Problem>> {
        self.protected = guarded::find(protect)?.into();
        self.protected_folders = protect.folders.into();
        let mut problems = Vec::new();
        for name in self.volumes.keys().cloned().collect::<Vec<_>>() {
            problems.extend(self.guard_one(&name)?);
        }
        Ok(problems)
    }

    /// Protects the same files in one volume.
    fn guard_one(&mut self, name: &str) -> std::io::Result<Vec<Problem>> {
        let Some(volume) = self.volumes.get(name) else { return Ok(Vec::new()) };
        let guarded = guarded::seen_from(&volume.root, &self.protected)?;
        let path = volume.spellings.last().map_or(Path::new("/"), |path| path);
        let mut problems = Vec::new();
        for folder in self.protected_folders.iter().filter(|folder| volume.mode == Mode::ReadWrite && folder.is_dir()) {
            if guarded::contains(&File::open(folder)?, path)? {
                let message = format!(
                    "volume {name} is inside {}, from which the server reads agents or skills; agents must not \
                     change it",
                    folder.display()
                );
                problems.push(Problem::new(["volumes", name, "mode"], message).with_hint("set `mode: ro`"));
            }
        }
        let volume = Arc::new(Volume { guarded, ..Volume::clone(volume) });
        self.volumes.insert(name.to_owned(), volume);
        Ok(problems)
    }

    /// The protected files, as commands in a directory that is no volume of the config must be kept from them.
    pub fn guarded(&self, directory: &File) -> std::io::Result<Arc<[Guarded]>> {
        guarded::seen_from(directory, &self.protected)
    }

    /// The volume marked `default`.
    pub fn default_volume(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// The names of all volumes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.volumes.keys().map(String::as_str)
    }

    /// What may be done in a volume, if there is one of that name.
    pub fn mode(&self, name: &str) -> Option<Mode> {
        self.volumes.get(name).map(|volume| volume.mode)
    }

    /// The volumes whose mode the config does not say: they are read-only.
    pub(crate) fn without_mode(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().filter(|(_, volume)| volume.assumed).map(|(name, _)| name.as_str())
    }

    /// The open directory of a volume, if there is one of that name.
    pub fn root(&self, name: &str) -> Option<&File> {
        self.volumes.get(name).map(|volume| &*volume.root)
    }

    /// The volumes that contain the server's data directory or lie inside it. Its agents could read and change every run. `data`
    /// is a real path, of which the last part may not exist yet.
    pub fn exposing(&self, data: &Path) -> std::io::Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for (name, volume) in &self.volumes {
            let path = volume.spellings.last().map_or(Path::new("/"), |path| path);
            let how = match () {
                () if guarded::contains(&volume.root, data)? => "contains the data directory",
                () if data.exists() && guarded::contains(&File::open(data)?, path)? => "is inside the data directory",
                () => continue,
            };
            let could = match volume.mode {
                Mode::ReadOnly => "read",
                Mode::ReadWrite => "change",
            };
            let message = format!("volume {name} {how} {}: its agents could {could} every run", data.display());
            let hint = "use another directory for the volume, or move the data directory with --data-dir";
            problems.push(Problem::new(["volumes", name, "path"], message).with_hint(hint));
        }
        Ok(problems)
    }

    /// Whether one volume holds the other, or both are one directory.
    pub(crate) fn overlap(&self, left: &str, right: &str) -> bool {
        let (Some(left), Some(right)) = (self.volumes.get(left), self.volumes.get(right)) else { return false };
        left.spellings.iter().any(|a| right.spellings.iter().any(|b| a.starts_with(b) || b.starts_with(a)))
    }

    /// Volumes that exist and that the gate allows.
    fn allowed<'a>(&'a self, definition: &'a Definition) -> impl Iterator<Item = (&'a str, &'a Volume)> {
        let names = definition.volumes.iter().map(String::as_str);
        names.filter_map(|name| self.volumes.get_key_value(name)).map(|(name, volume)| (name.as_str(), &**volume))
    }

    /// "allowed volumes: a (ro), b (rw)".
    fn allowed_text(&self, definition: &Definition) -> String {
        let names: Vec<String> = self
            .allowed(definition)
            .map(|(name, volume)| match volume.mode {
                Mode::ReadOnly => format!("{name} (read-only)"),
                Mode::ReadWrite => format!("{name} (read-write)"),
            })
            .collect();
        match names.is_empty() {
            true => format!("agent {} has no volumes", definition.name),
            false => format!("allowed volumes: {}", names.join(", ")),
        }
    }

    fn named<'a>(&'a self, definition: &'a Definition, name: &str) -> Result<(&'a str, &'a Volume), ToolError> {
        if let Some(found) = self.allowed(definition).find(|(allowed, _)| *allowed == name) {
            return Ok(found);
        }
        let allowed = self.allowed_text(definition);
        if self.volumes.contains_key(name) {
            return Err(ToolError::Denied(format!(
                "agent {} is not allowed to use volume {name:?}; {allowed}",
                definition.name
            )));
        }
        let slip = closest(name, self.allowed(definition).map(|(name, _)| name));
        Err(ToolError::Invalid(match slip {
            Some(slip) => format!("unknown volume {name:?}; did you mean {slip:?}? {allowed}"),
            None => format!("unknown volume {name:?}; {allowed}"),
        }))
    }

    /// The volume that a relative path without a volume's name is in.
    fn implied<'a>(&'a self, definition: &'a Definition, path: &str) -> Result<(&'a str, &'a Volume), ToolError> {
        let mut allowed = self.allowed(definition);
        match (allowed.next(), allowed.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(ToolError::Denied(format!("cannot access {path:?}: {}", self.allowed_text(definition)))),
            (Some(_), Some(_)) => {
                self.allowed(definition).find(|(name, _)| Some(*name) == self.default_volume()).ok_or_else(|| {
                    ToolError::Invalid(format!(
                        "{path:?} is relative and ambiguous; set `volume` ({})",
                        self.allowed_text(definition)
                    ))
                })
            }
        }
    }

    /// The allowed volume that holds an absolute path, and where in it. The innermost, should volumes overlap.
    fn holding<'a>(&'a self, definition: &'a Definition, path: &Path) -> Option<(&'a str, &'a Volume, PathBuf)> {
        self.allowed(definition)
            .filter_map(|(name, volume)| Some((name, volume, inside(volume, path)?)))
            .min_by_key(|(_, _, rest)| rest.components().count())
    }
}

impl Volumes for VolumeTable {
    fn locate(&self, holder: Holder<'_>, volume: Option<&str>, path: &str) -> Result<Place, ToolError> {
        let definition = holder.definition;
        if path.contains('\0') {
            return Err(ToolError::Invalid("the path contains a NUL byte".into()));
        }
        let asked = Path::new(path);
        let place = |name: &str, volume: &Volume, path| Place {
            volume: name.into(),
            root: volume.root.clone(),
            mode: volume.mode,
            guarded: volume.guarded.clone(),
            beside: Arc::default(),
            path,
        };
        if asked.is_absolute() {
            // Above the root there is only the root, so every absolute path has a plain form.
            let plain = normalise(asked).unwrap_or_else(|| PathBuf::from("/"));
            return match volume {
                Some(name) => {
                    let (name, volume) = self.named(definition, name)?;
                    let rest = inside(volume, &plain).ok_or_else(|| {
                        ToolError::Denied(format!(
                            "{path:?} is outside volume {name:?}; {}",
                            self.allowed_text(definition)
                        ))
                    })?;
                    Ok(place(name, volume, rest))
                }
                None => match self.holding(definition, &plain) {
                    Some((name, volume, rest)) => Ok(place(name, volume, rest)),
                    None => Err(ToolError::Denied(format!(
                        "{path:?} is outside every volume of agent {}; {}",
                        definition.name,
                        self.allowed_text(definition)
                    ))),
                },
            };
        }
        let (name, volume) = match volume {
            Some(name) => self.named(definition, name)?,
            None => self.implied(definition, path)?,
        };
        let rest = normalise(asked).ok_or_else(|| {
            ToolError::Denied(format!(
                "{path:?} leaves volume {name:?} through \"..\"; {}",
                self.allowed_text(definition)
            ))
        })?;
        Ok(place(name, volume, rest))
    }
}

/// Where in the volume an absolute path without `..` is.
fn inside(volume: &Volume, path: &Path) -> Option<PathBuf> {
    volume.spellings.iter().find_map(|spelling| path.strip_prefix(spelling).ok()).map(Path::to_owned)
}

/// The path without `.` and `..`, by its text alone; nothing when a relative one climbs above its beginning.
fn normalise(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    let mut depth = 0_usize;
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => plain.push(component),
            Component::CurDir => {}
            Component::ParentDir if depth == 0 && path.is_absolute() => {}
            Component::ParentDir => {
                depth = depth.checked_sub(1)?;
                plain.pop();
            }
            Component::Normal(part) => {
                depth += 1;
                plain.push(part);
            }
        }
    }
    Some(plain)
}

fn open_volume(config: &VolumeConfig) -> Result<Volume, String> {
    let explain = |error: std::io::Error| format!("cannot open the directory {:?}: {error}", config.path);
    let given = std::path::absolute(&config.path).map_err(explain)?;
    let root = File::open(&given).map_err(explain)?;
    if !root.metadata().map_err(explain)?.is_dir() {
        return Err(format!("{:?} is not a directory", config.path));
    }
    let canonical = given.canonicalize().map_err(explain)?;
    // A `..` after a link may lead elsewhere than its text says; then only the real path is a spelling.
    let plain =
        normalise(&given).filter(|plain| *plain != canonical && plain.canonicalize().ok().as_ref() == Some(&canonical));
    let spellings = plain.into_iter().chain([canonical]).collect();
    let mode = match config.mode {
        Some(VolumeMode::Rw) => Mode::ReadWrite,
        Some(VolumeMode::Ro) | None => Mode::ReadOnly,
    };
    Ok(Volume { root: Arc::new(root), mode, assumed: config.mode.is_none(), spellings, guarded: Arc::default() })
}

#[cfg(test)]
mod tests;
