//! Landlock: the kernel holds a process, and all that it starts, to a list of paths.

mod shared;

use std::{
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use serde::{Deserialize, Serialize};

use crate::{
    command::{Access, Network, Order},
    listed::ListedPath,
};

/// The newest version that we ask for; an older kernel gives what it has.
const ASKED: ABI = ABI::V9;

/// From this version on a file cannot be emptied without the right to write it.
const GUARDS_TRUNCATION: i32 = 3;

/// From this version on a process cannot signal others than those it started.
const GUARDS_SIGNALS: i32 = 6;

/// What a command needs of the system in order to run at all. Never a home directory, never `/var`, `/run` or `/tmp`.
pub(crate) const SYSTEM: &[&str] =
    &["/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt", "/proc", "/sbin", "/usr"];

/// Where the names of hosts are resolved, for commands with network. Not the directory: it holds a socket of the resolver.
pub(crate) const RESOLVER: &[&str] = &["/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// Settings that every program may need, and some that only root may read.
pub(crate) const SETTINGS: &str = "/etc";

/// Devices that every program may use, and no others: no disks, and no terminals of others.
pub(crate) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Memory as files. A command in namespaces has its own.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Pseudo-terminals. A command in namespaces has its own; others get none, because these belong to everybody.
pub(crate) const TERMINALS: &str = "/dev/pts";

/// How far this kernel can confine a command by rules about paths and signals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landlock {
    /// It does, at this version of its interface.
    On(i32),
    /// It cannot, for this reason.
    Off(String),
}

impl Landlock {
    /// Why it cannot, if it cannot.
    pub(crate) fn off_reason(&self) -> Option<&str> {
        match self {
            Self::On(_) => None,
            Self::Off(reason) => Some(reason),
        }
    }

    /// What is lost where it is missing or old, if anything; namespaces make up for most of it.
    pub(crate) fn notice(&self, namespaces: bool) -> Option<String> {
        match (self, namespaces) {
            (Self::On(_), true) => None,
            (Self::On(version), false) if *version >= GUARDS_SIGNALS => None,
            (Self::On(version), false) if *version >= GUARDS_TRUNCATION => Some(format!(
                "old Landlock (version {version}): commands can send signals to other processes of the same user"
            )),
            (Self::On(version), false) => Some(format!(
                "old Landlock (version {version}): commands can truncate files outside their volume and send signals \
                 to other processes of the same user"
            )),
            (Self::Off(reason), true) => {
                Some(format!("no Landlock ({reason}): files and processes are confined by namespaces only"))
            }
            (Self::Off(reason), false) => Some(format!(
                "no Landlock ({reason}): commands can read and change every file that drawloom's user can, and send \
                 signals to its processes"
            )),
        }
    }

    /// Whether a read-only directory stays as it is.
    pub(crate) fn keeps_read_only(&self) -> bool {
        matches!(self, Self::On(version) if *version >= GUARDS_TRUNCATION)
    }
}

/// How far this kernel can confine a command. It is tried: this thread cannot execute anything afterwards.
pub(crate) fn status() -> Landlock {
    let tried = || Ruleset::default().handle_access(AccessFs::Execute)?.create()?.restrict_self();
    read(tried())
}

/// The rules of a command, not enforced yet.
pub(crate) struct Rules(Result<RulesetCreated, RulesetError>);

impl Rules {
    /// The rules for the settings of the machine. They are many, and hold in any root: the kernel knows files by inode.
    pub(crate) fn for_settings(settings: &[PathBuf]) -> Self {
        let change = AccessFs::from_all(ASKED);
        let begun = || {
            Ruleset::default()
                .handle_access(change)?
                .scope(Scope::from_all(ASKED))?
                .create()?
                .add_rules(path_beneath_rules(settings, AccessFs::from_read(ASKED)))
        };
        Self(begun())
    }

    /// Adds the rules for everything else. Then confines this thread and what it starts, as far as the kernel can.
    pub(crate) fn confine(self, order: &Order, directory: &Path) -> Result<Landlock, String> {
        let open = |listed: &[ListedPath]| listed.iter().map(ListedPath::open).collect::<Result<Vec<_>, _>>();
        let (readable, writable) = (open(&order.inner.readable)?, open(&order.inner.writable)?);
        Ok(read(self.0.and_then(|rules| restrict(rules, order, directory, &readable, &writable))))
    }
}

fn restrict(
    rules: RulesetCreated,
    Order { isolated, inner, temporary, home, .. }: &Order,
    directory: &Path,
    readable: &[OwnedFd],
    writable: &[OwnedFd],
) -> Result<RestrictionStatus, RulesetError> {
    let (look, change) = (AccessFs::from_read(ASKED), AccessFs::from_all(ASKED));
    let here = match inner.access {
        Access::ReadOnly => look,
        Access::ReadWrite => change,
    };
    // By descriptor: by its path it could be something else by now.
    let opened =
        |files: &[OwnedFd]| files.iter().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd())).collect::<Vec<_>>();
    rules
        .add_rules(path_beneath_rules(SYSTEM, look))?
        .add_rules(path_beneath_rules(if inner.network == Network::Host { RESOLVER } else { &[] }, look))?
        .add_rules(path_beneath_rules(DEVICES, change))?
        .add_rules(path_beneath_rules(isolated.then_some(SHARED_MEMORY), change))?
        .add_rules(path_beneath_rules(isolated.then_some(TERMINALS), change))?
        // What such a command does not see is not there, so that it may list what is.
        .add_rules(path_beneath_rules(isolated.then_some("/"), AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(opened(readable), look))?
        .add_rules(path_beneath_rules(opened(writable), change))?
        .add_rules(path_beneath_rules([temporary], change))?
        // Private; what is mounted in it is read-only where it must be.
        .add_rules(path_beneath_rules(home, change))?
        .add_rules(path_beneath_rules([directory], here))?
        .restrict_self()
}

/// The settings that a command may read. The kernel keeps the others from all users but root, so for root we do.
pub(crate) fn settings() -> Vec<PathBuf> {
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
