//! What a developer's tool may read of this machine besides the system: a list of toolchains, so that whatever else is in the home
//! or elsewhere does not exist for it. What comes to the home later is not part of it either.

mod places;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{landlock::SYSTEM, listed::ListedPath};
use places::{CHECKED_SETTINGS, Place, SETTINGS, TOOLCHAINS};

/// Places of the kernel and of programs that run: nothing in them belongs to a toolchain.
const NEVER: &[&str] = &["/dev", "/proc", "/run", "/sys"];

/// The largest file of settings that is looked through for credentials.
const LONGEST_SETTINGS: u64 = 1024 * 1024;

/// How many links in one directory of `PATH` are followed.
const MAX_LINKS: usize = 2_000;

/// How often a program leads to another one: a script to its interpreter, that to the Python that its environment was made of.
const MAX_HOPS: u32 = 6;

/// What a developer's tool of the user with this home may read besides the system's own directories: toolchains in the home and where
/// the variables of the tool's environment say, and the directories of `PATH`. Nothing that contains the home or one of `hidden`,
/// or lies in one of `hidden`. A path that is also listed as writable stays writable.
pub fn developer_paths(home: &Path, variable: &dyn Fn(&str) -> Option<String>, hidden: &[PathBuf]) -> Vec<ListedPath> {
    let mut shown = Shown::new(Some(home), hidden);
    for place in TOOLCHAINS {
        shown.toolchain(home, variable, place);
    }
    for name in SETTINGS {
        shown.add(&home.join(name));
    }
    for (name, usual, file) in CHECKED_SETTINGS {
        let directory = directories(variable, name).next().unwrap_or_else(|| home.join(usual));
        let path = directory.join(file);
        if holds_no_credential(&path) {
            shown.add(&path);
        }
    }
    for directory in directories(variable, "PATH") {
        shown.programs(&directory);
    }
    shown.finish()
}

/// What a program needs of its own installation, and its interpreter's: its file, the `node_modules` or Python environment that it is in.
pub fn program_paths(program: &Path, hidden: &[PathBuf]) -> Vec<ListedPath> {
    let mut shown = Shown::new(None, hidden);
    shown.program(program, MAX_HOPS);
    shown.finish()
}

/// The absolute directories that a variable lists.
fn directories(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let value = if name.is_empty() { None } else { variable(name) };
    let value = value.unwrap_or_default();
    value.split(':').filter(|entry| entry.starts_with('/')).map(PathBuf::from).collect::<Vec<_>>().into_iter()
}

fn in_any(path: &Path, directories: &[&str]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

/// Whether a file exists in which no line looks like a password, a key or a token.
fn holds_no_credential(path: &Path) -> bool {
    const SIGNS: &[&str] = &["token", "passw", "secret", "_auth", "authorization", "api_key", "apikey", "api-key"];
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_SETTINGS + 1).read_to_string(&mut text));
    let is_plain = |line: &str| {
        let line = line.to_ascii_lowercase();
        // A user, or a user with a password, in an address.
        let address = line.split_once("://").map(|(_, rest)| rest.split(['/', ' ', '"', '\'']).next().unwrap_or(rest));
        !SIGNS.iter().any(|sign| line.contains(sign)) && !address.is_some_and(|host| host.contains('@'))
    };
    read.is_ok() && text.len() as u64 <= LONGEST_SETTINGS && text.lines().all(is_plain)
}

/// The paths so far.
struct Shown {
    paths: BTreeSet<PathBuf>,
    /// Directories that no path may contain: the home, and all that is hidden.
    kept_apart: Vec<PathBuf>,
    /// Directories that no path may lie in.
    hidden: Vec<PathBuf>,
}

impl Shown {
    fn new(home: Option<&Path>, hidden: &[PathBuf]) -> Self {
        let real = |path: &Path| [Some(path.to_owned()), path.canonicalize().ok()].into_iter().flatten();
        let hidden: Vec<PathBuf> = hidden.iter().flat_map(|path| real(path)).collect();
        let kept_apart = home.into_iter().flat_map(real).chain(hidden.iter().cloned()).collect();
        Self { paths: BTreeSet::new(), kept_apart, hidden }
    }

    fn toolchain(&mut self, home: &Path, variable: &dyn Fn(&str) -> Option<String>, place: &Place) {
        let usual = (!place.usual.is_empty()).then(|| home.join(place.usual));
        for root in directories(variable, place.variable).chain(usual) {
            match place.parts {
                [] => self.add(&root),
                parts => parts.iter().for_each(|part| self.part(&root, part)),
            }
        }
    }

