//! A user's repository, checkouts of it, and a look at what must not change.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use drawloom_checkout::{
    Added, Checkouts, Config, Kind, Oid, Parts, Prepare, Prepared, Program, Sandbox, Step, Verify, VerifyCommand,
};
use drawloom_contract::redact::Redactor;
use drawloom_process::{Confined, Launcher, Limits, Network};
use drawloom_testkit::TestClock;
use tempfile::TempDir;

pub(crate) const GOAL: &str = "g1";

/// A secret that the redactor knows.
pub(crate) const SECRET: &str = "correct-horse-battery-staple";

/// The time of commits in tests.
pub(crate) const AT: i64 = 1_700_000_000;

fn launcher() -> Launcher {
    let own = std::env::current_exe().expect("this program");
    let program = own.parent().and_then(Path::parent).expect("deps").join("examples/checkout_launcher");
    assert!(program.exists(), "{} is missing: cargo build -p drawloom-checkout --examples", program.display());
    Launcher::new(program, &[])
}

/// A user's repository and our checkouts.
pub(crate) struct Room {
    pub(crate) directory: TempDir,
    pub(crate) repository: PathBuf,
    pub(crate) config: Config,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) confined: Confined,
    /// The directories that goals may work in.
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) checkouts: Checkouts,
}

impl Room {
    /// With a small project on the branch `main`.
    pub(crate) fn new() -> Self {
        Self::with(&["init", "-q", "-b", "main"], Config::default())
    }

    pub(crate) fn with_config(config: Config) -> Self {
        Self::with(&["init", "-q", "-b", "main"], config)
    }

    pub(crate) fn with(init: &[&str], config: Config) -> Self {
        let room = Self::empty(init, config);
        room.write("src/main.rs", "fn main() {}\n");
        room.write("src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n");
        room.write("tests/check.sh", "grep -q 'fn main' src/main.rs\n");
        room.write("README.md", "# Project\n\nText.\n");
        room.write(".gitignore", "target/\n*.log\n");
        room.commit("first");
        room
    }

    /// With a repository that has no commit.
    pub(crate) fn empty(init: &[&str], config: Config) -> Self {
        // Not in /tmp: confined commands have a private one.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let repository = directory.path().join("project");
        fs::create_dir(&repository).expect("a directory");
        git(&repository, init);
        let home = directory.path().join("home");
        fs::create_dir(&home).expect("a directory");
        let path = std::env::var("PATH").expect("PATH");
        let environment = vec![("PATH".into(), path), ("HOME".into(), home.display().to_string())];
        let checkouts = open(directory.path(), &config, &environment, Confined::Yes, &[]);
        let (confined, directories) = (Confined::Yes, Vec::new());
        Self { directory, repository, config, environment, confined, directories, checkouts }
    }

    /// Setup and verify commands are confined, or not.
    pub(crate) fn with_sandbox(confined: Confined) -> Self {
        Self::with_sandbox_and(confined, Config::default())
    }

    pub(crate) fn with_sandbox_and(confined: Confined, config: Config) -> Self {
        let mut room = Self::with_config(config);
        room.confined = confined;
        room.reopen();
        room
    }

    /// The same as a restarted server has them.
    pub(crate) fn reopen(&mut self) {
        let Self { directory, config, environment, confined, directories, .. } = self;
        self.checkouts = open(directory.path(), config, environment, *confined, directories);
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        write(&self.repository.join(path), content);
    }

    pub(crate) fn commit(&self, message: &str) -> Oid {
        git(&self.repository, &["add", "-A"]);
        git(&self.repository, &["commit", "-q", "--allow-empty", "-m", message]);
        self.oid("HEAD")
    }

    pub(crate) fn oid(&self, name: &str) -> Oid {
        Oid::parse(&git(&self.repository, &["rev-parse", name])).expect("an id")
    }

    /// The content of a file in a commit.
    pub(crate) fn show(&self, commit: &Oid, path: &str) -> String {
        git(&self.repository, &["show", &format!("{commit}:{path}")])
    }

