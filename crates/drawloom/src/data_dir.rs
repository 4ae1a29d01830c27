//! The data directory: who owns it, and where its server is.
//!
//! Owning the directory is holding the lock on `drawloom.lock`; the operating system lets go of it when the process ends,
//! however it ends. The lock is not probed: who can take it owns the directory, who cannot is a client of its owner.

mod claim;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use drawloom_contract::{ids::Digest, time::Entropy};
use serde::{Deserialize, Serialize};

use claim::Claim;

use crate::exit::CommandError;

const LOCK_FILE: &str = "drawloom.lock";
const SERVER_FILE: &str = "server.json";
const START_FILE: &str = "start.lock";
const LOG_FILE: &str = "serve.log";
const TOKEN_FILE: &str = "token";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The command of a server that was started on demand: another one may replace it at once.
pub const UNATTENDED: &str = "serve --own-session";

/// How the commands end that own the directory for as long as their runs take.
pub const EMBEDDED: &str = "--embedded";

/// What is said of an owner whose lock file was deleted: what it is doing is not known.
pub(crate) const LOCK_GONE: &str = "(its lock file is gone)";

/// A log of more bytes is put aside when a server is started, and replaces the one before.
const LONGEST_LOG: u64 = 8 * 1024 * 1024;

/// A directory that holds the store of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    path: PathBuf,
}

/// Where a running server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    /// Its address, as clients use it.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, as RFC 3339.
    pub started_at: String,
    /// What tells it from all others; versions before this one have nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The files of its config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<PathBuf>,
    /// What those files held when it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<Digest>,
}

/// Who holds the lock, as it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its command.
    pub command: String,
}

impl Holder {
    /// The process, for people.
    pub(crate) fn about(&self) -> String {
        match self.command == LOCK_GONE {
            true => format!("process {} {LOCK_GONE}", self.pid),
            false => format!("process {} (`drawloom {}`)", self.pid, self.command),
        }
    }
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process owns it.
    #[error("{}", in_use(path, holder.as_ref()))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who has it, when it said so.
        holder: Option<Holder>,
        /// Where its server is, when it is one.
        server: Option<Box<ServerFile>>,
    },
    /// The file system said no.
    #[error("cannot use the data directory {}: {file}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The file in it.
        file: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl Error {
    /// Whether another process has the directory only for a moment: a server that starts or stops, or a short command.
    pub(crate) fn may_pass(&self) -> bool {
        let Self::InUse { holder: Some(holder), server: None, .. } = self else { return false };
        !holder.command.ends_with(EMBEDDED) && holder.command != LOCK_GONE
    }
}

fn in_use(path: &Path, holder: Option<&Holder>) -> String {
    match holder {
        Some(Holder { pid, command }) if command == UNATTENDED => {
            format!("{} is in use by the project's server in the background (process {pid})", path.display())
        }
        Some(Holder { pid, command }) => {
            format!("{} is in use by `drawloom {command}` (process {pid})", path.display())
        }
        None => format!("{} is in use by another drawloom process", path.display()),
    }
}

/// Ownership of a data directory, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    directory: DataDir,
    /// Declared before the file, so that it is let go of first.
    _claim: Option<Claim>,
    file: File,
}

/// What a process may do in a data directory.
#[derive(Debug)]
pub enum Access {
    /// Everything: it owns the directory.
    Owner(Lock),
    /// Read: another process may own the directory.
    Reader(DataDir),
}

impl Access {
    /// The directory.
    pub fn directory(&self) -> &DataDir {
        match self {
            Self::Owner(lock) => lock.directory(),
            Self::Reader(directory) => directory,
        }
    }
}

impl From<Lock> for Access {
    fn from(lock: Lock) -> Self {
        Self::Owner(lock)
    }
}

