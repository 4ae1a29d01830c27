//! Empty databases that a CLI creates at its first start, which takes as long as the rest of the start. They are created once for each
//! version of the CLI, by a process that sees no repository and no session, and each private copy starts with them.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::ids::Digest;
use drawloom_process::{
    Access, Command, Confined, Input, Limits, ListedPath, Network, Output, developer_paths, program_paths,
};

use crate::{
    environment::{self, Identity},
    executor::Parts,
    known::Cli,
    state::copy_files,
};

/// How a CLI is had to make its databases.
pub(crate) struct Seed {
    /// The variable that leads it to the directory of its state.
    pub(crate) variable: &'static str,
    /// Where below the variable's directory the state is; empty if it is the directory itself.
    pub(crate) directory: &'static str,
    pub(crate) args: &'static [&'static str],
    /// What is kept of the directory.
    pub(crate) files: &'static [&'static str],
}

/// How long it may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// How the name of a directory begins that is being made.
const UNFINISHED: &str = ".";

/// Where what this version of the program makes is kept.
fn place(parts: &Parts, cli: &Cli, program: &Path) -> Option<PathBuf> {
    cli.preset().seed()?;
    let real = program.canonicalize().ok()?;
    let found = real.metadata().ok()?;
    let version = format!("{} {} {} {}", real.display(), found.size(), found.mtime(), found.mtime_nsec());
    let digest = Digest::of(version.as_bytes()).to_string();
    Some(parts.copies.with_file_name("seeds").join(format!("{}-{}", cli.preset().program(), &digest[..16])))
}

/// What a private copy begins with, if it was made before.
pub(crate) fn find(parts: &Parts, cli: &Cli, program: &Path) -> Option<PathBuf> {
    place(parts, cli, program).filter(|place| place.is_dir())
}

/// Makes it for the calls to come. A failure costs them a moment and nothing else.
pub(crate) async fn make(parts: &Parts, cli: &Cli, program: &Path) {
    let Some((seed, place)) = cli.preset().seed().zip(place(parts, cli, program)) else { return };
    if place.is_dir() || !cli.is_confined() {
        return;
    }
    if let Err(error) = make_at(parts, &seed, program, &place).await {
        tracing::debug!(cli = %cli.name, %error, "cannot prepare the databases of a coding CLI");
    }
}

async fn make_at(parts: &Parts, seed: &Seed, program: &Path, place: &Path) -> io::Result<()> {
    let (Some(all), Some(name)) = (place.parent(), place.file_name()) else { return Ok(()) };
    let new = all.join(format!("{UNFINISHED}{}-{}", name.to_string_lossy(), std::process::id()));
    let [state, work, kept] = ["state", "work", "kept"].map(|name| new.join(name));
    for directory in [all, &new, &state, &work, &kept] {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let environment = environment::of(&parts.environment, &[], Identity::Users).map_err(io::Error::other)?;
    let variable = |name: &str| environment.get(name).or_else(|| parts.environment.get(name)).cloned();
    let mut readable = developer_paths(&parts.home, &variable, &parts.hidden);
    readable.extend(program_paths(program, &parts.hidden));
    let led = BTreeMap::from([(seed.variable.to_owned(), state.to_string_lossy().into_owned())]);
    let command = Command {
        program: program.to_string_lossy().into_owned(),
        args: seed.args.iter().map(|argument| (*argument).to_owned()).collect(),
        directory: Arc::new(File::open(&work)?),
        access: Access::ReadWrite,
        readable,
        writable: vec![ListedPath::resolve(state.clone())],
        guarded: Vec::new(),
        network: Network::None,
        environment: environment.into_iter().chain(led).collect(),
        input: Input::Empty,
        output: Output::Together { most: 16 * 1024 },
        confined: Confined::Yes,
        home: Some(parts.home.clone()),
        temporary: parts.temporary.join(format!("seed-{}-{}", name.to_string_lossy(), std::process::id())),
        limits: Limits::default(),
        time_limit: TIME_LIMIT,
        grace: Duration::from_secs(1),
    };
    let finished = parts.launcher.run(&command, parts.clock.as_ref()).await.map_err(io::Error::other);
    let made =
        finished.and_then(|_| copy_files(&state.join(seed.directory), seed.files, &kept)).and_then(
            |count| match count {
                0 => Err(io::Error::other("it made none")),
                _ => {
                    // Of earlier versions nothing is needed any more.
                    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
                        if !entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                            let _ = fs::remove_dir_all(entry.path());
                        }
                    }
                    fs::rename(&kept, place)
                }
            },
        );
    let _ = fs::remove_dir_all(&new);
    made
}
