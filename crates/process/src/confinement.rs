//! What this machine can enforce for commands, and what that leaves open.

use std::{fmt, process::Stdio};

use serde::{Deserialize, Serialize};

use crate::{
    command::{Access, Command, Confined, Error, Guard, Guarded, Launcher, Network},
    landlock::Landlock,
    launcher::PROBE,
};

/// One of the kernel's means to confine a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Processes, files, network and shared memory of its own.
    Namespaces,
    /// Rules about paths and signals.
    Landlock,
    /// A list of refused system calls.
    Seccomp,
    /// Counting memory and processes in the kernel.
    Cgroup,
}

/// Whether a means can be used here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can.
    On,
    /// It cannot, for this reason.
    Off(String),
}

impl Status {
    /// Whether it can be used.
    pub fn is_on(&self) -> bool {
        matches!(self, Self::On)
    }
}

/// What this machine can enforce for a command. It was tried, not guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Namespaces for processes, mounts, network and System V IPC.
    pub namespaces: Status,
    /// Landlock.
    pub landlock: Landlock,
    /// The filter of system calls.
    pub seccomp: Status,
    /// A control group for each command; without it the launcher samples what its processes use.
    pub cgroup: Status,
}

/// How many bytes of a probe's answer are read.
const LONGEST_ANSWER: usize = 64 * 1024;

impl Launcher {
    /// What this machine can enforce. The first call starts the launcher to try it; later ones know.
    pub fn confinement(&self) -> Result<&Confinement, Error> {
        match self.found.get() {
            Some(found) => Ok(found),
            None => self.probe().map(|found| self.found.get_or_init(|| found)),
        }
    }

    fn probe(&self) -> Result<Confinement, Error> {
        let without = serde_json::to_string(&self.without);
        let without = without.map_err(|error| Error::Unsendable { reason: error.to_string() })?;
        let output = std::process::Command::new(&self.program)
            .args(&self.args)
            .args([PROBE, &without])
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .map_err(|source| Error::Launcher { program: self.program.clone(), source })?;
        let answer = &output.stdout[..output.stdout.len().min(LONGEST_ANSWER)];
        serde_json::from_slice(answer).map_err(|error| Error::Broken(error.into()))
    }
}

impl Confinement {
    /// What is enforced for a command that is not confined.
    pub(crate) fn none(reason: &str) -> Self {
        let off = || Status::Off(reason.to_owned());
        Self { namespaces: off(), landlock: Landlock::Off(reason.to_owned()), seccomp: off(), cgroup: off() }
    }

    /// Why this command cannot be run here as it must be; each reason names the setting that changes it.
    pub(crate) fn refusal(&self, command: &Command) -> Option<String> {
        if command.confined == Confined::No {
            return unenforced(command);
        }
        let Status::Off(no_namespaces) = &self.namespaces else { return None };
        if command.access == Access::ReadOnly && !self.landlock.keeps_read_only() {
            let why = self.landlock.off_reason().unwrap_or("Landlock is too old");
            return Some(format!(
                "the volume is read-only, but this machine cannot enforce that (no namespaces: {no_namespaces}; no \
                 Landlock: {why}); set the volume's mode to rw to allow it"
            ));
        }
        if let (Network::None, Status::Off(no_seccomp)) = (command.network, &self.seccomp) {
            return Some(format!(
                "network access is disabled for commands, but this machine cannot enforce that (no namespaces: \
                 {no_namespaces}; no seccomp: {no_seccomp}); set tools.bash.network: host to allow it"
            ));
        }
        let Guarded { path, rule } = command.guarded.first()?;
        let rule = match rule {
            Guard::ReadOnly => "must be read-only",
            Guard::Hidden => "must be hidden",
        };
        Some(format!(
            "the volume contains {}, which {rule}, but this machine cannot enforce that without namespaces \
             ({no_namespaces}); move the config out of the volume",
            path.display()
        ))
    }

    /// What commands can do because something is missing on this machine, in sentences. Empty where all layers work.
    pub fn lost(&self) -> Vec<String> {
        let mut lost = Vec::new();
        if let Status::Off(reason) = &self.namespaces {
            lost.push(format!(
                "no namespaces ({reason}): commands can list other processes, can connect to Unix sockets by path, \
                 cannot use $TMPDIR as /tmp, and have no loopback network; a command can outlive a killed \
                 launcher; Bash is refused on volumes that contain the config"
            ));
        }
        lost.extend(self.landlock.notice(self.namespaces.is_on()));
        if let Status::Off(reason) = &self.seccomp {
            lost.push(format!(
                "no seccomp ({reason}): commands can use every system call{}",
                match self.namespaces.is_on() {
                    true => "",
                    false =>
                        ", lower the resource limits of drawloom's process, and trace other processes of the \
                        same user",
                }
            ));
        }
        if let Status::Off(reason) = &self.cgroup {
            lost.push(format!(
                "no cgroup ({reason}): memory, processes and disk writes of a command are sampled every 50 ms, so a \
                 command can exceed its limits for that long"
            ));
        }
        lost
    }

    /// What holds only as far as drawloom's user goes.
    pub fn remarks(&self) -> Vec<String> {
        match rustix::process::geteuid().is_root() {
            true => vec![
                "drawloom runs as root: commands can read root-owned files in /usr, /opt, /bin, /sbin and /lib, and \
                 can change other users' files in their volume; run drawloom as a dedicated user"
                    .into(),
            ],
            false => Vec::new(),
        }
    }
}

/// Why a command cannot run unconfined: a rule of it needs confinement.
fn unenforced(command: &Command) -> Option<String> {
    let rule = if command.access == Access::ReadOnly {
        "its directory is read-only".to_owned()
    } else if command.network == Network::None {
        "network access is disabled for it".to_owned()
    } else {
        format!("{} is guarded", command.guarded.first()?.path.display())
    };
    Some(format!("{rule}, but the command is unconfined, so that cannot be enforced; confine it"))
}

/// Which layers work, in a few words: `namespaces, Landlock 7, seccomp; limits sampled`.
impl fmt::Display for Confinement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = match &self.landlock {
            Landlock::On(version) => format!("Landlock {version}"),
            Landlock::Off(_) => "no Landlock".into(),
        };
        let named = |status: &Status, name: &str| if status.is_on() { name.to_owned() } else { format!("no {name}") };
        let counted = if self.cgroup.is_on() { "limits enforced by cgroup" } else { "limits sampled" };
        let (namespaces, seccomp) = (named(&self.namespaces, "namespaces"), named(&self.seccomp, "seccomp"));
        write!(formatter, "{namespaces}, {landlock}, {seccomp}; {counted}")
    }
}