impl DataDir {
    /// The directory at `path`, which may not exist yet. A relative one is meant from where this process is now: commands
    /// that it starts elsewhere get its path too.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { path: std::path::absolute(&path).unwrap_or(path) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is without links, or will be when it is made.
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        real_path(&self.path)
    }

    /// Makes the directory if need be and takes ownership for `command`.
    pub fn lock(&self, command: &str) -> Result<Lock, Error> {
        let explain = |file: &'static str| move |source| Error::Io { path: self.path.clone(), file, source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(explain("."))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.join(LOCK_FILE))
            .map_err(explain(LOCK_FILE))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse {
                    path: self.path.clone(),
                    holder: read_holder(&mut file),
                    server: self.read_server().map(Box::new),
                });
            }
            Err(TryLockError::Error(error)) => return Err(explain(LOCK_FILE)(error)),
        }
        // A process whose lock file was deleted or replaced still has the claim.
        let claim = Claim::take(&self.path).map_err(explain("."))?.map_err(|pid| Error::InUse {
            path: self.path.clone(),
            holder: Some(Holder { pid, command: LOCK_GONE.into() }),
            server: None,
        })?;
        // The process that left this behind is gone: it did not hold the lock.
        match fs::remove_file(self.path.join(SERVER_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(explain(SERVER_FILE)(error)),
            Ok(()) | Err(_) => {}
        }
        let holder = Holder { pid: std::process::id(), command: command.to_owned() };
        let text = serde_json::to_vec(&holder).expect("a holder has only text keys");
        file.set_len(0).and_then(|()| file.write_all(&text)).map_err(explain(LOCK_FILE))?;
        Ok(Lock { directory: self.clone(), _claim: claim, file })
    }

    /// Waits until no other process starts a server here; until the file is dropped, no other does.
    pub fn lock_start(&self) -> Result<File, Error> {
        let explain = |source| Error::Io { path: self.path.clone(), file: START_FILE, source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path).map_err(explain)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(self.path.join(START_FILE));
        file.and_then(|file| file.lock().map(|()| file)).map_err(explain)
    }

    /// The log of a server that was started on demand, open at its end.
    pub fn open_log(&self) -> Result<File, Error> {
        let explain = |source| Error::Io { path: self.path.clone(), file: LOG_FILE, source };
        let path = self.log_path();
        if fs::metadata(&path).is_ok_and(|found| found.len() > LONGEST_LOG) {
            fs::rename(&path, self.path.join("serve.log.old")).map_err(explain)?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(explain)
    }

    /// Where that log is.
    pub fn log_path(&self) -> PathBuf {
        self.path.join(LOG_FILE)
    }

    /// The token of the directory's servers, for commands of this user.
    pub fn read_token(&self) -> Option<String> {
        let text = fs::read_to_string(self.path.join(TOKEN_FILE)).ok()?;
        Some(text.trim().to_owned()).filter(|token| !token.is_empty())
    }

    /// What stands there of a server, which may be gone.
    pub fn read_server(&self) -> Option<ServerFile> {
        serde_json::from_slice(&fs::read(self.path.join(SERVER_FILE)).ok()?).ok()
    }

    /// The process that owns the directory now, as far as this machine shows it. It only looks.
    pub fn owner(&self) -> Option<Holder> {
        let named = File::open(self.path.join(LOCK_FILE)).ok().and_then(|mut file| read_holder(&mut file));
        named.filter(|holder| self.is_open_in(holder.pid)).or_else(|| {
            let pid = Claim::holder(&self.path)?;
            Some(Holder { pid, command: LOCK_GONE.to_owned() })
        })
    }

    /// The process that uses this directory, or its store, although it was deleted, moved or replaced. It only looks.
    pub(crate) fn deleted_under(&self) -> Option<u32> {
        let named = File::open(self.path.join(LOCK_FILE)).ok().and_then(|mut file| read_holder(&mut file));
        if named.is_some_and(|holder| self.is_open_in(holder.pid)) {
            // A server says where it is after it has opened the store.
            let server = self.read_server().filter(|server| self.is_open_in(server.pid));
            return server.filter(|_| !self.path.join(drawloom_store::FILE).exists()).map(|server| server.pid);
        }
        // A process that has just taken the lock has not written its name yet, and one whose lock file alone was deleted still has the
        // store.
        let uses = |pid: u32| self.is_open_in(pid) || self.has_open(drawloom_store::FILE, pid);
        Claim::lasting_holder(&self.path).filter(|pid| !uses(*pid))
    }

    /// Whether this process has the lock open, as the owner has for as long as it lives. It only looks, so it is in
    /// nobody's way.
    pub fn is_open_in(&self, pid: u32) -> bool {
        self.has_open(LOCK_FILE, pid)
    }

    /// Whether this process has a file of the directory open.
    fn has_open(&self, file: &str, pid: u32) -> bool {
        let which = |path: PathBuf| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let Some(wanted) = which(self.path.join(file)) else { return false };
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.any(|file| which(file.path()) == Some(wanted))
    }
}

