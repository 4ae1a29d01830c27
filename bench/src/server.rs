//! Processes under measurement: built, started, asked for their counters, and ended.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::http;

const CONFIG: &str = include_str!("../bench.yaml");
const CHANNELS: &str = include_str!("../channels.yaml");
/// One agent that asks a model over HTTP.
const ASKING: &str = "\
providers:
  local: { driver: anthropic, base_url: 'http://ADDRESS' }
agents:
  asking: { provider: local, model: MODEL, tools: [], agents: [], volumes: [] }
concurrency: { max_concurrent_runs: 50000, max_queue_depth: 50000 }
";
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
/// How long the load of a server may take to become what a measurement wants.
const PATIENCE: Duration = Duration::from_secs(50);

/// What all measurements share: the binaries, and a directory on the disk that holds the build.
pub(crate) struct Bench {
    drawloom: PathBuf,
    bench: PathBuf,
    config: PathBuf,
    scratch: TempDir,
}

impl Bench {
    /// The server's program.
    pub(crate) fn program(&self) -> &Path {
        &self.drawloom
    }

    /// Builds the server unless one is given, and makes room beside the build: `/tmp` may be memory, where a sync costs
    /// nothing.
    pub(crate) fn prepare(server: Option<&Path>) -> Result<Self> {
        let bench = std::env::current_exe()?;
        let profile = bench.parent().context("a program is in a directory")?;
        let drawloom = match server {
            Some(path) => std::path::absolute(path)?,
            None => {
                let built = Command::new("cargo")
                    .args(["build", "--release", "--package", "drawloom", "--manifest-path", WORKSPACE])
                    .status()
                    .context("cannot start cargo; give a built server with --server")?;
                ensure!(built.success(), "drawloom does not build; its errors are above");
                profile.with_file_name("release").join("drawloom")
            }
        };
        ensure!(drawloom.is_file(), "there is no server at {}; give one with --server", drawloom.display());
        let room = profile.with_file_name("bench-tmp");
        fs::create_dir_all(&room)?;
        let scratch = TempDir::new_in(&room)?;
        let config = scratch.path().join("bench.yaml");
        fs::write(&config, CONFIG)?;
        Ok(Self { drawloom, bench, config, scratch })
    }

    /// A new directory that goes when it is dropped.
    pub(crate) fn directory(&self) -> Result<TempDir> {
        Ok(TempDir::new_in(self.scratch.path())?)
    }

    /// Starts Drawloom on a data directory.
    pub(crate) fn start(&self, data: &Path) -> Result<Server> {
        self.start_on(&self.drawloom, data, &[&self.config])
    }

    /// Starts Drawloom on a data directory with quotas of memory that 100,000 entries fit into. Earlier versions do not know the key.
    pub(crate) fn start_with_quotas(&self, data: &Path) -> Result<Server> {
        let quotas = self.scratch.path().join("quotas.yaml");
        fs::write(&quotas, "memory: { max_keys: 1000000, max_bytes: 1073741824 }\n")?;
        self.start_on(&self.drawloom, data, &[&self.config, &quotas])
    }

    /// Starts Drawloom, or another build of it, on a data directory with channels. Earlier versions do not know the key.
    pub(crate) fn start_with_channels(&self, program: &Path, data: &Path) -> Result<Server> {
        let channels = self.scratch.path().join("channels.yaml");
        fs::write(&channels, CHANNELS)?;
        self.start_on(program, data, &[&self.config, &channels])
    }

    fn start_on(&self, program: &Path, data: &Path, configs: &[&Path]) -> Result<Server> {
        let mut command = Command::new(program);
        command.arg("serve").arg("--data-dir").arg(data).args(["--listen", "127.0.0.1:0"]);
        for config in configs {
            command.arg("--config").arg(config);
        }
        Server::start(&mut command)
    }

    /// Starts Drawloom with an agent `asking` that asks a model at an address.
    pub(crate) fn start_with_model(&self, data: &Path, model: SocketAddr, name: &str) -> Result<Server> {
        let mut command = Command::new(&self.drawloom);
        command.arg("serve").arg("--config").arg(self.config_with_model(model, name)?).arg("--data-dir").arg(data);
        Server::start(command.args(["--listen", "127.0.0.1:0"]))
    }

    /// A config with an agent `asking` that asks a model at an address.
    pub(crate) fn config_with_model(&self, model: SocketAddr, name: &str) -> Result<PathBuf> {
        let path = self.scratch.path().join("asking.yaml");
        fs::write(&path, ASKING.replace("ADDRESS", &model.to_string()).replace("MODEL", name))?;
        Ok(path)
    }

    /// The config of the scripted models.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// The program.
    pub(crate) fn drawloom(&self) -> &Path {
        &self.drawloom
    }

    /// Starts the model.
    pub(crate) fn start_model(&self) -> Result<Server> {
        Server::start(Command::new(&self.bench).arg("model-server"))
    }

    /// Starts the floor on a directory; with a model, each run asks it once.
    pub(crate) fn start_floor(&self, directory: &Path, model: Option<SocketAddr>) -> Result<Server> {
        let mut command = Command::new(&self.bench);
        command.arg("floor-server").arg(directory);
        if let Some(model) = model {
            command.arg("--model").arg(model.to_string());
        }
        Server::start(&mut command)
    }
}

/// A server that runs; it is killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Held open, since a server that prints into a closed pipe fails.
    _output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// Just before the process was made.
    pub(crate) spawned: Instant,
}

impl Server {
    /// Starts a process and waits for the line in which it says where it listens.
    fn start(command: &mut Command) -> Result<Self> {
        let spawned = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut output = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        match line.split_once("http://").map(|(_, address)| address.trim().parse()) {
            Some(Ok(address)) => Ok(Self { child, _output: output, address, spawned }),
            _ => {
                _ = child.kill();
                child.wait()?;
                bail!("the server did not say where it listens but {line:?}; see why with {command:?}")
            }
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as an operator would, and waits until it is gone.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Its counters of the journal.
    pub(crate) async fn journal(&self) -> Result<Journal> {
        let text = String::from_utf8(http::fetch(self.address, "/metrics").await?)?;
        let counter = |name: &str| -> Result<u64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            Ok(value.with_context(|| format!("/metrics has no {name}"))?.parse()?)
        };
        Ok(Journal { records: counter("drawloom_store_records_total")?, syncs: counter("drawloom_store_syncs_total")? })
    }

    /// Asks for the load until it is as wanted; (active, queued) are what is looked at.
    pub(crate) async fn wait_for_load(&self, wanted: impl Fn(u64, u64) -> bool) -> Result<()> {
        let begun = Instant::now();
        let mut connection = http::Connection::open(self.address).await?;
        let request = http::get("/v1/_concurrency/stats");
        loop {
            let answer = connection.exchange(&request).await?;
            let body = http::find(answer, b"\r\n\r\n").context("an answer has a head")? + 4;
            let load: Value = serde_json::from_slice(&answer[body..])?;
            let count = |name: &str| load[name].as_u64().with_context(|| format!("the load has no {name}: {load}"));
            if wanted(count("active")?, count("queued")?) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "after {PATIENCE:?} the load is still not as wanted: {load}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; either way it must be reaped.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Counters of a journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journal {
    pub(crate) records: u64,
    pub(crate) syncs: u64,
}
