//! Trust: whether this user agreed to what a config can do.
//!
//! A config that was found can start programs, send keys to any address and open volumes, and a folder that another person made
//! can contain one. So nothing of it is started or called before its user has seen the list of its powers and agreed. A prompt
//! may change later; a new power asks again.

mod powers;
mod record;

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use serde_json::{Value, json};

pub(crate) use powers::Powers;
use record::{Agreed, Records};

use crate::{
    config::{self, Loaded},
    environment,
    exit::{CommandError, Exit},
    output::{Output, Style},
};

/// How the files of a config came to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Named with `--config`: the user chose it.
    Given,
    /// Found from the current directory: anybody may have put it there.
    Found,
    /// In the user's own config directory: only this user can have put it there.
    User,
}

impl Origin {
    /// The origin of `files`, when `given` are the files of the command line.
    pub(crate) fn of(given: &[PathBuf], files: &[PathBuf]) -> Self {
        let directory = environment::default_config_dir().and_then(|directory| directory.canonicalize().ok());
        let is_users = |file: &PathBuf| directory.is_some() && config::place(file).parent() == directory.as_deref();
        match (given.is_empty(), files.iter().all(is_users)) {
            (false, _) => Self::Given,
            (true, true) => Self::User,
            (true, false) => Self::Found,
        }
    }
}

/// Who can be asked.
#[derive(Clone, Copy)]
pub(crate) enum Asking<'a> {
    /// The person at the terminal.
    Terminal(&'a Output),
    /// The command does not ask: it refuses a config that is not trusted.
    Never,
}

impl<'a> Asking<'a> {
    /// The person at the terminal, when there is one.
    pub(crate) fn at(output: &'a Output) -> Self {
        if output.can_ask() { Self::Terminal(output) } else { Self::Never }
    }
}

/// Passes when the config may be used; else asks, or refuses.
pub(crate) fn check(
    files: &[PathBuf],
    loaded: &Loaded,
    origin: Origin,
    asking: Asking<'_>,
) -> Result<(), CommandError> {
    match origin {
        // Only this user can have put it there, so there is nothing to ask.
        Origin::User => return Ok(()),
        Origin::Given => {
            // Being named is enough. The record only spares a question when the same config is found later.
            let kept = Review::of(files, loaded).and_then(|review| review.bring_up_to_date());
            if let Err(error) = kept {
                tracing::debug!(%error, "the trust in the config could not be recorded");
            }
            return Ok(());
        }
        Origin::Found => check_owner(files)?,
    }
    if Powers::of(loaded).is_empty() {
        return Ok(());
    }
    let review = Review::of(files, loaded)?;
    if !review.is_trusted() && !review.ask(asking)? {
        return Err(review.refusal());
    }
    review.bring_up_to_date()
}

/// Whether a config may be used when it is found, as `validate` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Trusted,
    /// It has no powers.
    NotNeeded,
    NotTrusted,
}

impl State {
    /// Of these files, which have no mistakes. It changes nothing.
    pub(crate) fn of(files: &[PathBuf], loaded: &Loaded) -> Result<Self, CommandError> {
        if Origin::of(&[], files) == Origin::User {
            return Ok(Self::Trusted);
        }
        let review = Review::of(files, loaded)?;
        Ok(match (review.powers.is_empty(), review.is_trusted()) {
            (true, _) => Self::NotNeeded,
            (false, true) => Self::Trusted,
            (false, false) => Self::NotTrusted,
        })
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::NotNeeded => "not_needed",
            Self::NotTrusted => "not_trusted",
        }
    }
}

/// Refuses a file, or a link to it, that belongs to another user: that user could change it at any time.
pub(crate) fn check_owner(files: &[PathBuf]) -> Result<(), CommandError> {
    let us = geteuid().as_raw();
    for file in files {
        for found in [file.symlink_metadata(), file.metadata()] {
            let owner = found
                .map(|found| found.uid())
                .map_err(|error| CommandError::usage("bad_file", format!("cannot read {}: {error}", file.display())))?;
            if owner != us {
                let message = format!(
                    "{} belongs to user {owner}, and this command runs as user {us}; nothing of it was started",
                    file.display()
                );
                return Err(CommandError::usage("foreign_config", message)
                    .with_hint(format!("read it first; then --config {} uses it on purpose", file.display())));
            }
        }
    }
    Ok(())
}

