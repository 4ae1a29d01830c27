//! What a project's user was told already. A state that lasts, such as a server with an old config, is told once and not at every command.

use std::{fs, path::PathBuf};

use drawloom_contract::ids::Digest;
use serde::{Deserialize, Serialize};

use crate::{environment, project::Project};

/// Where it is kept, below the user's data directory: a project may have no data yet.
const FOLDER: &str = "told";
/// How many causes of a project are remembered, the newest.
const MAX_CAUSES: usize = 32;

/// A note for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub text: String,
    /// What the note is about, when that lasts; a note without it is about something that happened just now.
    pub cause: Option<String>,
}

impl Note {
    /// About something that happened.
    pub(crate) fn of_event(text: String) -> Self {
        Self { text, cause: None }
    }

    /// About a state that lasts until `cause` changes.
    pub(crate) fn of_state(text: String, cause: String) -> Self {
        Self { text, cause: Some(cause) }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Causes {
    causes: Vec<Digest>,
}

/// Whether this note is to be shown now. A state is remembered as told.
pub(crate) fn is_new(project: &Project, note: &Note) -> bool {
    let Some(cause) = &note.cause else { return true };
    let Some(file) = file(project) else { return true };
    let cause = Digest::of(cause.as_bytes());
    let mut told: Causes =
        fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    if told.causes.contains(&cause) {
        return false;
    }
    told.causes.push(cause);
    let extra = told.causes.len().saturating_sub(MAX_CAUSES);
    told.causes.drain(..extra);
    let text = serde_json::to_vec(&told).expect("causes have only text keys");
    // What cannot be remembered is told again.
    if let Some(folder) = file.parent() {
        drop(fs::create_dir_all(folder).and_then(|()| fs::write(&file, text)));
    }
    true
}

fn file(project: &Project) -> Option<PathBuf> {
    let folder = environment::default_data_dir()?.join(FOLDER);
    Some(folder.join(format!("{}.json", project.data_name())))
}
