//! What `Bash` adds to a bare shell, for a benchmark: `bash DRAWLOOM DIRECTORY TIMES` prints two numbers for each time, the
//! microseconds of `sh -c true` and those of the same command as a tool call. DRAWLOOM is the program that launches commands.

use std::{
    error::Error,
    fs::File,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use async_trait::async_trait;
use drawloom_contract::{
    definition::Definition,
    ids::{RunId, RunKey, Tenant},
    redact::Redactor,
    time::{Clock, Timestamp},
    tool::{Mode, Place, Step, ToolContext, ToolError, Volumes},
};
use drawloom_net::guarded::{SystemDialer, SystemResolver};
use drawloom_process::Launcher;
use drawloom_tools::{Config, Parts, builtin};

/// The directory as a volume.
struct Volume(Arc<File>);

impl Volumes for Volume {
    fn locate(&self, _: &Definition, _: Option<&str>, path: &str) -> Result<Place, ToolError> {
        let path = Path::new(path).components().filter(|part| part.as_os_str() != ".").collect();
        Ok(Place { volume: "bench".into(), root: self.0.clone(), mode: Mode::ReadWrite, guarded: Arc::default(), path })
    }
}

/// Nothing here takes time from it.
struct NoClock;

#[async_trait]
impl Clock for NoClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        drawloom_contract::time::Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, _: drawloom_contract::time::Instant) {
        std::future::pending().await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, directory, times] = &args[..] else { return Err("usage: bash DRAWLOOM DIRECTORY TIMES".into()) };
    let mut config = Config::default();
    config.bash.enabled = true;
    let parts = Parts {
        config,
        launcher: Launcher::new(program, &["__launch"]),
        temporary: Path::new(directory).join("temporary"),
        staged: Path::new(directory).join("staged"),
        environment: Default::default(),
        clock: Arc::new(NoClock),
        resolve: Arc::new(SystemResolver),
        dial: Arc::new(SystemDialer),
    };
    std::fs::create_dir_all(&parts.temporary)?;
    let volume = Path::new(directory).join("volume");
    std::fs::create_dir_all(&volume)?;
    let mut context = ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([0; 16]) },
        call: 1,
        depth: 0,
        definition: Arc::new(Definition::new("bench".parse()?, "none", "none")),
        hosts: Arc::new([]),
        volumes: Arc::new(Volume(Arc::new(File::open(volume)?))),
        redactor: Arc::new(Redactor::new([""; 0])),
        evidence: None,
    };
    let tools = builtin(&parts);
    let bash = tools.iter().find(|tool| tool.card().name == "Bash").ok_or("Bash is built in")?;
    for _ in 0..times.parse()? {
        let began = Instant::now();
        Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).output()?;
        let bare = began.elapsed();
        context.call += 1;
        let began = Instant::now();
        match bash.call(&context, serde_json::json!({ "command": "true" })).await? {
            Step::Done(_) => {}
            Step::Wait(_) => return Err("Bash does not wait".into()),
        }
        writeln!(std::io::stdout(), "{} {}", bare.as_micros(), began.elapsed().as_micros())?;
    }
    Ok(())
}
