//! Processes of a case, found by the marker in their environment.

use std::{collections::BTreeMap, fs};

use rustix::process::{Pid, Signal, kill_process};

use super::Victim;
use crate::prove::pass;

/// How long processes of a killed server may take to end, in steps of 10 ms: launchers give a command time to end in order.
const PATIENCE: usize = 3_000;

#[derive(Debug)]
struct Process {
    parent: u32,
    command: String,
    is_marked: bool,
}

/// All processes, by their ids.
fn all(marker: &str) -> BTreeMap<u32, Process> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("a file system of processes").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        // The name of the program, in parentheses, can have anything in it; the state and the parent follow.
        let status = String::from_utf8_lossy(&read("stat")).into_owned();
        let mut fields = status.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
        // One that has ended and is not waited for yet does nothing any more.
        let (Some(parent), false) = (parent, state == Some("Z")) else { continue };
        let is_marked = read("environ").split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes());
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        found.insert(pid, Process { parent, command, is_marked });
    }
    found
}

/// Kills a process of this kind that has to do with a CLI at work; whether there was one.
pub(super) fn kill_one(victim: Victim, marker: &str, server: u32, choice: usize) -> bool {
    let all = all(marker);
    let is_marked = |pid: &u32| all.get(pid).is_some_and(|process| process.is_marked);
    let first_of_call = |pid: &&u32| **pid != server && is_marked(pid) && !is_marked(&all[*pid].parent);
    let Some(worker) = all.keys().find(first_of_call) else { return false };
    let launchers: Vec<u32> = std::iter::successors(Some(all[worker].parent), |pid| Some(all.get(pid)?.parent))
        .take_while(|pid| all.get(pid).is_some_and(|process| process.command.contains(drawloom::LAUNCHER)))
        .collect();
    let pid = match victim {
        Victim::Launcher if launchers.is_empty() => return false,
        Victim::Launcher => launchers[choice % launchers.len()],
        Victim::Worker | Victim::Server => *worker,
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the id of a process");
    kill_process(pid, Signal::KILL).is_ok()
}

/// Processes with the marker, but for the server.
pub(super) fn left(marker: &str, server: Option<u32>) -> Vec<String> {
    let is_left = |(pid, process): &(u32, Process)| process.is_marked && Some(*pid) != server;
    all(marker).into_iter().filter(is_left).map(|(pid, process)| format!("{pid} {}", process.command)).collect()
}

/// Launchers with an open file below the directory that the marker names: their environment is empty, but they hold the lock of their
/// command.
fn launchers(marker: &str) -> Vec<String> {
    let directory = marker.split_once('=').map_or(marker, |(_, directory)| directory);
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path.starts_with(directory))
    };
    let is_launcher = |(pid, process): &(u32, Process)| process.command.contains(drawloom::LAUNCHER) && holds(pid);
    all(marker).into_iter().filter(is_launcher).map(|(pid, process)| format!("{pid} {}", process.command)).collect()
}

/// Waits until no process is left: the server is dead, and its launchers end what it started.
pub(super) fn until_none(marker: &str) -> Result<(), String> {
    let all_left = || [left(marker, None), launchers(marker)].concat();
    for _ in 0..PATIENCE {
        if all_left().is_empty() {
            return Ok(());
        }
        pass(10);
    }
    Err(format!("processes outlive their server: {:?}", all_left()))
}
