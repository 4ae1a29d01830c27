//! Open files that a program got from whoever started it, and that are not meant for what it starts: a secret, a lock, a terminal.

use std::{fs, io, os::fd::RawFd};

const STANDARD_ERROR: RawFd = 2;

/// Closes every descriptor but standard input, output and error. For a program that was just started and has opened nothing yet.
pub(crate) fn close_inherited() -> io::Result<()> {
    let listed = fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<RawFd> =
        listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > STANDARD_ERROR) {
        // The descriptor of the list itself is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}
