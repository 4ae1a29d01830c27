//! Finding out what this machine can enforce, by trying it: the answer is one line of JSON on standard output.

use std::{
    io::{self, Write},
    process::{Command, ExitCode, Stdio},
};

use serde::{Deserialize, Serialize};

use super::{PROBE, cgroup, namespaces, root};
use crate::{
    command::Network,
    confinement::{Confinement, Layer, Status},
    landlock::{self, Landlock},
    seccomp::Filter,
};

/// What to try.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Probe {
    /// Everything but these, by a launcher that is started with these arguments.
    All { without: Vec<Layer>, launcher_args: Vec<String> },
    /// What happens inside namespaces that were made already.
    Inside,
}

pub(super) fn main(probe: &str) -> Result<ExitCode, String> {
    let (without, launcher_args) = match serde_json::from_str(probe).map_err(|error| error.to_string())? {
        Probe::All { without, launcher_args } => (without, launcher_args),
        Probe::Inside => return inside(),
    };
    let off = |layer: &Layer| without.contains(layer);
    let disabled = || "it is switched off".to_owned();
    let status = |layer: Layer, tried: &dyn Fn() -> Result<(), String>| match off(&layer) {
        true => Status::Off(disabled()),
        false => tried().map_or_else(Status::Off, |()| Status::On),
    };
    let landlock = if off(&Layer::Landlock) { Landlock::Off(disabled()) } else { landlock::status() };
    let cgroup = status(Layer::Cgroup, &cgroup::try_out);
    let namespaces = status(Layer::Namespaces, &|| try_namespaces(&launcher_args));
    // The keeper is what is put into a group.
    let cgroup = match (cgroup, &namespaces) {
        (Status::On, Status::Off(_)) => Status::Off("it needs namespaces".into()),
        (cgroup, _) => cgroup,
    };
    // The last one: it stays on this process.
    let seccomp = status(Layer::Seccomp, &|| Filter { isolated: true, network: Network::None }.apply());
    let found = Confinement { namespaces, landlock, seccomp, cgroup };
    let line = serde_json::to_vec(&found).map_err(|error| error.to_string())?;
    io::stdout().write_all(&line).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes namespaces and has a child try them, as for a command.
fn try_namespaces(launcher_args: &[String]) -> Result<(), String> {
    namespaces::enter(Network::None).map_err(|error| format!("the kernel or its settings refuse them: {error}"))?;
    let probe = serde_json::to_string(&Probe::Inside).map_err(|error| error.to_string())?;
    let output = Command::new("/proc/self/exe")
        .args(launcher_args)
        .args([PROBE, &probe])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("no process could be started in them: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

fn inside() -> Result<ExitCode, String> {
    match root::try_out()
        .and_then(|()| namespaces::raise_loopback().map_err(|error| format!("no loopback network: {error}")))
    {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(reason) => {
            io::stdout().write_all(reason.as_bytes()).map_err(|error| error.to_string())?;
            Ok(ExitCode::FAILURE)
        }
    }
}
