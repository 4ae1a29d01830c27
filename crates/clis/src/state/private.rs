//! The private copy of one process. It lies in the data directory, with a record of what it is a copy of, so that the next server
//! brings back what a server that was killed could not.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::time::Clock;
use drawloom_process::{ListedPath, Remains, until_gone};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Keep, Login, Root, State,
    files::{Owner, Place, Stamp, replace, stamp_of},
    login::{Base, compare, with_values},
};

/// The name of the record in the directory of a copy.
const RECORD: &str = "record.json";

/// How the name of a copy begins that is being made.
const UNFINISHED: &str = ".";

/// How long a copy of an earlier server is waited for while its process still ends.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// What a copy is made for.
pub(crate) struct Order<'a> {
    pub(crate) cli: &'a str,
    pub(crate) state: State,
    /// The temporary directory of the process, whose lock says whether it still runs.
    pub(crate) temporary: &'a Path,
    /// Where sessions are kept that stay with the run; `None` when nothing continues them.
    pub(crate) kept: Option<PathBuf>,
    /// Where those of the run that is continued are.
    pub(crate) continued: Option<PathBuf>,
    /// A directory with what the first directory of state begins with.
    pub(crate) seed: Option<PathBuf>,
    /// The working directory.
    pub(crate) directory: &'a Path,
    /// The session that is continued, or begun under an id that the CLI is given.
    pub(crate) session: Option<&'a str>,
}

/// What the next server has to know.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    cli: String,
    state: State,
    temporary: PathBuf,
    kept: Option<PathBuf>,
    directory: PathBuf,
    session: Option<String>,
    /// By root.
    accounts: Vec<Option<Value>>,
    /// By root and login.
    bases: Vec<Vec<Base>>,
}

/// A private copy of a CLI's state.
pub(crate) struct Private {
    path: PathBuf,
    /// Its directory, locked for as long as this process uses the copy.
    _lock: File,
    record: Mutex<Record>,
    /// What the files of logins looked like when they were last compared, by root and login.
    compared: Mutex<BTreeMap<(usize, usize), Stamps>>,
}

impl Private {
    /// Makes the copy at `path`. Only what the process needs is copied.
    pub(crate) fn make(path: &Path, order: Order<'_>) -> io::Result<Self> {
        // Under another name while it is not whole: a copy with its own name has a record and is locked.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!("{UNFINISHED}{name}"));
        let lock = lock(&Place::make(&new, Owner::Process)?)?;
        let mut record = Record {
            cli: order.cli.to_owned(),
            state: order.state,
            temporary: order.temporary.to_owned(),
            kept: order.kept,
            directory: order.directory.to_owned(),
            session: order.session.map(str::to_owned),
            accounts: Vec::new(),
            bases: Vec::new(),
        };
        for (index, root) in record.state.roots.iter().enumerate() {
            let copy = Place::make(&new.join(index.to_string()), Owner::Process)?;
            if let (0, Some(seed)) = (index, &order.seed) {
                let seed = Place::open(seed, Owner::User)?;
                seed.copy(&seed.find("**"), &copy)?;
            }
            let user = Place::open(&root.path, Owner::User).ok();
            if let Some(user) = &user {
                for pattern in &root.settings {
                    user.copy(&user.find(pattern), &copy)?;
                }
            }
            if let Some(prepared) = root.prepared
                && !prepared.unless.iter().any(|name| root.path.join(name).exists())
            {
                for (name, text) in prepared.files {
                    copy.write(Path::new(name), text.as_bytes(), 0o600)?;
                }
            }
            record.accounts.push(account(root, |login| users_value(root, login)));
            let bases = root.logins.iter().map(|login| give(root, login, &copy)).collect::<io::Result<_>>()?;
            record.bases.push(bases);
            let from = match root.keep {
                Keep::WithUser => user,
                Keep::WithRun => {
                    let kept = order.continued.as_ref().map(|kept| kept.join(index.to_string()));
                    kept.and_then(|kept| Place::open(&kept, Owner::Process).ok())
                }
            };
            if let Some(from) = from {
                from.copy(&session_files(&from, root, order.session, order.directory), &copy)?;
            }
        }
        let mut made = Self { path: new, _lock: lock, record: Mutex::new(record), compared: Mutex::default() };
        made.save()?;
        fs::rename(&made.path, path)?;
        path.clone_into(&mut made.path);
        Ok(made)
    }