/// Where a path is without links, or will be when it is made.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    for above in path.ancestors() {
        match above.canonicalize() {
            Ok(real) => {
                let missing = path.strip_prefix(above).unwrap_or(Path::new(""));
                return Ok(real.components().chain(missing.components()).collect());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The error of every command that needs a data directory which was deleted while a process uses it.
pub(crate) fn gone(directory: &Path, pid: u32) -> CommandError {
    let store = directory.join(drawloom_store::FILE);
    let lost = if directory.join(LOCK_FILE).exists() && !store.exists() { &store } else { directory };
    let message = format!(
        "{} was deleted, moved or replaced while process {pid} was using it; that process saves nothing any more",
        lost.display()
    );
    CommandError::failed("store_gone", message).with_hint(format!(
        "end it with `kill {pid}`; then put it back, restore a backup with `drawloom restore FILE`, or start with new data"
    ))
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.seek(io::SeekFrom::Start(0)).ok()?;
    file.take(4096).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Lock {
    /// The directory that is owned.
    pub fn directory(&self) -> &DataDir {
        &self.directory
    }

    /// The directory's token, made if there is none. Only this user can read it. To replace it, delete the file and restart the
    /// server.
    pub fn token(&self, entropy: &dyn Entropy) -> Result<String, Error> {
        if let Some(token) = self.directory.read_token() {
            return Ok(token);
        }
        let explain = |source| Error::Io { path: self.directory.path.clone(), file: TOKEN_FILE, source };
        let mut bytes = [0; TOKEN_BYTES];
        entropy.fill(&mut bytes).map_err(|error| explain(io::Error::other(error)))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.write(TOKEN_FILE, token.as_bytes())?;
        Ok(token)
    }

    /// Writes a file that only this user can read, whole or not at all.
    fn write(&self, name: &'static str, bytes: &[u8]) -> Result<(), Error> {
        let explain = |source| Error::Io { path: self.directory.path.clone(), file: name, source };
        let temporary = self.directory.path.join(format!("{name}.new"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary).map_err(explain)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, self.directory.path.join(name)));
        written.map_err(explain)
    }

    /// Says where the server is: whole or not at all, and only for this user.
    pub fn announce(&self, server: &ServerFile) -> Result<(), Error> {
        self.write(SERVER_FILE, &serde_json::to_vec_pretty(server).expect("a server file has only text keys"))
    }

    /// Removes the server file, unless another process owns the directory now.
    pub fn withdraw(&self) {
        let which = |found: fs::Metadata| (found.dev(), found.ino());
        let ours = self.file.metadata().map(which).ok();
        if fs::metadata(self.directory.path.join(LOCK_FILE)).map(which).ok() != ours {
            tracing::warn!("the lock file was deleted or replaced; the server file is left as it is");
            return;
        }
        if let Err(error) = fs::remove_file(self.directory.path.join(SERVER_FILE)) {
            tracing::warn!(error = %error, "the server file could not be removed; it is ignored without its lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerFile {
        ServerFile {
            url: "http://127.0.0.1:1".into(),
            pid: 1,
            version: "0".into(),
            started_at: "then".into(),
            instance: Some("i".into()),
            config: vec!["/a.yaml".into()],
            config_digest: None,
        }
    }

    #[test]
    fn the_second_one_is_told_who_was_first_and_where() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = DataDir::new(temporary.path().join("a/b"));
        let lock = directory.lock("serve").expect("the lock is free");
        lock.announce(&server()).expect("a writable directory");
        let Err(Error::InUse { holder, server: found, .. }) = directory.lock("run") else { panic!("it is in use") };
        assert_eq!(holder, Some(Holder { pid: std::process::id(), command: "serve".into() }));
        assert_eq!(found.as_deref(), Some(&server()));
        assert!(directory.is_open_in(std::process::id()) && !directory.is_open_in(u32::MAX));
        lock.withdraw();
        let Err(Error::InUse { server: gone, .. }) = directory.lock("run") else { panic!("it is in use") };
        assert_eq!(gone, None);
    }

    #[test]
    fn a_file_left_behind_by_a_dead_server_is_ignored_and_removed() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = DataDir::new(temporary.path());
        let lock = directory.lock("serve").expect("the lock is free");
        lock.announce(&server()).expect("a writable directory");
        drop(lock);
        let _lock = directory.lock("run").expect("the first one is gone");
        assert!(!temporary.path().join(SERVER_FILE).exists());
    }

    #[test]
    fn a_deleted_lock_file_or_directory_does_not_let_a_second_owner_in() {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = DataDir::new(temporary.path().join("data"));
        let lock = directory.lock("serve").expect("the lock is free");
        lock.announce(&server()).expect("a writable directory");
        let is_refused = || {
            let Err(Error::InUse { holder, .. }) = directory.lock("serve") else { panic!("it is in use") };
            assert_eq!(holder.expect("the holder").pid, std::process::id());
        };
        fs::remove_file(directory.path().join(LOCK_FILE)).expect("the lock file");
        is_refused();
        fs::remove_dir_all(directory.path()).expect("the directory");
        is_refused();
        // What another process announces there is not the first one's to remove.
        fs::write(directory.path().join(SERVER_FILE), "{}").expect("a file");
        lock.withdraw();
        assert!(directory.path().join(SERVER_FILE).exists());
        drop(lock);
        directory.lock("serve").expect("the lock is free again");
    }

    #[test]
    fn only_this_user_can_read_what_is_in_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = DataDir::new(temporary.path().join("data"));
        let lock = directory.lock("serve").expect("the lock is free");
        lock.announce(&server()).expect("a writable directory");
        let mode = |path: PathBuf| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(mode(directory.path().into()), 0o700);
        lock.token(&crate::clock::SystemEntropy::default()).expect("random bytes");
        for file in [LOCK_FILE, SERVER_FILE, TOKEN_FILE] {
            assert_eq!(mode(directory.path().join(file)), 0o600, "{file}");
        }
    }
}