    /// The paths of a commit.
    pub(crate) fn paths(&self, commit: &Oid) -> Vec<String> {
        let listed = git(&self.repository, &["ls-tree", "-r", "--name-only", commit.as_str()]);
        listed.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn prepare(&self) -> Prepared {
        let options = Prepare { at: AT, ..Prepare::default() };
        self.checkouts.prepare(GOAL, &self.repository, &options).await.expect("prepared")
    }

    pub(crate) async fn writer(&self, name: &str, commit: &Oid) -> Added {
        self.checkouts.add(GOAL, name, commit, Kind::Writer).await.expect("added")
    }

    /// Prepares, and adds one writer.
    pub(crate) async fn one_writer(&self) -> (Prepared, PathBuf) {
        let prepared = self.prepare().await;
        let path = self.writer("a", &prepared.base).await.path;
        (prepared, path)
    }

    pub(crate) async fn checkpoint(&self, name: &str, key: &str) -> drawloom_checkout::Checkpoint {
        let step = Step { message: "a step", at: AT, key };
        self.checkouts.checkpoint(GOAL, name, &step).await.expect("a checkpoint")
    }

    /// Everything of the user's repository and checkout that must stay as it is.
    pub(crate) fn fingerprint(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        fingerprint(&self.repository, &self.repository, &mut found);
        found.retain(|path, _| {
            let path = path.to_string_lossy();
            !["./.git/objects", "./.git/refs/drawloom", "./.git/refs/heads/drawloom"]
                .iter()
                .any(|part| path.starts_with(part))
        });
        found
    }

    /// All refs of the user's repository.
    pub(crate) fn refs(&self) -> BTreeMap<String, String> {
        let listed = git(&self.repository, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let lines = listed.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(name, id)| (name.to_owned(), id.to_owned())).collect()
    }
}

fn open(
    directory: &Path,
    config: &Config,
    environment: &[(String, String)],
    confined: Confined,
    directories: &[PathBuf],
) -> Checkouts {
    let parts = Parts {
        root: directory.join("checkouts"),
        launcher: launcher(),
        temporary: directory.join("tmp"),
        clock: Arc::new(TestClock::default()),
        redactor: Arc::new(Redactor::new([SECRET])),
        environment: environment.to_vec(),
        sandbox: Sandbox {
            confined,
            network: if confined == Confined::Yes { Network::None } else { Network::Host },
            readable: Vec::new(),
            writable: Vec::new(),
            home: None,
            limits: Limits::default(),
        },
        directories: directories.to_vec(),
        config: config.clone(),
    };
    Checkouts::new(parts).expect("checkouts")
}

fn fingerprint(top: &Path, directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = Path::new(".").join(path.strip_prefix(top).expect("below the top"));
        let metadata = path.symlink_metadata().expect("metadata");
        let content = if metadata.is_symlink() {
            format!("{:?}", fs::read_link(&path).expect("a link"))
        } else if metadata.is_dir() {
            fingerprint(top, &path, found);
            "directory".into()
        } else {
            let content = fs::read(&path).expect("a file");
            let modified = metadata.modified().expect("a time");
            format!("{:o} {modified:?} {}", metadata.permissions().mode(), String::from_utf8_lossy(&content))
        };
        found.insert(name, content);
    }
}

/// Runs the user's git.
pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=user", "-c", "user.email=user@example.com", "-c", "commit.gpgSign=false"])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
}

pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, content).expect("a file");
}

pub(crate) fn write_program(path: &Path, content: &str) {
    write(path, content);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

pub(crate) fn shell(script: &str) -> VerifyCommand {
    VerifyCommand { name: "check".into(), program: Program::Shell(script.into()), timeout_seconds: Some(60) }
}

pub(crate) fn verify(commit: &Oid, script: &str) -> Verify {
    Verify {
        within: None,
        commit: commit.clone(),
        commands: vec![shell(script)],
        protect: Vec::new(),
        base: None,
        witness: false,
        key: "v1".into(),
    }
}