/// Records that this user agrees to the config in `file`, such as one that this command wrote.
pub(crate) fn agree(file: &Path) -> Result<(), CommandError> {
    let files = [file.to_owned()];
    Review::of(&files, &config::load_files(&files)?)?.bring_up_to_date()
}

/// Takes the agreement back; says whether there was one.
pub(crate) fn revoke(files: &[PathBuf]) -> Result<bool, CommandError> {
    records()?.remove(&name(files))
}

/// The file that agreements are kept in, when its directory exists: agents must not change it.
pub(crate) fn file() -> Option<PathBuf> {
    Records::find().map(|records| records.path()).filter(|file| file.parent().is_some_and(Path::is_dir))
}

/// What agreements to a config are kept under: the place of its first file.
pub(crate) fn name(files: &[PathBuf]) -> PathBuf {
    files.first().map(|file| config::place(file)).unwrap_or_default()
}

fn records() -> Result<Records, CommandError> {
    Records::find().ok_or_else(|| {
        CommandError::usage("no_data_dir", "no home directory to record trusted configs in")
            .with_hint("set HOME or XDG_DATA_HOME, or name the config with --config")
    })
}

/// The powers of a config beside those that were agreed to.
pub(crate) struct Review {
    /// The place of the first file.
    file: PathBuf,
    powers: Powers,
    agreed: Option<Agreed>,
    records: Records,
}

impl Review {
    pub(crate) fn of(files: &[PathBuf], loaded: &Loaded) -> Result<Self, CommandError> {
        let (file, records) = (name(files), records()?);
        Ok(Self { agreed: records.agreed(&file)?, powers: Powers::of(loaded), file, records })
    }

    /// Whether every power was agreed to.
    pub(crate) fn is_trusted(&self) -> bool {
        self.powers.lines().all(|power| !self.is_new(power))
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    fn is_new(&self, power: &str) -> bool {
        !self.agreed.iter().flat_map(|agreed| &agreed.powers).any(|known| known == power)
    }

    /// Records the powers as they are now.
    pub(crate) fn bring_up_to_date(&self) -> Result<(), CommandError> {
        let now = Agreed::to(&self.powers);
        match (&self.agreed, self.powers.is_empty()) {
            (Some(agreed), _) if *agreed == now => Ok(()),
            (None, true) => Ok(()),
            (Some(_), _) | (None, false) => self.records.put(&self.file, now),
        }
    }

    /// The lines for people, new powers marked when there are others.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.powers.lines().map(|power| match self.agreed.is_some() && self.is_new(power) {
            true => format!("new: {power}"),
            false => power.to_owned(),
        })
    }

    /// For programs.
    pub(crate) fn to_json(&self, trusted: bool) -> Value {
        let powers = self.powers.lines().map(|power| json!({ "power": power, "agreed": !self.is_new(power) }));
        json!({
            "file": self.file,
            "trusted": trusted,
            "digest": self.powers.digest(),
            "powers": powers.collect::<Vec<_>>(),
        })
    }

    /// Asks whether the config is trusted; without a terminal to ask at, it is not.
    pub(crate) fn ask(&self, asking: Asking<'_>) -> Result<bool, CommandError> {
        let Asking::Terminal(output) = asking else { return Ok(false) };
        let why = match self.agreed {
            Some(_) => "can do more than you agreed to",
            None => "is not trusted yet",
        };
        output.note(format!("{} {why}. It:", output.beside(Style::Bold, &self.file.display().to_string())));
        for line in self.lines() {
            output.note(format!("  {line}"));
        }
        output.confirm("Trust it? [y/N] ")
    }

    /// Why the config is not used.
    pub(crate) fn refusal(&self) -> CommandError {
        let why = match self.agreed {
            Some(_) => "can do more than you agreed to",
            None => "is not trusted yet",
        };
        CommandError {
            exit: Exit::NeedsInput,
            details: self.lines().collect(),
            ..CommandError::usage(
                "untrusted_config",
                format!("{} {why}; nothing of it was started", self.file.display()),
            )
        }
        .with_hint(format!(
            "run `drawloom trust` in {}: it shows what the config can do and asks",
            self.file.parent().unwrap_or(Path::new(".")).display()
        ))
    }
}
