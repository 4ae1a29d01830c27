//! A launcher, a clock, commands with a mark, and a look at who is still alive.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use drawloom_process::{Access, Command, Confined, Error, Finished, Input, Launcher, Limits, Network, Output};
use drawloom_testkit::TestClock;
use tempfile::TempDir;

/// Longer than anything here takes; whoever waits so long hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// The program that cargo built beside this one.
pub(crate) fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let program = own.parent().and_then(Path::parent).expect("deps").join("examples/launcher");
    assert!(program.exists(), "{} is missing: cargo build -p drawloom-process --examples", program.display());
    program
}

pub(crate) fn launcher() -> Launcher {
    Launcher::new(program(), &["launch"])
}

/// A volume, a place for temporary directories, and a mark that every process of a command carries.
pub(crate) struct Room {
    pub(crate) volume: TempDir,
    pub(crate) temporary: TempDir,
    pub(crate) mark: String,
}

impl Room {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("drawloom-{}-{}-mark", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = || tempfile::tempdir().expect("a directory");
        Self { volume: dir(), temporary: dir(), mark }
    }

    /// The temporary directory of its commands. The name is its own: control groups of commands lie side by side.
    pub(crate) fn private(&self) -> PathBuf {
        self.temporary.path().join(&self.mark)
    }

    pub(crate) fn command(&self, script: &str) -> Command {
        Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            directory: Arc::new(File::open(self.volume.path()).expect("the volume")),
            access: Access::ReadWrite,
            readable: vec![],
            writable: vec![],
            guarded: vec![],
            network: Network::None,
            environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("MARK".into(), self.mark.clone())],
            input: Input::Empty,
            output: Output::Together { most: 64 * 1024 },
            confined: Confined::Yes,
            home: None,
            temporary: self.private(),
            limits: Limits::default(),
            time_limit: Duration::from_secs(30),
            grace: Duration::from_millis(300),
        }
    }

    pub(crate) async fn run(&self, command: &Command) -> Result<Finished, Error> {
        self.run_by(&launcher(), command).await
    }

    pub(crate) async fn run_by(&self, launcher: &Launcher, command: &Command) -> Result<Finished, Error> {
        let clock = TestClock::default();
        tokio::time::timeout(HANGS, launcher.run(command, &clock)).await.expect("it does not hang")
    }

    pub(crate) async fn shell(&self, script: &str) -> Finished {
        self.run(&self.command(script)).await.expect("it runs")
    }

    /// The processes that carry the mark.
    fn marked(&self) -> impl Iterator<Item = PathBuf> {
        let wanted = format!("MARK={}", self.mark);
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        entries.filter(move |entry| {
            let environment = std::fs::read(entry.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
    }

    /// The processes that carry the mark, by what they are.
    pub(crate) fn alive(&self) -> Vec<String> {
        self.marked()
            .map(|entry| std::fs::read_to_string(entry.join("cmdline")).unwrap_or_default().replace('\0', " "))
            .collect()
    }

    /// Ends what a test had to leave running.
    pub(crate) fn kill_all(&self) {
        for entry in self.marked() {
            let pid = entry.file_name().expect("a number").to_string_lossy().into_owned();
            std::process::Command::new("kill").args(["-9", &pid]).status().expect("kill");
        }
    }

    /// Waits until as many processes with the mark are alive as `wanted` says.
    pub(crate) async fn until_alive(&self, wanted: impl Fn(usize) -> bool) {
        let done = async {
            while !wanted(self.alive().len()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(HANGS, done).await.unwrap_or_else(|_| panic!("alive: {:?}", self.alive()));
    }
}

/// A count for the reader of the test's output.
pub(crate) fn count(line: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "{line}").expect("standard error");
}
