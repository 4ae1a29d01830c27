//! One built-in tool on a directory, for benchmarks: what `bash` and `grep` share.

use std::{error::Error, fs::File, path::Path, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    ids::{RunId, RunKey, Tenant, UserId},
    redact::Redactor,
    time::{Clock, Timestamp},
    tool::{Holder, Mode, Place, Tool, ToolContext, ToolError, Volumes},
};
use drawloom_net::guarded::{SystemDialer, SystemResolver};
use drawloom_process::Launcher;
use drawloom_tools::{Config, Parts, builtin};

/// The directory as a volume.
struct Volume {
    root: Arc<File>,
    mode: Mode,
}

impl Volumes for Volume {
    fn locate(&self, _: Holder<'_>, _: Option<&str>, path: &str) -> Result<Place, ToolError> {
        let path = Path::new(path).components().filter(|part| part.as_os_str() != ".").collect();
        Ok(Place {
            volume: "bench".into(),
            root: self.root.clone(),
            mode: self.mode,
            guarded: Arc::default(),
            beside: Arc::default(),
            path,
        })
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

/// The built-in tool with this name. It keeps its own files in `place`.
pub(crate) fn tool(
    name: &str,
    config: Config,
    launcher: Launcher,
    place: &Path,
) -> Result<Arc<dyn Tool>, Box<dyn Error>> {
    let parts = Parts {
        config,
        launcher,
        temporary: place.join("temporary"),
        staged: place.join("staged"),
        skills: Default::default(),
        environment: Default::default(),
        clock: Arc::new(NoClock),
        resolve: Arc::new(SystemResolver),
        dial: Arc::new(SystemDialer),
    };
    let found = builtin(&parts).into_iter().find(|tool| tool.card().name == name);
    Ok(found.ok_or_else(|| format!("{name} is built in"))?)
}

/// The context of a first call on a directory.
pub(crate) fn context(directory: &Path, mode: Mode) -> Result<ToolContext, Box<dyn Error>> {
    Ok(ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([0; 16]) },
        call: 1,
        root: RunId::from_bytes([0; 16]),
        user: UserId::default_user(),
        depth: 0,
        definition: Arc::new(drawloom_testkit::definition("bench", "none", "none")),
        hosts: Arc::new([]),
        volumes: Arc::new(Volume { root: Arc::new(File::open(directory)?), mode }),
        redactor: Arc::new(Redactor::new([""; 0])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    })
}