    fn save(&self) -> io::Result<()> {
        let record = serde_json::to_vec(&*self.record())?;
        Place::open(&self.path, Owner::Process)?.write(Path::new(RECORD), &record, 0o600)
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn root(&self, index: usize) -> PathBuf {
        self.path.join(index.to_string())
    }

    /// The paths and variables that show the CLI the copy instead of the user's state. With mounts the copy appears at the path of the
    /// user's state; without, environment variables name the copy. The error names a directory for which the CLI has no variable.
    pub(crate) fn shown(&self, has_mounts: bool) -> io::Result<Shown> {
        let mut shown = Shown::default();
        let record = self.record();
        shown.readable.extend(
            record.state.readable.iter().filter(|path| path.exists()).map(|path| ListedPath::resolve(path.clone())),
        );
        for (index, root) in record.state.roots.iter().enumerate() {
            let copy = self.root(index);
            let path = if has_mounts { root.path.clone() } else { copy.clone() };
            match &root.variable {
                Some((name, above)) => {
                    let named = path.ancestors().nth(*above).unwrap_or(&path);
                    shown.environment.push((name.clone(), named.to_string_lossy().into_owned()));
                }
                None if has_mounts => {}
                None => return Err(io::Error::other(root.path.display().to_string())),
            }
            for name in &root.shared {
                let from = root.path.join(name);
                let Some(real) = from.canonicalize().ok().filter(|real| real.is_dir()) else { continue };
                match has_mounts {
                    true => shown.readable.push(ListedPath::at(real, from)),
                    false => {
                        symlink(&real, copy.join(name))?;
                        shown.readable.push(ListedPath::resolve(real));
                    }
                }
            }
            shown.writable.push(ListedPath::at(copy, path));
        }
        Ok(shown)
    }

    /// Records the id of the session, once the CLI has named it. The first one holds.
    pub(crate) fn name_session(&self, session: &str) -> io::Result<()> {
        let is_id =
            |id: &str| id.len() <= 128 && id.chars().all(|sign| sign.is_ascii_alphanumeric() || "-_".contains(sign));
        if self.record().session.is_some() || session.is_empty() || !is_id(session) {
            return Ok(());
        }
        self.record().session = Some(session.to_owned());
        self.save()
    }

    /// Brings each login to where the older one is, when a file has changed since the last time.
    pub(crate) fn exchange(&self, clock: &dyn Clock) -> io::Result<()> {
        let mut record = self.record();
        let Record { state, accounts, bases, .. } = &mut *record;
        let mut changed = false;
        for (index, root) in state.roots.iter().enumerate() {
            let copy = Place::open(&self.root(index), Owner::Process)?;
            for (number, login) in root.logins.iter().enumerate().filter(|(_, login)| !login.taken.is_empty()) {
                let stamps = || {
                    let user = fs::metadata(users_path(root, login)).ok().map(|found| stamp_of(&found));
                    [user, copy.stamp(Path::new(&login.name))]
                };
                let now = stamps();
                let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
                if compared.get(&(index, number)) == Some(&now) {
                    continue;
                }
                changed |= exchange(root, login, &copy, &accounts[index], &mut bases[index][number], clock)?;
                compared.insert((index, number), stamps());
            }
        }
        drop(record);
        if changed { self.save() } else { Ok(()) }
    }

    /// Brings back what is the user's, and removes the copy. When that fails, the copy stays for the next start.
    pub(crate) fn finish(self, clock: &dyn Clock) -> io::Result<()> {
        self.exchange(clock)?;
        {
            let record = self.record();
            for (index, root) in record.state.roots.iter().enumerate() {
                let copy = Place::open(&self.root(index), Owner::Process)?;
                let files = session_files(&copy, root, record.session.as_deref(), &record.directory);
                let same = account(root, |login| users_value(root, login)) == record.accounts[index];
                let to = match root.keep {
                    Keep::WithUser => Some(root.path.clone()),
                    Keep::WithRun => record.kept.as_ref().map(|kept| kept.join(index.to_string())),
                };
                if let (false, true, Some(to)) = (files.is_empty(), same, to) {
                    copy.copy(&files, &Place::make(&to, Owner::User)?)?;
                }
            }
        }
        fs::remove_dir_all(&self.path)
    }
}

/// What the user's file and the copy's looked like.
type Stamps = [Option<Stamp>; 2];

/// What a process gets of a copy.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) readable: Vec<ListedPath>,
    pub(crate) writable: Vec<ListedPath>,
    pub(crate) environment: Vec<(String, String)>,
}

/// Removes copies that a killed server had not finished. Only before this server makes any.
pub(crate) fn remove_unfinished(copies: &Path) {
    for entry in fs::read_dir(copies).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            // What is left is removed by the next start.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Brings back what copies of servers hold that were killed. A copy whose process still runs is left to the next time.
pub(crate) async fn recover(copies: &Path, clock: &dyn Clock) {
    // A run that continues must not pass by a copy that the start of the server is just bringing back.
    static RECOVERY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _one = RECOVERY.lock().await;
    for entry in fs::read_dir(copies).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            continue;
        }
        if let Err(error) = recover_one(&path, clock).await {
            tracing::warn!(path = %path.display(), %error, "cannot bring back the state of a coding CLI");
        }
    }
}

async fn recover_one(path: &Path, clock: &dyn Clock) -> io::Result<()> {
    let place = match Place::open(path, Owner::Process) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        place => place?,
    };
    // Held by a server that uses it.
    let Ok(lock) = lock(&place) else { return Ok(()) };
    let Some(record) = place.read(Path::new(RECORD))? else {
        return Err(io::Error::other(format!("{RECORD} is missing; remove the directory")));
    };
    let record: Record = serde_json::from_slice(&record)?;
    if until_gone(&record.temporary, ENDS_WITHIN, clock).await == Remains::Running {
        return Ok(());
    }
    tracing::info!(cli = %record.cli, path = %path.display(), "bringing back the state of a coding CLI");
    let private =
        Private { path: path.to_owned(), _lock: lock, record: Mutex::new(record), compared: Mutex::default() };
    private.finish(clock)
}

