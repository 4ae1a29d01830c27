//! Whether the server of a data directory runs the config that a command found: agents and volumes of one project must not be
//! used by commands of another.

use std::path::PathBuf;

use drawloom_contract::ids::Digest;
use drawloom_substrate::files;

use crate::{config::yaml, data_dir::ServerFile, dotenv, exit::CommandError, import, told::Note};

/// Refuses a server that was started with another config than `files`, which are absolute. The first file tells projects apart;
/// what is laid over it must be the same when the command names several. A command that found no config is for the server that the data
/// directory has.
pub(crate) fn check(server: &ServerFile, files: &[PathBuf]) -> Result<(), CommandError> {
    // Servers of versions before 0.2 do not say which files they have.
    let (Some(theirs), Some(ours)) = (server.config.first(), files.first()) else { return Ok(()) };
    if theirs == ours && (files.len() == 1 || server.config == files) {
        return Ok(());
    }
    let message = format!(
        "the server of this data directory (process {}) runs {}, and this command found {}",
        server.pid,
        names(&server.config),
        names(files)
    );
    let hint = match theirs == ours {
        true => "`drawloom restart` with the same --config makes the server use them",
        false => "pass --data-dir DIR to keep the two apart, or stop that server",
    };
    Err(CommandError::usage("other_config", message).with_hint(hint))
}

/// Whether the files of the server's config have changed since it started.
pub(crate) fn is_changed(server: &ServerFile) -> bool {
    let now = server.config_digest.and_then(|_| digest(&server.config));
    now.is_some() && now != server.config_digest
}

/// What is said of a server that goes on with a config that has changed.
pub(crate) fn warning(server: &ServerFile) -> String {
    format!(
        "warning: {} has changed, and the server still uses the old version; `drawloom restart` loads the new one",
        names(&server.config)
    )
}

/// The same as a note, which is about this server and the config as it is now.
pub(crate) fn note(server: &ServerFile) -> Note {
    let cause = format!("old config of {:?}, now {:?}", server.instance, digest(&server.config));
    Note::of_state(warning(server), cause)
}

/// What is said when the server was started again with the config as it is now.
pub(crate) fn restarted(server: &ServerFile) -> String {
    format!("restarted the server: {} has changed", names(&server.config))
}

/// The digest of what the files, the `.env` beside each and the folders of their `sources` hold; nothing when a file cannot be read.
pub(crate) fn digest(files: &[PathBuf]) -> Option<Digest> {
    let mut all = Vec::new();
    for file in files {
        let bytes = files::read_file(file, yaml::FILE_LIMIT).ok()?;
        all.extend((bytes.len() as u64).to_le_bytes());
        all.extend(bytes);
        if let Ok(values) = files::read_file(&file.with_file_name(dotenv::FILE_NAME), dotenv::FILE_LIMIT) {
            all.extend(values);
        }
    }
    if let Some(sources) = import::digest(files) {
        all.extend(sources.as_bytes());
    }
    Some(Digest::of(&all))
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}
