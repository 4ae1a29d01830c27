//! Server processes of the tests.

use std::{
    io::{BufRead, BufReader},
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where one case keeps its things.
pub(crate) struct Case {
    pub(crate) directory: TempDir,
    config: PathBuf,
    /// Further variables of its servers.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Case {
    pub(crate) fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("files")).expect("a directory");
        std::fs::write(directory.path().join("files/in.txt"), "some words\n").expect("a file");
        let path = directory.path().join("drawloom.yaml");
        let files = directory.path().join("files");
        std::fs::write(&path, config.replace("FILES", &files.display().to_string())).expect("a file");
        Self { directory, config: path, environment: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Starts the shipped server with this config.
    pub(crate) fn serve(&self, config: &str) -> Server {
        std::fs::write(&self.config, config).expect("a file");
        let trusted = self.shipped(&["trust", "--yes"]).output().expect("the binary starts");
        assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
        let mut child = self
            .shipped(&["serve", "--json", "--log", "error"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where it is");
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("no server: {error}: {line}"));
        Server { child, url: told["url"].as_str().expect("an address").to_owned() }
    }

    fn shipped(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drawloom"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env("DRAWLOOM_DATA_DIR", self.path("data"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        for name in ["DRAWLOOM_TOKEN", "DRAWLOOM_URL", "DRAWLOOM_LOG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        command
    }

    /// Starts the fixture. `settings` are added to where its files are.
    pub(crate) fn start(&self, settings: &Value) -> Server {
        self.start_under(&[], settings)
    }

    /// Starts the fixture under another program, such as `strace`.
    pub(crate) fn start_under(&self, wrapper: &[&str], settings: &Value) -> Server {
        self.start_program(wrapper, &fixture_program(), settings)
    }

    /// Starts a fixture, which may be that of another version.
    pub(crate) fn start_program(&self, wrapper: &[&str], program: &Path, settings: &Value) -> Server {
        let mut fixture = json!({ "ledger": self.path("ledger"), "calls": self.path("calls") });
        for (key, value) in settings.as_object().into_iter().flatten() {
            fixture[key] = value.clone();
        }
        let mut words: Vec<&std::ffi::OsStr> = wrapper.iter().map(|word| (*word).as_ref()).collect();
        words.push(program.as_os_str());
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .arg(&self.config)
            .arg(self.path("data"))
            .env("DRAWLOOM_FIXTURE", fixture.to_string())
            .env_remove("DRAWLOOM_TOKEN")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the fixture starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line, or the end");
        Server { child, url: line.trim().to_owned() }
    }
}

/// A server process, killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it is; empty when it died before it could say.
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn kill(&mut self) {
        // The whole group, because the server may run under another program. It may be dead already, which is as good.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.ended();
    }

    /// Names this very process, also when its number has been given to another.
    pub(crate) fn handle(&self) -> Arc<OwnedFd> {
        let handle = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        Arc::new(handle.expect("a child that was not waited for"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the server and what it runs under.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).expect("a child that was not waited for");
    }

    /// Waits for the process's end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn fixture_program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_drawloom")).with_file_name("examples").join("fixture");
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    program
}
