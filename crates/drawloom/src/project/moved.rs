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
    commands::{
        Session, adopt,
        status::{has_data, is_used},
    },
    config::yaml,
    data_dir::DataDir,
    exit::{CommandError, Exit},
    output::Format,
    told,
};

impl Note {
    /// What is noted of the project whose first config file this is.
    pub(super) fn of(first: &Path) -> Self {
        let digest = files::read_file(first, yaml::FILE_LIMIT).ok().map(|bytes| Digest::of(&bytes));
        Self { config: first.to_owned(), folder: first.parent().and_then(identity), digest }
    }

    /// Whether its config is still where it was, and is another one than `config`: a link may lead from the old place to the new one.
    pub(crate) fn is_in_use_beside(&self, config: &Path) -> bool {
        self.config != config
            && fs::canonicalize(&self.config).is_ok_and(|place| fs::canonicalize(config).ok() != Some(place))
    }

    /// Whether the project of `now` has replaced the one that was at its place: another folder, with another config.
    fn gave_way_to(&self, now: &Self) -> bool {
        self.config == now.config
            && self.folder.is_some()
            && self.digest.is_some()
            && self.folder != now.folder
            && self.digest != now.digest
    }

    /// Whether this is the project of `now` at another place.
    fn likeness(&self, now: &Self) -> Option<Likeness> {
        if self.config == now.config || self.is_in_use_beside(&now.config) {
            return None;
        }
        let is_folder = self.folder.is_some() && self.folder == now.folder;
        let is_content = self.digest.is_some() && self.digest == now.digest;
        let is_name = self.config.file_name() == now.config.file_name();
        match (is_folder && (is_name || is_content), is_folder || is_content) {
            (true, _) => Some(Likeness::Same),
            (false, true) => Some(Likeness::Similar),
            (false, false) => None,
        }
    }
}

/// What tells a folder from all others of this machine, also those that get its inode later.
fn identity(folder: &Path) -> Option<String> {
    let found = fs::metadata(folder).ok()?;
    let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}:{}:{}", found.dev(), found.ino(), born.as_nanos()))
}

/// How sure it is that a project was moved here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// This is the same folder, and its config has the same name or content.
    Same,
    /// The folder or the content of the config is the same: it may be a copy.
    Similar,
}

/// The data that a project had in another folder.
pub(crate) struct Moved {
    pub data: DataDir,
    /// Where its config was.
    pub config: PathBuf,
    likeness: Likeness,
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
        known
            .filter_map(|(data, note)| Some(Moved { data, likeness: note.likeness(&now)?, config: note.config }))
            .filter(|moved| is_used(moved.data.path()))
            .collect()
    }

    /// The same, of places that this folder itself had.
    fn moved_surely(&self) -> Vec<Moved> {
        let mut moved = self.moved_from();
        moved.retain(|moved| moved.likeness == Likeness::Same);
        moved
    }
}

/// Why a command that would make new data stops.
fn refusal(moved: &[Moved]) -> Option<CommandError> {
    // A folder that was moved twice may have data of both places.
    let (first, others) = moved.split_first()?;
    let (config, data) = (first.config.display(), first.data.path().display());
    let message = format!("this project was moved from {config}, and its runs are in {data}");
    let details = others.iter().map(|other| {
        format!("more of its runs, from {}, are in {}", other.config.display(), other.data.path().display())
    });
    let error = CommandError { details: details.collect(), ..CommandError::usage("project_moved", message) };
    Some(CommandError { exit: Exit::NeedsInput, ..error }.with_hint(format!(
        "`drawloom adopt {data}` moves them into this project; `drawloom adopt --none` begins with new data and leaves them there"
    )))
}

/// Before a command makes new data: in a folder that was moved, asks the user whether its runs come along, or refuses. In a folder
/// that only resembles one that is gone, it tells the user.
pub(crate) async fn settle_moved(session: &Session) -> Result<(), CommandError> {
    let Ok(project) = Project::find(&session.globals) else { return Ok(()) };
    say_replaced(session, &project);
    let moved = project.moved_surely();
    let Some(refusal) = refusal(&moved) else {
        say_moved(session, Tell::Always);
        return Ok(());
    };
    let [moved] = &moved[..] else { return Err(refusal) };
    if !session.output.can_ask() {
        return Err(refusal);
    }
    session.output.note(&refusal.message);
    if !session.output.confirm("Move them into this project? [y/N] ")? {
        return Err(refusal);
    }
    let adopted = adopt::adopt(&project, &moved.data).await?;
    session.output.note(adopted.told(&project));
    adopted.note_hosts(session);
    Ok(())
}

/// Tells people that the data of this place was that of another folder with another config. The next command that uses the data notes
/// the new ones, so it is told once.
fn say_replaced(session: &Session, project: &Project) {
    let (Some(first), data) = (project.files.first(), project.data.path()) else { return };
    let known = super::read_note(data).filter(|_| project.is_own && is_used(data));
    if known.is_some_and(|known| known.gave_way_to(&Note::of(first))) {
        session.output.note(format!(
            "another folder with another config was here before, and its runs and memory are now those of {name}\n  \
             to begin with new data: `drawloom stop`, then `drawloom projects rm {data}`",
            name = project.name(),
            data = data.display(),
        ));
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
