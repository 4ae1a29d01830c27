//! A command that serves for long: it is talked to over pipes until it ends or is let go of.

use std::{
    collections::VecDeque,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::time::Clock;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    task::JoinHandle,
};

use crate::{
    command::{Error, LONGEST_ORDER, Launcher},
    launcher::SERVE,
    report::Report,
};

/// How many bytes of what it last said on standard error are kept.
const KEPT: usize = 4 * 1024;

/// How long the pipe of the errors is listened to once the launcher has ended.
const DRAIN: Duration = Duration::from_millis(200);

/// A command that serves. It runs with the operator's rights and without walls; only its environment is its own.
#[derive(Clone)]
pub struct Service {
    /// The program, by an absolute path or a name that its `PATH` finds.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The directory to run in; drawloom's own when absent.
    pub directory: Option<PathBuf>,
    /// The whole environment; nothing is inherited.
    pub environment: Vec<(String, String)>,
    /// How long it has to end by itself once its input has ended, and again between being asked and being killed.
    pub grace: Duration,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values of its environment may be secrets.
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Service").field("program", &self.program).field("environment", &names).finish_non_exhaustive()
    }
}

/// A service on its way to the launcher: one line of JSON on its input, so that the environment is not in a list of
/// processes.
#[derive(Serialize, Deserialize)]
pub(crate) struct ServiceOrder {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) grace_ms: u64,
}

/// A service that was started. When its input is dropped or closed, it and all that it started are ended; the same happens
/// when drawloom is killed.
#[derive(Debug)]
pub struct Serving {
    /// What is written here, the command reads.
    pub input: ChildStdin,
    /// What the command writes.
    pub output: ChildStdout,
    /// How it goes.
    pub watch: Watch,
}

/// The end of a service, and what it said on standard error.
#[derive(Debug)]
pub struct Watch {
    child: Child,
    group: Option<Pid>,
    words: Words,
    listener: JoinHandle<()>,
}

/// How a service ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Whether the program was started at all.
    pub started: bool,
    /// In words, such as `it exited with code 1`.
    pub how: String,
    /// The last that it said on standard error, shortened; empty when it said nothing.
    pub said: String,
}

impl Launcher {
    /// Starts `service`. Whether the program could be started shows in its end.
    pub async fn serve(&self, service: &Service) -> Result<Serving, Error> {
        let order = order(service)?;
        let mut child = tokio::process::Command::new(&self.program)
            .args(&self.args)
            .arg(SERVE)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: what a terminal sends to drawloom's is not meant for it.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Launcher { program: self.program.clone(), source })?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (mut input, output, errors) = match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(input), Some(output), Some(errors)) => (input, output, errors),
            _ => unreachable!("its pipes were asked for"),
        };
        input.write_all(&order).await.map_err(Error::Broken)?;
        let said = Arc::<Mutex<Tail>>::default();
        let listener = tokio::spawn(listen(errors, said.clone()));
        Ok(Serving { input, output, watch: Watch { child, group, words: Words(said), listener } })
    }
}

/// What a service last said on standard error.
#[derive(Debug)]
struct Words(Arc<Mutex<Tail>>);

impl Words {
    /// Reports of the launcher, and the command's own words, shortened.
    fn split(&self) -> (Vec<Report>, String) {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = tail.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = if tail.missing > 0 { whole(&text) } else { &text };
        let (mut reports, mut said) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match serde_json::from_str::<Report>(line) {
                Ok(report) => reports.push(report),
                Err(_) => said.push(line),
            }
        }
        let left_out = if tail.missing > 0 { "… " } else { "" };
        (reports, format!("{left_out}{}", said.join("\n").trim()))
    }
}

/// The text from its first whole line on, or its first whole word: a part of a secret would not be recognised.
fn whole(text: &str) -> &str {
    let at = text.find('\n').or_else(|| text.find(char::is_whitespace));
    at.map_or("", |at| &text[at..])
}

impl Watch {
    /// Waits for its end.
    pub async fn ended(&mut self, clock: &dyn Clock) -> Gone {
        let status = self.child.wait().await;
        // Had the launcher been killed, the command would still be there.
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // With the launcher all writers are gone, unless it was killed.
        tokio::select! {
            _ = &mut self.listener => {}
            () = clock.sleep_until(clock.now().after(DRAIN)) => {}
        }
        let (reports, said) = self.words.split();
        let refused = reports.into_iter().find_map(|report| match report {
            Report::Refused(reason) => Some(format!("it cannot be started ({reason})")),
            _ => None,
        });
        Gone {
            started: refused.is_none(),
            how: refused.unwrap_or_else(|| status.map_or_else(|error| error.to_string(), how)),
            said,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// The last bytes of something long.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    missing: u64,
}

async fn listen(mut errors: ChildStderr, said: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut tail = said.lock().unwrap_or_else(PoisonError::into_inner);
        tail.bytes.extend(&buffer[..count]);
        let over = tail.bytes.len().saturating_sub(KEPT);
        tail.bytes.drain(..over);
        tail.missing += over as u64;
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        // As a shell gives the code of a command that a signal ended.
        (Some(code @ 129..=192), _) => format!("it was killed by signal {}", code - 128),
        (Some(code), _) => format!("it exited with code {code}"),
        (None, Some(signal)) => format!("its supervisor was killed by signal {signal}"),
        (None, None) => "its exit status is unknown".into(),
    }
}

fn order(service: &Service) -> Result<Vec<u8>, Error> {
    let unsendable = |reason: String| Error::Unsendable { reason };
    if [&service.program].into_iter().chain(&service.args).any(|text| text.contains('\0')) {
        return Err(unsendable("the command contains a NUL byte".into()));
    }
    if let Some((name, _)) = service
        .environment
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['\0', '=']) || value.contains('\0'))
    {
        return Err(unsendable(format!("the environment variable {name:?} is not valid")));
    }
    let order = ServiceOrder {
        program: service.program.clone(),
        args: service.args.clone(),
        directory: service.directory.clone(),
        environment: service.environment.clone(),
        grace_ms: u64::try_from(service.grace.as_millis()).unwrap_or(u64::MAX),
    };
    let mut line = serde_json::to_vec(&order).map_err(|error| unsendable(error.to_string()))?;
    line.push(b'\n');
    match line.len() <= LONGEST_ORDER {
        true => Ok(line),
        false => Err(unsendable(format!("it has {} bytes; the limit is {LONGEST_ORDER}", line.len()))),
    }
}
