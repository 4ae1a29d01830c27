//! `Grep` as a program, so that a benchmark can run it beside ripgrep: `grep DIRECTORY INPUT`, INPUT being the tool's JSON.

use std::{error::Error, fs::File, io::Write, path::Path, sync::Arc};

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
        Ok(Place { volume: "bench".into(), root: self.0.clone(), mode: Mode::ReadOnly, guarded: Arc::default(), path })
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
    let mut args = std::env::args().skip(1);
    let (directory, input) = args.next().zip(args.next()).ok_or("usage: grep DIRECTORY INPUT")?;
    let parts = Parts {
        config: Config::default(),
        launcher: Launcher::this_program(&[]),
        temporary: std::env::temp_dir(),
        staged: std::env::temp_dir(),
        environment: Default::default(),
        clock: Arc::new(NoClock),
        resolve: Arc::new(SystemResolver),
        dial: Arc::new(SystemDialer),
    };
    let context = ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([0; 16]) },
        call: 1,
        depth: 0,
        definition: Arc::new(Definition::new("bench".parse()?, "none", "none")),
        hosts: Arc::new([]),
        volumes: Arc::new(Volume(Arc::new(File::open(directory)?))),
        redactor: Arc::new(Redactor::new([""; 0])),
        evidence: None,
    };
    let tools = builtin(&parts);
    let grep = tools.iter().find(|tool| tool.card().name == "Grep").ok_or("Grep is built in")?;
    match grep.call(&context, serde_json::from_str(&input)?).await? {
        Step::Done(text) => writeln!(std::io::stdout(), "{text}")?,
        Step::Wait(_) => return Err("Grep does not wait".into()),
    }
    Ok(())
}
