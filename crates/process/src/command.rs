//! What to run, within what, and through which launcher.

use std::{
    fs::File,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use drawloom_contract::failure::{Explain, FailureKind};
use serde::{Deserialize, Serialize};

use crate::{
    confinement::{Confinement, Layer},
    landlock::{self, Landlock},
    listed::ListedPath,
    spawner::Spawner,
    streams::{Input, Output},
};

/// The program that supervises commands: one whose `main` calls [`crate::launcher::main`] with what follows `args` on its
/// command line. Clones share what was found out about this machine.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) without: Vec<Layer>,
    pub(crate) found: Arc<OnceLock<Confinement>>,
    pub(crate) spawner: Arc<Spawner>,
    settings: Arc<Mutex<Option<Settings>>>,
}

/// Settings of the machine that all users may read, and when that was looked at.
#[derive(Debug)]
struct Settings {
    at: Instant,
    paths: Vec<PathBuf>,
}

/// How long it is remembered which settings of the machine all users may read. To look at all of them takes longer than to
/// start a command.
const SETTINGS_HOLD: Duration = Duration::from_secs(10);

impl Launcher {
    /// `program`, started with `args`.
    pub fn new(program: impl Into<PathBuf>, args: &[&str]) -> Self {
        Self {
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            without: Vec::new(),
            found: Arc::default(),
            spawner: Arc::default(),
            settings: Arc::default(),
        }
    }

    /// This very program, also when its file has been replaced since it was started.
    pub fn this_program(args: &[&str]) -> Self {
        Self::new("/proc/self/exe", args)
    }

    /// The settings of the machine that a command may read, as they were a few seconds ago at most.
    fn settings(&self) -> Vec<PathBuf> {
        let mut known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(Settings { at, paths }) if at.elapsed() < SETTINGS_HOLD => paths.clone(),
            _ => known.insert(Settings { at: Instant::now(), paths: landlock::settings() }).paths.clone(),
        }
    }

    /// The same launcher as it would be on a machine that lacks these layers.
    pub fn without(self, layers: &[Layer]) -> Self {
        Self { without: layers.to_vec(), found: Arc::default(), ..self }
    }
}

/// A command: a short one of a model, or a job that works for hours.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program, by an absolute path or a name that its `PATH` finds.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The directory to run in, open; nothing is looked up by its path.
    pub directory: Arc<File>,
    /// What it may do there.
    pub access: Access,
    /// More that it may read and execute, besides the system's own directories.
    pub readable: Vec<ListedPath>,
    /// More that it may change.
    pub writable: Vec<ListedPath>,
    /// Files that it must not change or see, wherever they lie in what it may use. Real paths.
    pub guarded: Vec<Guarded>,
    /// Which network it reaches.
    pub network: Network,
    /// The whole environment; nothing is inherited.
    pub environment: Vec<(String, String)>,
    /// What it reads.
    pub input: Input,
    /// Where its output goes.
    pub output: Output,
    /// How it is kept from the rest of the machine.
    pub confined: Confined,
    /// Its `HOME`; the temporary directory when absent. In namespaces it finds a private directory there, which is removed
    /// after it, and in it the parts of the real one that are listed as readable or writable.
    pub home: Option<PathBuf>,
    /// A directory of its own that does not exist yet: made before, removed with all that is in it after. `TMPDIR` names
    /// it. A lock file beside it says whether the command, or anything that it started, may still run: see
    /// [`crate::until_gone`].
    pub temporary: PathBuf,
    /// How much it may use.
    pub limits: Limits,
    /// How long it may take.
    pub time_limit: Duration,
    /// How long processes have between being asked to end and being killed.
    pub grace: Duration,
}

/// How a command is kept from the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// It sees and changes only what it is given.
    Yes,
    /// Not at all, because the operator said so: it may do what drawloom's user may. Its environment is still only what is
    /// given, its processes are ended with it, and its lock is held. A rule that only confinement can enforce is an error: a
    /// read-only directory, no network, a guarded file.
    No,
}

/// What a command may do in its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and execute. A kernel that cannot enforce it is an error.
    ReadOnly,
    /// Change too.
    ReadWrite,
}

/// Which network a command reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None but a loopback interface of its own, where the machine can make one. A machine that cannot enforce it is an error.
    None,
    /// The machine's.
    Host,
}

/// A file that is kept from a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// Its real path.
    pub path: PathBuf,
    /// What is kept.
    pub rule: Guard,
}

/// What a command may do with a guarded file. A machine that cannot enforce it is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Read it, but neither change nor replace it.
    ReadOnly,
    /// Nothing: it looks empty.
    Hidden,
}

