//! Rules of the sandbox that may be why a command failed, each with the key of the config that changes it. What a command prints
//! proves nothing, so that they are possibilities, and only those are named that fit a line of the output.

use std::path::{Path, PathBuf};

use drawloom_process::{Access, Command, Exceeded, ListedPath, Network, path_of};

/// No way to another machine.
const UNREACHABLE: &[&str] = &[
    "Network is unreachable",
    "network is unreachable",
    "Could not resolve",
    "could not resolve",
    "name resolution",
    "Name or service not known",
    "ENETUNREACH",
    "EAI_AGAIN",
    "ENOTFOUND",
    "socket: Operation not permitted",
];
const REFUSED: &[&str] = &["Connection refused", "connection refused", "ECONNREFUSED"];
const READ_ONLY: &[&str] = &["Read-only file system", "EROFS"];
const DENIED: &[&str] = &["Permission denied", "EACCES"];
const MISSING: &[&str] = &["No such file or directory", "ENOENT"];
const TOO_MANY: &[&str] = &["Resource temporarily unavailable", "Cannot fork", "EAGAIN"];
const CALLS: &[&str] = &["Operation not permitted", "EPERM", "Function not implemented", "Bad system call"];

/// Directories that every command sees.
const SEEN: &[&str] = &["/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/tmp", "/usr"];

/// What may have stood in the command's way, as far as its output speaks of it.
pub(super) fn possible_causes(output: &str, command: &Command, limited: Option<Exceeded>) -> Vec<String> {
    let volume = path_of(&command.directory).unwrap_or_default();
    let own =
        |path: &Path| path.starts_with(&volume) || path.starts_with(&command.temporary) || path.starts_with("/tmp");
    let listed = |paths: &[ListedPath], path: &Path| paths.iter().any(|listed| path.starts_with(listed.real()));
    let is_writable = |path: &Path| own(path) || listed(&command.writable, path);
    let is_seen = |path: &Path| {
        is_writable(path) || listed(&command.readable, path) || SEEN.iter().any(|seen| path.starts_with(seen))
    };
    let guarded: Vec<_> = command.guarded.iter().filter_map(|guarded| guarded.path.file_name()?.to_str()).collect();
    let (mut unreachable, mut refused, mut config, mut unwritable, mut unseen, mut too_many, mut calls) =
        (false, false, false, false, false, false, false);
    for line in output.lines() {
        let says = |words: &[&str]| words.iter().any(|word| line.contains(word));
        unreachable |= says(UNREACHABLE);
        refused |= says(REFUSED);
        // A relative path is in the volume, as a rule.
        let outside = paths(line).any(|path| !is_writable(&path));
        let volume_is_read_only = command.access == Access::ReadOnly && !outside;
        let names_config = says(READ_ONLY) && guarded.iter().any(|name| line.contains(name));
        config |= names_config;
        unwritable |= (says(READ_ONLY) && !names_config) || (says(DENIED) && (outside || volume_is_read_only));
        unseen |= (says(MISSING) || says(DENIED)) && paths(line).any(|path| !is_seen(&path));
        too_many |= limited.is_none() && says(TOO_MANY);
        calls |= says(CALLS) && !says(UNREACHABLE);
    }
    let has_network = command.network == Network::Host;
    let unwritable = unwritable.then_some(match command.access {
        Access::ReadOnly => {
            "the volume is read-only (mode: rw changes that); only $TMPDIR, /tmp and tools.bash.writable_paths are \
             writable"
        }
        Access::ReadWrite => "only the volume, $TMPDIR, /tmp and tools.bash.writable_paths are writable",
    });
    let causes = [
        (unreachable && !has_network).then_some(
            "commands have no network access; tools.bash.network: host with hosts: [\"*\"] on the agent changes that",
        ),
        (refused && !has_network).then_some(
            "a command has its own loopback network and reaches only servers that it started itself; \
             tools.bash.network: host with hosts: [\"*\"] on the agent changes that",
        ),
        config.then_some("agents cannot change the server's config files; no setting changes that"),
        unwritable,
        unseen.then_some(
            "only the volume, the system's programs and libraries, and tools.bash.readable_paths are visible",
        ),
        too_many.then_some(
            "the number of processes and threads of a command is limited; tools.bash.max_processes changes that",
        ),
        calls.then_some(
            "system calls that access other processes, mount or trace are not allowed; no setting changes that",
        ),
    ];
    causes.into_iter().flatten().map(|cause| format!("[possible cause: {cause}]")).collect()
}

/// The absolute paths in a line, without the name of the program that says it: `/bin/sh: 1: ./script: Permission denied`.
fn paths(line: &str) -> impl Iterator<Item = PathBuf> {
    let ends_path = |sign: char| sign.is_whitespace() || "'\"`:;,()[]{}<>=\u{2018}\u{2019}".contains(sign);
    let said = line.split_once(": ").map(|(_, rest)| rest).filter(|rest| rest.contains(": ")).unwrap_or(line);
    said.split(ends_path).filter(|word| word.len() > 1 && word.starts_with('/')).map(PathBuf::from)
}
