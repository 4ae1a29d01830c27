//! Landlock: the kernel holds a process, and all that it starts, to a list of paths.

mod shared;

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use serde::{Deserialize, Serialize};

use crate::command::{Access, Inner};

/// The newest version that we ask for; an older kernel gives what it has.
const ASKED: ABI = ABI::V9;

/// From this version on a file cannot be emptied without the right to write it.
const GUARDS_TRUNCATION: i32 = 3;

/// From this version on a process cannot signal what is outside its walls.
const GUARDS_SIGNALS: i32 = 6;

/// From this version on a process cannot connect to the sockets of others by their paths.
const GUARDS_SOCKETS: i32 = 9;

/// What a command needs of the system in order to run at all. Never a home directory, never `/var`, `/run` or `/tmp`.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/proc",
    "/run/systemd/resolve",
    "/sbin",
    "/usr",
];

/// Settings that every program may need, and some that only root may read.
const SETTINGS: &str = "/etc";

/// Devices that everybody may use, and no others: no disks, and no terminals, which would be other people's.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// How far this kernel can confine a command. The network is never confined by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landlock {
    /// It does, at this version of its interface.
    On(i32),
    /// It cannot, for this reason.
    Off(String),
}

impl Landlock {
    /// What a command could do in spite of it, if anything worth a warning.
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::On(version) if *version >= GUARDS_SIGNALS => None,
            Self::On(version) if *version >= GUARDS_TRUNCATION => Some(format!(
                "this kernel's Landlock (version {version}) confines files but not signals: the command could end other processes of the same user"
            )),
            Self::On(version) => Some(format!(
                "this kernel's Landlock (version {version}) is old: the command could empty files outside its volume and end other processes of the same user"
            )),
            Self::Off(reason) => Some(format!(
                "not confined, because {reason}: the command could read and change whatever drawloom's user can"
            )),
        }
    }

    /// What it does not hold even where it holds all that it can, for the operator to know.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = vec!["commands reach whatever network this machine reaches".to_owned()];
        if !matches!(self, Self::On(version) if *version >= GUARDS_SOCKETS) {
            limits.push(
                "commands can connect to Unix sockets by path wherever drawloom's user may (a container engine, a database): \
                 this needs Landlock version 9"
                    .into(),
            );
        }
        if rustix::process::geteuid().is_root() {
            limits.push(
                "drawloom runs as root: commands read what root owns in /usr, /opt, /bin, /sbin and /lib, and keep root's \
                 power over files of others in their volume; run it as a user of its own"
                    .into(),
            );
        }
        limits
    }

    /// Whether a read-only directory stays as it is.
    pub(crate) fn keeps_read_only(&self) -> bool {
        matches!(self, Self::On(version) if *version >= GUARDS_TRUNCATION)
    }
}

/// How far this kernel can confine a command. It is tried, on a thread that ends with it.
pub fn landlock_status() -> Landlock {
    let tried = std::thread::spawn(|| Ruleset::default().handle_access(AccessFs::Execute)?.create()?.restrict_self());
    match tried.join() {
        Ok(status) => read(status),
        Err(_) => Landlock::Off("trying it failed unexpectedly".into()),
    }
}

/// Confines this thread and what it starts, as far as the kernel can.
pub(crate) fn confine(inner: &Inner, directory: &Path) -> Landlock {
    read(restrict(inner, directory))
}

fn restrict(inner: &Inner, directory: &Path) -> Result<RestrictionStatus, RulesetError> {
    let (look, change) = (AccessFs::from_read(ASKED), AccessFs::from_all(ASKED));
    let here = match inner.access {
        Access::ReadOnly => look,
        Access::ReadWrite => change,
    };
    let absolute = |paths: &[PathBuf]| paths.iter().filter(|path| path.is_absolute()).cloned().collect::<Vec<_>>();
    Ruleset::default()
        .handle_access(change)?
        .scope(Scope::from_all(ASKED))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, look))?
        .add_rules(path_beneath_rules(settings(), look))?
        .add_rules(path_beneath_rules(DEVICES, change))?
        .add_rules(path_beneath_rules(absolute(&inner.readable), look))?
        .add_rules(path_beneath_rules(absolute(&inner.writable), change))?
        .add_rules(path_beneath_rules([directory], here))?
        .restrict_self()
}

/// The settings that a command may read. The kernel keeps the others from everybody but root, so from root we do.
fn settings() -> Vec<PathBuf> {
    match rustix::process::geteuid().is_root() {
        true => shared::parts(Path::new(SETTINGS)),
        false => vec![SETTINGS.into()],
    }
}

fn read(status: Result<RestrictionStatus, RulesetError>) -> Landlock {
    let status = match status {
        Ok(status) => status,
        Err(error) => return Landlock::Off(format!("Landlock failed ({error})")),
    };
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::Available { .. }) => {
            Landlock::Off("Landlock did not take effect".into())
        }
        (_, LandlockStatus::Available { effective_abi, .. }) => Landlock::On(effective_abi as i32),
        (_, LandlockStatus::NotEnabled) => Landlock::Off("this kernel has Landlock but it is not enabled".into()),
        (_, LandlockStatus::NotImplemented) => Landlock::Off("this kernel has no Landlock".into()),
    }
}
