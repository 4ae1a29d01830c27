//! A launcher for this crate's tests, and a stand-in for drawloom that a test can kill.

use std::{fs::File, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::time::{Clock, Timestamp};
use drawloom_process::{Access, Command, Confined, Input, Launcher, Limits, Network, Output, launcher};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let role = args.next().unwrap_or_default();
    match role.to_str() {
        Some("launch") => launcher::main(args),
        Some("parent") => parent(&args.map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>()),
        _ => ExitCode::from(2),
    }
}

/// Runs one command and waits for it: `parent DIRECTORY TEMPORARY MARK SCRIPT`.
#[tokio::main(flavor = "current_thread")]
async fn parent(args: &[String]) -> ExitCode {
    let [directory, temporary, mark, script] = args else { return ExitCode::from(2) };
    let command = Command {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.clone()],
        directory: Arc::new(File::open(directory).expect("the directory")),
        access: Access::ReadWrite,
        readable: vec![],
        writable: vec![],
        guarded: vec![],
        network: Network::None,
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("MARK".into(), mark.clone())],
        input: Input::Empty,
        output: Output::Together { most: 1024 },
        confined: Confined::Yes,
        home: None,
        temporary: PathBuf::from(temporary),
        limits: Limits::default(),
        time_limit: Duration::from_secs(60),
        grace: Duration::from_millis(200),
    };
    match Launcher::this_program(&["launch"]).run(&command, &Monotonic).await {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// A clock that begins with each sleep; that is all this needs.
struct Monotonic;

#[async_trait]
impl Clock for Monotonic {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        drawloom_contract::time::Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}