/// Takes the lock of a directory, unless another process has it.
fn lock(place: &Place) -> io::Result<File> {
    let file = File::from(place.as_fd().try_clone_to_owned()?);
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn users_path(root: &Root, login: &Login) -> PathBuf {
    login.user.clone().unwrap_or_else(|| root.path.join(&login.name))
}

fn users_value(root: &Root, login: &Login) -> Option<Value> {
    serde_json::from_slice(&fs::read(users_path(root, login)).ok()?).ok()
}

/// The account that the files of a root name.
fn account(root: &Root, read: impl Fn(&Login) -> Option<Value>) -> Option<Value> {
    let named = root.logins.iter().find_map(|login| Some((login, login.account.as_ref()?)));
    named.and_then(|(login, pointer)| read(login)?.pointer(pointer).cloned())
}

/// Gives the copy its part of a login. Answers the values that may come back.
fn give(root: &Root, login: &Login, copy: &Place) -> io::Result<Base> {
    let Ok(bytes) = fs::read(users_path(root, login)) else { return Ok(Base::new()) };
    let name = Path::new(&login.name);
    let Ok(Value::Object(users)) = serde_json::from_slice(&bytes) else {
        // Not JSON: nothing of it comes back.
        if login.given.is_empty() {
            copy.write(name, &bytes, 0o600)?;
        }
        return Ok(Base::new());
    };
    let is_taken = |key: &String| login.taken.iter().any(|taken| taken == "*" || taken == key);
    let base = users.iter().filter(|(key, _)| is_taken(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    match login.given.is_empty() {
        true => copy.write(name, &bytes, 0o600)?,
        false => {
            let given: Map<String, Value> = users.into_iter().filter(|(key, _)| login.given.contains(key)).collect();
            copy.write(name, &serde_json::to_vec(&given)?, 0o600)?;
        }
    }
    Ok(base)
}

/// Compares a login of the copy with the user's, under the lock of the user's state, and writes where one is older. Says whether
/// anything was written.
fn exchange(
    root: &Root,
    login: &Login,
    copy: &Place,
    began: &Option<Value>,
    base: &mut Base,
    clock: &dyn Clock,
) -> io::Result<bool> {
    let Ok(users) = Place::open(&root.path, Owner::User) else { return Ok(false) };
    // Not longer than it takes others to compare and write two small files.
    flock(users.as_fd(), FlockOperation::LockExclusive)?;
    let path = users_path(root, login);
    let (Ok(user_text), Some(private_text)) = (fs::read_to_string(&path), copy.read(Path::new(&login.name))?) else {
        return Ok(false);
    };
    let parsed = (serde_json::from_str(&user_text), serde_json::from_slice(&private_text));
    // A CLI is just writing it: the next comparison sees more.
    let (Ok(user), Ok(private)) = parsed else { return Ok(false) };
    let private_value = |login: &Login| {
        let bytes = copy.read(Path::new(&login.name)).ok().flatten()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    let same = account(root, |login| users_value(root, login)) == *began && account(root, private_value) == *began;
    let found = compare(login, (&user, &private, base), (same, began.is_some()), clock.wall().as_millis());
    if !found.to_user.is_empty()
        && let Some(text) = with_values(&user_text, &found.to_user)
    {
        replace(&path, text.as_bytes())?;
    }
    if !found.to_private.is_empty()
        && let Some(text) =
            std::str::from_utf8(&private_text).ok().and_then(|text| with_values(text, &found.to_private))
    {
        copy.write(Path::new(&login.name), text.as_bytes(), 0o600)?;
    }
    let changed = !(found.to_user.is_empty() && found.to_private.is_empty());
    base.extend(found.to_user.into_iter().chain(found.to_private));
    Ok(changed)
}

/// The files of a session in a directory.
fn session_files(place: &Place, root: &Root, session: Option<&str>, directory: &Path) -> Vec<PathBuf> {
    let patterns = root.sessions.iter().filter_map(|pattern| match (pattern.contains("{session}"), session) {
        (true, None) => None,
        (_, session) => {
            let pattern = pattern.replace("{session}", session.unwrap_or_default());
            Some(pattern.replace("{directory}", &directory_name(directory)))
        }
    });
    let mut files: Vec<PathBuf> = patterns.flat_map(|pattern| place.find(&pattern)).collect();
    files.sort();
    files.dedup();
    files
}

/// A working directory as Claude Code names the folder of its sessions: every other sign is a `-`, and a long name is cut.
fn directory_name(directory: &Path) -> String {
    let text = directory.to_string_lossy();
    let name: String = text.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '-' }).collect();
    if name.len() > LONGEST_NAME { format!("{}*", &name[..LONGEST_NAME]) } else { name }
}

/// From this length on Claude Code cuts the name of a folder and adds a digest.
const LONGEST_NAME: usize = 200;
