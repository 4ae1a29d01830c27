//! Finding out what this machine can enforce, by trying it: the answer is one line of JSON on standard output.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use rustix::process::{WaitOptions, waitpid};

use super::{cgroup, namespaces, root};
use crate::{
    command::Network,
    confinement::{Confinement, Layer, Status},
    landlock::{self, Landlock},
    seccomp::Filter,
};

/// Tries everything but the layers that `without` lists in JSON.
pub(super) fn main(without: &str) -> Result<ExitCode, String> {
    let without: Vec<Layer> = serde_json::from_str(without).map_err(|error| error.to_string())?;
    let off = |layer: &Layer| without.contains(layer);
    let disabled = || "disabled".to_owned();
    let status = |layer: Layer, tried: &dyn Fn() -> Result<(), String>| match off(&layer) {
        true => Status::Off(disabled()),
        false => tried().map_or_else(Status::Off, |()| Status::On),
    };
    let cgroup = status(Layer::Cgroup, &cgroup::try_out);
    let namespaces = status(Layer::Namespaces, &try_namespaces);
    // The keeper is what is put into a group.
    let cgroup = match (cgroup, &namespaces) {
        (Status::On, Status::Off(_)) => Status::Off("requires namespaces".into()),
        (cgroup, _) => cgroup,
    };
    // The last ones: they stay on this process.
    let landlock = if off(&Layer::Landlock) { Landlock::Off(disabled()) } else { landlock::status() };
    let seccomp = status(Layer::Seccomp, &|| Filter { isolated: true, network: Network::None }.compile()?.apply());
    let found = Confinement { namespaces, landlock, seccomp, cgroup };
    let line = serde_json::to_vec(&found).map_err(|error| error.to_string())?;
    io::stdout().write_all(&line).map_err(|error| error.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Makes namespaces and has their first process try them, as for a command.
fn try_namespaces() -> Result<(), String> {
    let failed = |error: io::Error| format!("refused by the kernel or its settings: {error}");
    let (mut reason, mut told) = io::pipe().map_err(failed)?;
    let first = namespaces::start_first(|| match inside() {
        Ok(()) => 0,
        Err(reason) => told.write_all(reason.as_bytes()).map_or(2, |()| 1),
    });
    let first = first.map_err(failed)?;
    drop(told);
    let mut text = String::new();
    reason.read_to_string(&mut text).map_err(failed)?;
    let ended = waitpid(Some(first), WaitOptions::empty()).map_err(|error| failed(error.into()))?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(text),
    }
}

fn inside() -> Result<(), String> {
    namespaces::limit_powers().map_err(|error| format!("cannot limit privileges: {error}"))?;
    root::try_out()?;
    namespaces::own_network().map_err(|error| format!("cannot create a network namespace: {error}")).map(drop)
}