/// How much a command may use; no limit where absent. Core dumps are always off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all its processes together, in bytes.
    pub memory_bytes: Option<u64>,
    /// Its processes and threads at once.
    pub processes: Option<u64>,
    /// What all its processes together write to disks, in bytes.
    pub disk_bytes: Option<u64>,
    /// The size of one file, in bytes.
    pub file_bytes: Option<u64>,
}

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The launcher could not be started.
    #[error("cannot start the launcher {}", program.display())]
    Launcher {
        /// Which.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path or value of the command cannot be handed over.
    #[error("cannot send the command to the launcher: {reason}")]
    Unsendable {
        /// Why.
        reason: String,
    },
    /// The launcher could not start the command, or not confine it as it must be.
    #[error("cannot start the command: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// A file for its output could not be made.
    #[error("cannot write its output to {}", path.display())]
    Output {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The pipes to the launcher broke.
    #[error("cannot reach the launcher")]
    Broken(#[source] io::Error),
}

impl Explain for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Launcher { .. } | Self::Output { .. } | Self::Broken(_) => FailureKind::Unavailable,
            Self::Unsendable { .. } => FailureKind::Invalid,
            Self::Refused { .. } => FailureKind::Denied,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Launcher { .. } => "launcher_not_started",
            Self::Unsendable { .. } => "command_unsendable",
            Self::Refused { .. } => "command_refused",
            Self::Output { .. } => "output_not_written",
            Self::Broken(_) => "launcher_broken",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Launcher { .. } => Some("check the process limit of this user".into()),
            Self::Unsendable { .. } => Some("use paths and values that are UTF-8 text".into()),
            Self::Refused { .. } => Some("run `drawloom doctor` to see what this machine can enforce".into()),
            Self::Output { .. } => Some("check that the directory exists and that the disk is not full".into()),
            Self::Broken(_) => None,
        }
    }
}

/// A command on its way to the launcher: one line of JSON on the control pipe, so that its environment does not show up in
/// a list of processes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) temporary: PathBuf,
    pub(crate) grace_ms: u64,
    /// Whether it gets namespaces of its own.
    pub(crate) isolated: bool,
    /// Whether it gets a control group of its own.
    pub(crate) grouped: bool,
    pub(crate) guarded: Vec<Guarded>,
    /// Where a private home is put, if it gets one.
    pub(crate) home: Option<PathBuf>,
    pub(crate) inner: Inner,
}

/// What the command is and what it may do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Inner {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) access: Access,
    /// Settings of the machine that it may read.
    pub(crate) settings: Vec<PathBuf>,
    pub(crate) readable: Vec<ListedPath>,
    pub(crate) writable: Vec<ListedPath>,
    pub(crate) network: Network,
    pub(crate) limits: Limits,
    pub(crate) landlock: bool,
    pub(crate) seccomp: bool,
    /// Whether it keeps the powers of root, if it has them.
    pub(crate) powers: bool,
}

/// The longest order, in bytes; a system would take no longer command line either.
pub const LONGEST_ORDER: usize = 4 * 1024 * 1024;

impl Command {
    /// As the launcher reads it.
    pub(crate) fn order(&self, launcher: &Launcher) -> Result<Vec<u8>, Error> {
        let confinement = self.confinement(launcher)?;
        if let Some(reason) = confinement.refusal(self) {
            return Err(Error::Refused { reason });
        }
        let isolated = confinement.namespaces.is_on();
        let order = Order {
            environment: self.environment_with_home()?,
            temporary: self.temporary.clone(),
            grace_ms: u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX),
            isolated,
            grouped: confinement.cgroup.is_on(),
            guarded: self.guarded.clone(),
            home: self.home.clone().filter(|_| isolated),
            inner: Inner {
                program: self.program.clone(),
                args: self.args.clone(),
                access: self.access,
                settings: launcher.settings(),
                readable: self.readable.clone(),
                writable: self.writable.clone(),
                network: self.network,
                limits: self.limits,
                landlock: matches!(confinement.landlock, Landlock::On(_)),
                seccomp: confinement.seccomp.is_on(),
                powers: self.confined == Confined::No,
            },
        };
        let mut line = serde_json::to_vec(&order).map_err(|error| Error::Unsendable { reason: error.to_string() })?;
        line.push(b'\n');
        match line.len() <= LONGEST_ORDER {
            true => Ok(line),
            false => {
                Err(Error::Unsendable { reason: format!("it has {} bytes; the limit is {LONGEST_ORDER}", line.len()) })
            }
        }
    }

    /// How it is confined on this machine.
    pub(crate) fn confinement(&self, launcher: &Launcher) -> Result<Confinement, Error> {
        match self.confined {
            Confined::Yes => launcher.confinement().cloned(),
            Confined::No => Ok(Confinement::none("the command is unconfined")),
        }
    }

    fn environment_with_home(&self) -> Result<Vec<(String, String)>, Error> {
        let unsendable = |name: &str| Error::Unsendable { reason: format!("{name} contains a NUL byte") };
        if [&self.program].into_iter().chain(&self.args).any(|text| text.contains('\0')) {
            return Err(unsendable("the command"));
        }
        let home = self.home.as_ref().unwrap_or(&self.temporary);
        if !home.is_absolute() || home.parent().is_none() {
            let reason = format!("its home {} is not an absolute path below the root", home.display());
            return Err(Error::Unsendable { reason });
        }
        let mut environment = self.environment.clone();
        for (name, path) in [("HOME", home), ("TMPDIR", &self.temporary)] {
            let path = path.to_str();
            let path = path.ok_or_else(|| Error::Unsendable { reason: format!("its {name} is not UTF-8") })?;
            environment.retain(|(given, _)| given != name);
            environment.push((name.into(), path.into()));
        }
        match environment
            .iter()
            .find(|(name, value)| name.is_empty() || name.contains(['\0', '=']) || value.contains('\0'))
        {
            Some((name, _)) => Err(unsendable(&format!("the variable {name:?}"))),
            None => Ok(environment),
        }
    }
}
