//! A project: a config file with its data and its server. The place of the first config file (its real folder and its name) tells
//! projects apart, so that two of them on one machine share neither runs nor agents nor a server.

mod moved;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use drawloom_contract::ids::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    cli::Globals,
    commands::status::has_data,
    config,
    data_dir::{self, DataDir, Lock},
    environment,
    exit::CommandError,
};

pub(crate) use moved::{Tell, say_moved, settle_moved};

/// Where the data of projects is, below the user's data directory.
const FOLDER: &str = "projects";
/// What a data directory says of its project.
const FILE: &str = "project.json";
/// The project of the config in the user's config directory.
const USER: &str = "user";
/// Letters of a folder's name that a data directory's name takes over.
const LONGEST_NAME: usize = 40;
/// Hexadecimal digits of the path's digest in it.
const DIGITS: usize = 16;

/// A project, as a command finds it.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    /// The files of its config as they were found; none when only its data is known.
    pub shown: Vec<PathBuf>,
    /// Their places: absolute, in real folders.
    pub files: Vec<PathBuf>,
    /// Its data.
    pub data: DataDir,
    /// Whether the data directory is the one that belongs to the config, and not one that was named.
    is_own: bool,
}

/// What a data directory says of its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The place of its first config file.
    pub config: PathBuf,
    /// What tells the folder of that file from others, wherever it is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// What that file held when the data was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Note {
    /// What people call the project.
    pub(crate) fn name(&self) -> String {
        name(&self.config)
    }
}

impl Project {
    /// The project that a command is about. It must have a config.
    pub(crate) fn find(globals: &Globals) -> Result<Self, CommandError> {
        Self::of(globals, &config::find(&globals.config)?)?.checked()
    }

    /// Refuses data that was deleted while a process uses it.
    fn checked(self) -> Result<Self, CommandError> {
        match self.data.deleted_under() {
            Some(pid) => Err(data_dir::gone(self.data.path(), pid)),
            None => Ok(self),
        }
    }

    /// The project that a command is about which only looks at data: a data directory alone is enough.
    pub(crate) fn find_data(globals: &Globals) -> Result<Self, CommandError> {
        let found = config::find(&globals.config).and_then(|files| Self::of(globals, &files));
        let found = match (found, &globals.data_dir) {
            (Err(_), Some(path)) if globals.config.is_empty() => {
                Self { shown: Vec::new(), files: Vec::new(), data: DataDir::new(path), is_own: false }
            }
            (found, _) => found?,
        };
        found.checked()
    }

    /// The project of these files.
    pub(crate) fn of(globals: &Globals, shown: &[PathBuf]) -> Result<Self, CommandError> {
        let files = config::absolute(shown);
        let Some(first) = files.first() else { return Err(config::missing()) };
        let own = folder().map(|folder| DataDir::new(folder.join(directory_name(first))));
        let data = match &globals.data_dir {
            Some(path) => DataDir::new(path),
            None => own.clone()?,
        };
        // A server in the background is told where its data is.
        let is_own = own.is_ok_and(|own| own == data);
        Ok(Self { shown: shown.to_vec(), files, data, is_own })
    }

    /// What people call it: the folder of its config.
    pub(crate) fn name(&self) -> String {
        self.files.first().map_or_else(|| self.data.path().display().to_string(), |first| name(first))
    }

    /// What tells its data from that of others.
    pub(crate) fn data_name(&self) -> String {
        let path = self.data.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        folder_name(&name, path.as_os_str().as_encoded_bytes())
    }

    /// A name for a folder of its own, below one that all projects share.
    pub(crate) fn folder_name(&self) -> String {
        self.files.first().map_or_else(|| USER.into(), |first| directory_name(first))
    }

    /// Takes ownership of the data for `command`.
    pub(crate) fn lock(&self, command: &str) -> Result<Lock, CommandError> {
        let lock = self.data.lock(command)?;
        self.note(&lock)?;
        Ok(lock)
    }

