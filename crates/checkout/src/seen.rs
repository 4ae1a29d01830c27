//! What lies at a path of a checkout: its kind, mode and content. No link is followed on the way.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _},
    os::{fd::AsFd, unix::ffi::OsStrExt as _},
};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use sha2::{Digest as _, Sha256};

use crate::verify::hex;

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Nothing,
    Link(Vec<u8>),
    File {
        mode: u32,
        digest: String,
    },
    /// A directory, a special file, or something that cannot be read.
    Other,
}

impl Seen {
    /// Looks at a path below `top`.
    pub(crate) fn at(top: impl AsFd, path: &[u8]) -> Self {
        let path = OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path));
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open =
            |flags: OFlags| openat2(&top, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), beneath);
        let Ok(found) = open(OFlags::PATH) else { return Self::Nothing };
        let Ok(stat) = fstat(&found) else { return Self::Other };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => match readlinkat(&found, "", Vec::new()) {
                Ok(target) => Self::Link(target.into_bytes()),
                Err(_) => Self::Other,
            },
            // Should a pipe have taken its place, opening must not wait.
            FileType::RegularFile => match open(OFlags::RDONLY | OFlags::NONBLOCK).map(File::from) {
                Ok(file) => {
                    digest(file).map_or(Self::Other, |digest| Self::File { mode: stat.st_mode & 0o7777, digest })
                }
                Err(_) => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// In a line.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::Link(target) => format!("link {}", hex(target)),
            Self::File { mode, digest } => format!("file {mode:o} {digest}"),
            Self::Other => "other".into(),
        }
    }
}

fn digest(mut file: File) -> io::Result<String> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => digest.update(&buffer[..count]),
        }
    }
}
