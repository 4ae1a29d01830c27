//! A folder that was moved: its data is where the old place of its config leads, so it is found by what the note of that data says
//! of the folder and of the config.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use drawloom_contract::ids::Digest;
use drawloom_substrate::files;

use super::{Note, Project, all};
use crate::{
    commands::{Session, status::has_data},
    config::yaml,
    data_dir::DataDir,
    output::Format,
    told,
};

impl Note {
    /// What is noted of the project whose first config file this is.
    pub(super) fn of(first: &Path) -> Self {
        let digest = files::read_file(first, yaml::FILE_LIMIT).ok().map(|bytes| Digest::of(&bytes));
        Self { config: first.to_owned(), folder: first.parent().and_then(identity), digest }
    }

    /// Whether this is the project of `now` at another place: the same folder, or a file with the same content.
    fn is_moved_to(&self, now: &Self) -> bool {
        let is_folder = self.folder.is_some() && self.folder == now.folder;
        let is_content = self.digest.is_some() && self.digest == now.digest;
        (is_folder || is_content) && self.config != now.config && !self.config.exists()
    }
}

/// What tells a folder from all others of this machine, also those that get its inode later.
fn identity(folder: &Path) -> Option<String> {
    let found = fs::metadata(folder).ok()?;
    let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}:{}:{}", found.dev(), found.ino(), born.as_nanos()))
}

/// The data that a project had in another folder.
pub(crate) struct Moved {
    pub data: DataDir,
    /// Where its config was.
    pub config: PathBuf,
}

impl Moved {
    /// What people are told, with the command that brings the data here.
    pub(crate) fn note(&self) -> String {
        format!(
            "this project seems to be that of {}, which is gone\n  `drawloom adopt {}` moves its runs into this project, as long as it has none of its own",
            self.config.display(),
            self.data.path().display()
        )
    }
}

impl Project {
    /// The data that this project had where it was before; nothing when it has data of its own, or a data directory that was named.
    pub(crate) fn moved_from(&self) -> Vec<Moved> {
        let Some(first) = self.files.first().filter(|_| self.is_own && !has_data(self.data.path())) else {
            return Vec::new();
        };
        let now = Note::of(first);
        let known = all().unwrap_or_default().into_iter();
        let known = known.filter(|(data, note)| note.is_moved_to(&now) && has_data(data.path()));
        known.map(|(data, note)| Moved { data, config: note.config }).collect()
    }
}

/// How often people are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tell {
    /// By a command that makes new data now.
    Always,
    Once,
}

/// Tells people that this project has data from before it was moved.
pub(crate) fn say_moved(session: &Session, tell: Tell) {
    if session.output.format() != Format::Human || session.globals.url.is_some() {
        return;
    }
    let Ok(project) = Project::find(&session.globals) else { return };
    for moved in project.moved_from() {
        let note = told::Note::of_state(moved.note(), format!("moved from {}", moved.data.path().display()));
        if tell == Tell::Always || told::is_new(&project, &note) {
            session.output.note(note.text);
        }
    }
}
