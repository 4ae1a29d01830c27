//! The state of a CLI: its login, its settings and its sessions. A confined process gets a private copy of what it needs. Only fields
//! of the login and files of its own session come back to the user's state; settings, hooks and MCP servers stay the user's.

mod files;
mod login;
mod private;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub(crate) use private::{Order, Private, Shown, recover, remove_unfinished};

/// Copies the files of a directory that patterns match, as a process may have left them there; how many they are.
pub(crate) fn copy_files(from: &Path, patterns: &[&str], to: &Path) -> io::Result<usize> {
    let (from, to) = (files::Place::open(from, files::Owner::Process)?, files::Place::open(to, files::Owner::User)?);
    let found: Vec<PathBuf> = patterns.iter().flat_map(|pattern| from.find(pattern)).collect();
    from.copy(&found, &to)?;
    Ok(found.len())
}

/// What a CLI keeps on the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) roots: Vec<Root>,
    /// Settings elsewhere that it reads.
    pub(crate) readable: Vec<PathBuf>,
}

/// A directory of state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// Where the user has it, and where the CLI finds its private copy.
    pub(crate) path: PathBuf,
    /// The variable that leads the CLI there, and how many directories above the state it names.
    pub(crate) variable: Option<(String, usize)>,
    /// Files with settings, which the copy gets; patterns.
    pub(crate) settings: Vec<String>,
    /// Directories with settings, which the copy shows read-only.
    pub(crate) shared: Vec<String>,
    /// Files that the copy begins with, when the user has none of what makes them wrong.
    #[serde(skip)]
    pub(crate) prepared: Option<Prepared>,
    pub(crate) logins: Vec<Login>,
    /// Files of sessions; patterns in which `{session}` is the id of the process's own.
    pub(crate) sessions: Vec<String>,
    pub(crate) keep: Keep,
}

/// Files written into a new private copy, so that the CLI does not repeat its first-time setup in each copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Names in the user's directory; with one of them the work is needed.
    pub(crate) unless: &'static [&'static str],
    /// Names and texts.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Keep {
    /// In the user's state: each has files of its own.
    #[default]
    WithUser,
    /// Beside the checkouts of the run: the CLI has all sessions in one file, which must not get into other hands.
    WithRun,
}

/// A JSON file with a login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Login {
    /// Its name in the private copy.
    pub(crate) name: String,
    /// Where the user has it, when it is not of the same name in the user's state.
    pub(crate) user: Option<PathBuf>,
    /// The keys that the copy gets; all when empty.
    pub(crate) given: Vec<String>,
    /// The keys that come back, or `*` for every key that the user's file has.
    pub(crate) taken: Vec<String>,
    /// Where the file names the account, as a JSON pointer.
    pub(crate) account: Option<String>,
    /// Where a taken value says how new it is, as a JSON pointer into the file, or into the value for `*`.
    pub(crate) newer: Option<String>,
    /// Where a value names its own account, for `*`.
    pub(crate) own_account: Option<String>,
}

impl Root {
    pub(crate) fn of(path: PathBuf, variable: Option<(&str, usize)>) -> Self {
        Self { path, variable: variable.map(|(name, above)| (name.to_owned(), above)), ..Self::default() }
    }

    pub(crate) fn settings(mut self, patterns: &[&str]) -> Self {
        self.settings.extend(patterns.iter().map(|pattern| (*pattern).to_owned()));
        self
    }

    pub(crate) fn shared(mut self, names: &[&str]) -> Self {
        self.shared.extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    pub(crate) fn prepared(mut self, prepared: Prepared) -> Self {
        self.prepared = Some(prepared);
        self
    }

    pub(crate) fn login(mut self, login: Login) -> Self {
        self.logins.push(login);
        self
    }

    pub(crate) fn sessions(mut self, keep: Keep, patterns: &[&str]) -> Self {
        self.keep = keep;
        self.sessions.extend(patterns.iter().map(|pattern| (*pattern).to_owned()));
        self
    }
}

impl Login {
    pub(crate) fn of(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(crate) fn given(mut self, keys: &[&str]) -> Self {
        self.given = keys.iter().map(|key| (*key).to_owned()).collect();
        self
    }

    pub(crate) fn taken(mut self, keys: &[&str]) -> Self {
        self.taken = keys.iter().map(|key| (*key).to_owned()).collect();
        self
    }

    pub(crate) fn account(mut self, pointer: &str) -> Self {
        self.account = Some(pointer.to_owned());
        self
    }

    pub(crate) fn newer(mut self, pointer: &str) -> Self {
        self.newer = Some(pointer.to_owned());
        self
    }
}