    /// Writes into the data directory, which is owned, whose data it is. Data of another project that is there is refused: its
    /// interrupted runs would go on with this project's agents and volumes.
    pub(crate) fn note(&self, lock: &Lock) -> Result<(), CommandError> {
        let Some(first) = self.files.first() else { return Ok(()) };
        let note = Note::of(first);
        let directory = lock.directory().path();
        let known = read_note(directory);
        if known.as_ref() == Some(&note) {
            return Ok(());
        }
        if let Some(known) =
            known.filter(|known| known.config != *first && known.config.exists() && has_data(directory))
        {
            let (data, theirs, ours) = (directory.display(), known.config.display(), first.display());
            let message = format!("the data in {data} belongs to {theirs}, and this command found {ours}");
            return Err(CommandError::usage("other_config", message).with_hint(format!(
                "pass --data-dir DIR to keep the two apart; to hand the data over, delete {data}/{FILE}"
            )));
        }
        let (file, temporary) = (directory.join(FILE), directory.join("project.json.new"));
        let text = serde_json::to_vec_pretty(&note).expect("a note has only text keys");
        let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &file));
        written.map_err(|error| CommandError::usage("bad_data_dir", format!("{}: {error}", file.display())))
    }
}

/// What a data directory says of its project.
pub(crate) fn read_note(directory: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(directory.join(FILE)).ok()?).ok()
}

/// Removes what a data directory says of its project, after its data was moved, so that it is not listed any more.
pub(crate) fn remove_note(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The data directories of all projects of this user, with what they say.
pub(crate) fn all() -> Result<Vec<(DataDir, Note)>, CommandError> {
    let folder = folder()?;
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(CommandError::usage("bad_data_dir", format!("{}: {error}", folder.display())));
        }
    };
    let mut found: Vec<_> =
        entries.flatten().filter_map(|entry| Some((DataDir::new(entry.path()), read_note(&entry.path())?))).collect();
    found.sort_by(|(_, one), (_, other)| one.config.cmp(&other.config));
    Ok(found)
}

/// The config of the project whose server has an address, and the server's process.
pub(crate) fn at(address: SocketAddr) -> Option<String> {
    all().ok()?.into_iter().find_map(|(data, note)| {
        let server = data.read_server().filter(|server| data.is_open_in(server.pid))?;
        let theirs: SocketAddr = server.url.strip_prefix("http://")?.parse().ok()?;
        (theirs.port() == address.port()).then(|| format!("{} (process {})", note.config.display(), server.pid))
    })
}

/// The data directory of versions that had one for all projects, when there is something in it.
pub(crate) fn old_data() -> Option<DataDir> {
    let directory = environment::default_data_dir()?;
    directory.join(drawloom_store::FILE).exists().then(|| DataDir::new(directory))
}

/// Whether a data directory is one of those that projects get by themselves.
pub(crate) fn is_own_directory(directory: &Path) -> bool {
    folder().is_ok_and(|folder| directory.parent() == Some(&folder))
}

/// The name of the project that a config file is the first of.
fn name(first: &Path) -> String {
    if config::user_file().is_some_and(|file| config::place(&file) == first) {
        return USER.into();
    }
    let folder = first.parent().and_then(Path::file_name);
    folder.map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned())
}

fn folder() -> Result<PathBuf, CommandError> {
    environment::default_data_dir().map(|directory| directory.join(FOLDER)).ok_or_else(|| {
        CommandError::usage("no_data_dir", "no home directory to keep data in")
            .with_hint("pass --data-dir DIR, or set DRAWLOOM_DATA_DIR")
    })
}

fn directory_name(first: &Path) -> String {
    folder_name(&name(first), first.as_os_str().as_encoded_bytes())
}

/// A name for a folder: `name` as far as it is plain, and a part of the digest of what tells it apart from others.
pub(crate) fn folder_name(name: &str, identity: &[u8]) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    let digest = Digest::of(identity).to_string();
    format!("{}-{}", name.trim_start_matches('.'), &digest[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_told_apart_by_the_path_and_named_by_the_folder() {
        let of = |path: &str| directory_name(Path::new(path));
        assert!(of("/home/me/web shop/drawloom.yaml").starts_with("web-shop-"));
        assert_ne!(of("/a/app/drawloom.yaml"), of("/b/app/drawloom.yaml"));
        assert_ne!(of("/a/app/drawloom.yaml"), of("/a/app/other.yaml"));
        assert!(of("/drawloom.yaml").starts_with("root-"));
        assert!(of(&format!("/{}/drawloom.yaml", "é".repeat(90))).len() <= LONGEST_NAME + 1 + DIGITS);
    }
}