    /// Adds a part of a directory; `*` in it stands for any one name.
    fn part(&mut self, root: &Path, part: &str) {
        match part.split_once("*/") {
            None => self.add(&root.join(part)),
            Some((before, after)) => {
                for entry in fs::read_dir(root.join(before)).into_iter().flatten().flatten() {
                    self.add(&entry.path().join(after));
                }
            }
        }
    }

    /// Adds a directory or file, unless it is not to be shown.
    fn add(&mut self, path: &Path) {
        let (Ok(real), Ok(metadata)) = (path.canonicalize(), path.metadata()) else { return };
        let is_known = in_any(&real, SYSTEM) && in_any(path, SYSTEM);
        let is_odd = in_any(&real, NEVER) || real.to_str().is_none() || path.to_str().is_none();
        let is_hidden = [path, &real].iter().any(|path| {
            self.kept_apart.iter().any(|apart| apart.starts_with(path))
                || self.hidden.iter().any(|hidden| path.starts_with(hidden))
        });
        if !(is_known || is_odd || is_hidden) && (metadata.is_dir() || metadata.is_file()) {
            self.paths.insert(path.to_owned());
            self.paths.insert(real);
        }
    }

    fn covers(&self, path: &Path) -> bool {
        in_any(path, SYSTEM) || path.ancestors().any(|above| self.paths.contains(above))
    }

    /// Adds a directory of `PATH`, and what the links in it lead to.
    fn programs(&mut self, directory: &Path) {
        if in_any(directory, SYSTEM) {
            return;
        }
        self.add(directory);
        if !self.covers(directory) {
            return;
        }
        self.installation(directory, MAX_HOPS);
        let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_LINKS);
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
            let Ok(real) = entry.path().canonicalize() else { continue };
            let is_program = real.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0);
            if is_program && !self.covers(&real) {
                self.program(&real, MAX_HOPS);
            }
        }
    }

    /// Adds a program, what was installed with it, and its interpreter.
    fn program(&mut self, program: &Path, hops: u32) {
        let Some(hops) = hops.checked_sub(1) else { return };
        // Each link on the way is looked at: an environment of Python is known by the path that leads to its interpreter.
        let mut here = program.to_owned();
        for _ in 0..MAX_HOPS {
            self.add(&here);
            if let Some(directory) = here.parent().and_then(|parent| parent.canonicalize().ok()) {
                self.installation(&directory, hops);
            }
            let Ok(to) = fs::read_link(&here) else { break };
            here = here.parent().unwrap_or(Path::new("/")).join(to);
        }
        if let Some(interpreter) = interpreter(program).filter(|interpreter| !in_any(interpreter, SYSTEM)) {
            self.program(&interpreter, hops);
        }
    }

    /// Adds what a directory with programs was installed with.
    fn installation(&mut self, directory: &Path, hops: u32) {
        let outermost = directory.ancestors().filter(|above| above.file_name() == Some(OsStr::new("node_modules")));
        if let Some(modules) = outermost.last().filter(|modules| !in_any(modules, SYSTEM)) {
            self.add(modules);
        }
        let Some(prefix) = directory.parent().filter(|_| directory.file_name() == Some(OsStr::new("bin"))) else {
            return;
        };
        if in_any(prefix, SYSTEM) {
            return;
        }
        let made_of = fs::read_to_string(prefix.join("pyvenv.cfg")).ok();
        let has_python = || {
            let names = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
            names.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python3"))
        };
        if made_of.is_some() || prefix.join("lib/node_modules").is_dir() || has_python() {
            for part in ["bin", "lib", "lib64", "include", "pyvenv.cfg"] {
                self.add(&prefix.join(part));
            }
        }
        // The environment names the directory of the interpreter that it was made of.
        let base = made_of.iter().flat_map(|text| text.lines()).find_map(|line| line.strip_prefix("home = "));
        if let (Some(base), Some(hops)) = (base.map(Path::new), hops.checked_sub(1))
            && base.is_absolute()
            && let Ok(base) = base.canonicalize()
            && !self.covers(&base)
        {
            self.add(&base);
            self.installation(&base, hops);
        }
    }

    /// Those that lie in no other.
    fn finish(self) -> Vec<ListedPath> {
        let is_outermost = |path: &&PathBuf| !path.ancestors().skip(1).any(|above| self.paths.contains(above));
        self.paths.iter().filter(is_outermost).map(|path| ListedPath::resolve(path.clone())).collect()
    }
}

/// The program that the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(File::open(script).ok()?.take(512)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let program = line.strip_prefix("#!")?.trim().split([' ', '\t']).next()?;
    program.starts_with('/').then(|| PathBuf::from(program))
}
