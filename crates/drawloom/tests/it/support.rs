//! A home for a test: a directory with a config, commands that run in it, a server that ends with it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// The scripted model of these tests: it repeats its prompt, unless the prompt asks for something else.
const CONFIG: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { contains: boom }
          fail: { kind: refused, message: it went boom }
        - when: { contains: slow }
          text: never said
          delay_ms: 600000
        - when: { contains: read, turn: 1 }
          calls: [{ tool: Read, input: { path: note.txt, bytes: true } }]
        - when: { contains: read }
          text: \"the note says: {{last}}\"
        - text: \"{{prompt}}\"
          chunks: 3
defaults: { provider: script, model: test }
agents:
  echo: { description: Says it again., tools: [Read], agents: [], hosts: [] }
volumes:
  notes: { path: notes, mode: ro, default: true }
";

/// A directory of its own for one test.
pub(crate) struct Home {
    directory: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output, home: &Path) -> Self {
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).expect("output is text").replace(&*home.to_string_lossy(), "<home>")
        };
        Self { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    /// The same, after a check of the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        home.write("drawloom.yaml", CONFIG);
        std::fs::create_dir(home.path().join("notes")).expect("a directory");
        home.write("notes/note.txt", "remember the milk");
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("a writable directory");
    }

    /// A command in this home, with nothing of the tester's own environment that matters.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drawloom"));
        for name in [
            "DRAWLOOM_TOKEN",
            "DRAWLOOM_URL",
            "DRAWLOOM_LOG",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "COLUMNS",
            "NO_COLOR",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "DEEPSEEK_API_KEY",
        ] {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.path())
            .env("HOME", self.path())
            .env("DRAWLOOM_DATA_DIR", self.data())
            .env("TZ", "UTC")
            .env("DRAWLOOM_LOCAL_SERVERS", "")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.finish(&mut self.command(arguments))
    }

    /// Runs a command that was made ready by hand.
    pub(crate) fn finish(&self, command: &mut Command) -> Ran {
        Ran::of(command.output().expect("the binary starts"), self.path())
    }

    /// Runs a command with something on its stdin.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("somebody reads");
        Ran::of(child.wait_with_output().expect("it ends"), self.path())
    }

    /// Starts a server; returns when it serves.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(self.command(&["serve", "--json", "--log", "warn"]))
    }

    /// Starts a server from a command that was made ready by hand.
    pub(crate) fn serve_with(&self, mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where it is");
        let Ok(announced) = serde_json::from_str::<Value>(&line) else {
            let mut said = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
            panic!("no server: {said}");
        };
        let url = announced["url"].as_str().expect("an address").to_owned();
        Server { child, url }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        end_servers(self.path());
    }
}

/// Ends the servers that commands started in the background with a config or data below `home`.
pub(crate) fn end_servers(home: &Path) {
    let home = format!("{}/", home.display());
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        if command.contains("\0--own-session\0") && command.contains(&home) {
            let pid = rustix::process::Pid::from_raw(pid).expect("a process");
            _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// A log that is whole when its process has ended.
struct LaterLog(Option<std::thread::JoinHandle<Vec<u8>>>, std::io::Cursor<Vec<u8>>);

impl std::io::Read for LaterLog {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(reader) = self.0.take() {
            self.1 = std::io::Cursor::new(reader.join().expect("the reader"));
        }
        self.1.read(buffer)
    }
}

/// A server process, killed when the test ends.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Stops it in order and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }

    /// Stops it in order and returns all that it logged.
    pub(crate) fn stop_and_read(&mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        self.child.wait().expect("it ends");
        said
    }

    /// What it logs, read while it runs so that it never waits for a reader.
    pub(crate) fn read_log(&mut self) -> impl std::io::Read + use<> {
        let mut errors = self.child.stderr.take().expect("a pipe");
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            errors.read_to_end(&mut said).expect("a readable pipe");
            said
        });
        LaterLog(Some(reader), std::io::Cursor::default())
    }

    /// Stops it in order.
    pub(crate) fn stop_in_order(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Lets its files grow as they like.
    pub(crate) fn lift_file_limit(&self) {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
        let most = getrlimit(Resource::Fsize).maximum;
        let pid = rustix::process::Pid::from_child(&self.child);
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: most, maximum: most }).expect("it runs");
    }

    /// The most memory that it ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory_of("VmHWM:")
    }

    /// The memory that it has now beside files, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_of("RssAnon:")
    }

    fn memory_of(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a number of bytes");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Kills it as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
