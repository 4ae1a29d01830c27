//! `trusted.json`: the powers that this user agreed to, by the place of the first config file.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use drawloom_contract::ids::Digest;
use serde::{Deserialize, Serialize};

use super::Powers;
use crate::{environment, exit::CommandError};

const FILE: &str = "trusted.json";
const LOCK_FILE: &str = "trusted.lock";

/// What was agreed to for one config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Agreed {
    pub(super) digest: Digest,
    pub(super) powers: Vec<String>,
}

impl Agreed {
    pub(super) fn to(powers: &Powers) -> Self {
        Self { digest: powers.digest(), powers: powers.lines().map(str::to_owned).collect() }
    }
}

type Entries = BTreeMap<String, Agreed>;

/// The file, in the user's own data directory: `--data-dir` does not move it.
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    /// Those of this user, who has a home directory.
    pub(super) fn find() -> Option<Self> {
        environment::default_data_dir().map(Self::at)
    }

    pub(super) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where they are.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// What was agreed to for the config at `file`.
    pub(super) fn agreed(&self, file: &Path) -> Result<Option<Agreed>, CommandError> {
        self.read().map(|mut entries| entries.remove(&key(file))).map_err(|error| self.explain(&error))
    }

    /// Keeps what is agreed to, in place of what was.
    pub(super) fn put(&self, file: &Path, agreed: Agreed) -> Result<(), CommandError> {
        self.change(|entries| drop(entries.insert(key(file), agreed)))
    }

    /// Forgets a config; says whether it was there.
    pub(super) fn remove(&self, file: &Path) -> Result<bool, CommandError> {
        let mut known = false;
        self.change(|entries| known = entries.remove(&key(file)).is_some())?;
        Ok(known)
    }

    /// Reads, changes and writes under a lock, so that two processes do not lose each other's entry.
    fn change(&self, change: impl FnOnce(&mut Entries)) -> Result<(), CommandError> {
        let locked = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            let lock = self.directory.join(LOCK_FILE);
            let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock)?;
            lock.lock()?;
            let mut entries = self.read()?;
            change(&mut entries);
            self.write(&entries)
        };
        locked().map_err(|error| self.explain(&error))
    }

    fn read(&self) -> io::Result<Entries> {
        let bytes = match fs::read(self.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::new()),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&bytes).map_err(io::Error::other)
    }

    fn write(&self, entries: &Entries) -> io::Result<()> {
        let temporary = self.directory.join("trusted.json.new");
        // A file that a killed process left, or a link that another user put there, is not written through.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(entries).expect("entries have only text keys"))?;
        file.sync_all()?;
        fs::rename(&temporary, self.path())
    }

    fn explain(&self, error: &io::Error) -> CommandError {
        CommandError::usage("bad_trust_file", format!("cannot use {}: {error}", self.path().display()))
            .with_hint("make it readable and writable for this user, or delete it and trust your configs again")
    }
}

/// A path as a key. Real paths begin with a slash; one that is not UTF-8 is quoted, so that no two have the same key.
fn key(file: &Path) -> String {
    file.to_str().map_or_else(|| format!("{file:?}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn agreed(power: &str) -> Agreed {
        Agreed { digest: Digest::of(power.as_bytes()), powers: vec![power.into()] }
    }

    #[test]
    fn what_many_write_at_once_is_all_there() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = temporary.path().join("share/drawloom");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let records = Records::at(directory.clone());
                scope.spawn(move || {
                    for turn in 0..4 {
                        let file = PathBuf::from(format!("/{number}/{turn}.yaml"));
                        records.put(&file, agreed("a")).expect("a writable directory");
                    }
                });
            }
        });
        let records = Records::at(directory.clone());
        assert_eq!(records.read().expect("a file").len(), 32);
        assert_eq!(records.agreed(Path::new("/3/2.yaml")).expect("a file"), Some(agreed("a")));
        assert!(records.remove(Path::new("/3/2.yaml")).expect("a file"));
        assert!(!records.remove(Path::new("/3/2.yaml")).expect("a file"));
        assert_eq!(records.agreed(Path::new("/3/2.yaml")).expect("a file"), None);
        let mode = |path: PathBuf| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(directory.clone()), mode(directory.join(FILE))), (0o700, 0o600));
        assert_eq!(mode(directory.join(LOCK_FILE)), 0o600);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_is_left_alone() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        fs::write(temporary.path().join(FILE), "{").expect("a file");
        let records = Records::at(temporary.path().to_owned());
        let asked = records.agreed(Path::new("/a")).expect_err("it is damaged");
        assert_eq!(asked.code, "bad_trust_file");
        records.put(Path::new("/a"), agreed("a")).expect_err("it is damaged");
        assert_eq!(fs::read(temporary.path().join(FILE)).expect("a file"), b"{");
    }
}
