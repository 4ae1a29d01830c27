//! Files that a folder brings: configs, values, prompts, batches. Another person may have made the folder, so only regular files are read, up to
//! a limit: a pipe would never end, and to open a device can do something.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
};

/// Folders with the descriptors of a process: a shell names pipes there, as in `<(command)`.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// Opens a regular file. Anything else is refused at once: a pipe without a writer does not block.
pub fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // A socket, or a device without hardware.
        Err(Errno::NXIO) => return Err(not_regular()),
        Err(error) => return Err(error.into()),
    };
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false if kind.is_dir() => Err(Errno::ISDIR.into()),
        false => Err(not_regular()),
    }
}

/// The content of a regular file of at most `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_limited(open_file(path)?, limit)
}

/// The same for a text.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    text(read_file(path, limit)?)
}

/// The content of a file that a person named on the command line: also a pipe of the shell, as in `<(command)`.
pub fn read_argument(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let is_in = |folder: &str| path.parent() == Some(Path::new(folder));
    match path == Path::new("/dev/stdin") || DESCRIPTORS.into_iter().any(is_in) {
        true => read_limited(File::open(path)?, limit),
        false => read_file(path, limit),
    }
}

/// Everything that a source holds, or an error when that is more than `limit` bytes.
pub fn read_limited(source: impl io::Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// Bytes as text.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, mkfifoat};

    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        fs::write(&file, "four").expect("written");
        mkfifoat(CWD, &pipe, Mode::RWXU).expect("a pipe");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).expect("a link");
        assert_eq!(read_text(&file, 4).expect("a file"), "four");
        assert_eq!(read_file(&file, 3).expect_err("too long").to_string(), "it is longer than 3 bytes");
        for other in [pipe.as_path(), &link, Path::new("/dev/zero"), Path::new("/dev/tty")] {
            assert!(read_file(other, 4).is_err(), "{}", other.display());
            assert!(read_argument(other, 4).is_err(), "{}", other.display());
        }
        assert_eq!(read_file(&pipe, 4).expect_err("a pipe").to_string(), "it is not a regular file");
        assert_eq!(read_file(folder.path(), 4).expect_err("a folder").kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read_file(&folder.path().join("none"), 4).expect_err("missing").kind(), io::ErrorKind::NotFound);
        let (output, mut input) = io::pipe().expect("a pipe");
        io::Write::write_all(&mut input, b"piped").expect("written");
        drop(input);
        let named = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&output));
        assert_eq!(read_argument(Path::new(&named), 9).expect("a pipe of the shell"), b"piped");
    }
}
