//! What the doctor looks at in the machine: disk, permissions, clock, limits.

use std::{os::unix::fs::PermissionsExt as _, path::Path, time::UNIX_EPOCH};

use drawloom_contract::failure::Explain as _;
use drawloom_contract::time::Timestamp;
use drawloom_process::{Landlock, Launcher};
use drawloom_server::Limits;
use rustix::process::{Resource, getrlimit};

use crate::{
    LAUNCHER,
    output::{LocalTime, bytes},
};

use super::{Report, Verdict};

/// Below this much free space a warning is due.
const LITTLE_SPACE: u64 = 1024 * 1024 * 1024;
/// Below this much free space runs will soon park.
const NO_SPACE: u64 = 32 * 1024 * 1024;
/// Files that were written so long after now were not: the clock is wrong.
const SLACK_MS: i64 = 5 * 60 * 1_000;
/// This version did not exist before.
const OLDEST: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Whether only this user can look into the data directory.
pub(super) fn permissions(report: &mut Report, path: &Path) {
    match std::fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777) {
        Ok(mode) if mode & 0o077 == 0 => report.ok("permissions", "only this user can look into the data directory"),
        Ok(mode) => report.add(
            Verdict::Warn,
            "permissions",
            format!("others on this machine can look into the data directory (mode {mode:o})"),
            Some(format!("chmod 700 {}", path.display())),
        ),
        Err(error) => report.add(Verdict::Fail, "permissions", error.to_string(), None),
    }
}

/// Whether the disk has free space.
pub(super) fn disk(report: &mut Report, path: &Path) {
    let existing = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    let free = match rustix::fs::statvfs(existing) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => return report.add(Verdict::Warn, "disk", format!("cannot ask for free space: {error}"), None),
    };
    let message = format!("{} free", bytes(free));
    match free {
        0..NO_SPACE => report.add(
            Verdict::Fail,
            "disk",
            message,
            Some("free some space: on a full disk runs park until there is space".into()),
        ),
        NO_SPACE..LITTLE_SPACE => report.add(
            Verdict::Warn,
            "disk",
            message,
            Some("free some space soon; `drawloom prune` removes old runs".into()),
        ),
        _ => report.ok("disk", message),
    }
}

/// Whether the clock can be right: not before this version was made, and not before files were written here.
pub(super) fn clock(report: &mut Report, local: &LocalTime, path: &Path) {
    let now = local.now();
    let written = std::fs::read_dir(path).into_iter().flatten().flatten().filter_map(|entry| {
        let modified = entry.metadata().ok()?.modified().ok()?;
        i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    });
    let newest = written.max().unwrap_or(0);
    let hint =
        || Some("set the clock, such as with timedatectl set-ntp true: timeouts and retention depend on it".into());
    if now < OLDEST {
        let message = format!("it shows {}, which is too long ago", local.whole(now));
        report.add(Verdict::Fail, "clock", message, hint());
    } else if newest > now.as_millis() + SLACK_MS {
        let newest = local.whole(Timestamp::from_millis(newest));
        let message =
            format!("it shows {}, but a file in the data directory was written at {newest}", local.whole(now));
        report.add(Verdict::Warn, "clock", message, hint());
    } else {
        report.ok("clock", local.whole(now));
    }
}

/// Whether the server may open as many files as it has connections.
pub(super) fn open_files(report: &mut Report) {
    let limit = getrlimit(Resource::Nofile);
    match limit.maximum {
        Some(most) if Limits::for_open_files(most).connections < Limits::DEFAULT.connections => report.add(
            Verdict::Warn,
            "limits",
            format!(
                "a process may open {most} files, so the server takes at most {} connections instead of {}",
                Limits::for_open_files(most).connections,
                Limits::DEFAULT.connections
            ),
            Some("raise it: ulimit -Hn 65536, or LimitNOFILE= in the systemd unit".into()),
        ),
        Some(most) => report.ok("limits", format!("a process may open {most} files")),
        None => report.ok("limits", "a process may open any number of files"),
    }
}

/// What this machine can enforce for commands.
pub(super) fn sandbox(report: &mut Report) {
    let launcher = Launcher::this_program(&[LAUNCHER]);
    let found = match launcher.confinement() {
        Ok(found) => found,
        Err(error) => {
            let hint = error.hint();
            return report.add(Verdict::Warn, "sandbox", error.to_string(), hint);
        }
    };
    let mut message = format!("Bash is confined by {found}");
    for line in found.lost().iter().chain(&found.remarks()) {
        message.push_str(&format!("; {line}"));
    }
    let all = found.namespaces.is_on() && found.seccomp.is_on() && matches!(found.landlock, Landlock::On(_));
    match all {
        true => report.ok("sandbox", message),
        false => report.add(
            Verdict::Warn,
            "sandbox",
            message,
            Some("allow unprivileged user namespaces and use a kernel with Landlock and seccomp, or leave tools.bash.enabled off".into()),
        ),
    }
}
