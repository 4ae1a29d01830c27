//! `Bash`: runs a command inside a volume, confined as far as the machine can, and leaves nothing running.

mod outcome;
mod rules;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    failure::Explain,
    gate::COMMAND_VOLUMES,
    time::Clock,
    tool::{Gates, Mode, Outlives, Over, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use drawloom_process::{
    Access, Command, Confined, Input as Stdin, Launcher, Limits, ListedPath, Network, Output, Remains, guarded_in,
    until_gone,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tracing::Instrument as _;

use crate::{
    builtin::Parts,
    builtin::{BuiltIn, Switch},
    config::{BashConfig, BashNetwork},
    files,
};

/// Most bytes of output that are kept. With what is added about its end, it stays within what a tool may answer (1 MiB).
pub(crate) const MOST_OUTPUT: usize = 1024 * 1024 - 16 * 1024;

/// How long a resumed run waits for the end of a command that an earlier process started: longer than its launcher takes to
/// end it.
pub(crate) const OVER_WITHIN: Duration = Duration::from_secs(60);

/// How long a command may take when the call does not say, in seconds.
const USUAL_SECONDS: u32 = 30;

/// How long processes have between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);

/// The share of the machine's memory that a command may use when the config does not say.
pub(crate) const MEMORY_PERCENT: u64 = 75;

/// Where programs are looked for when the operator's environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) const BUILT_IN: BuiltIn = BuiltIn {
    outlives: Some(|parts| Arc::new(Bash::new(parts))),
    // Its card says what this machine can enforce, which is tried only where commands may run.
    ..BuiltIn::switched("Bash", SWITCH, |shared| Arc::new(Bash::new(shared.parts))).gated(COMMAND_VOLUMES)
};

const SWITCH: Switch = Switch { turn_on: "set tools.bash.enabled: true", is_on: |config| config.bash.enabled };

pub(crate) struct Bash {
    config: BashConfig,
    readable: Vec<ListedPath>,
    writable: Vec<ListedPath>,
    /// The folders of skills, by name.
    skills: BTreeMap<String, ListedPath>,
    launcher: Launcher,
    temporary: PathBuf,
    environment: Vec<(String, String)>,
    clock: Arc<dyn Clock>,
}

impl Bash {
    pub(crate) fn new(parts: &Parts) -> Self {
        let named = parts.config.bash.env.iter().map(String::as_str).chain(["PATH", "LANG"]);
        let mut environment: Vec<(String, String)> =
            named.filter_map(|name| Some((name.to_owned(), parts.environment.get(name)?.clone()))).collect();
        for (name, usual) in [("PATH", USUAL_PATH), ("LANG", "C.UTF-8")] {
            if !environment.iter().any(|(given, _)| given == name) {
                environment.push((name.into(), usual.into()));
            }
        }
        let resolve = |paths: &[PathBuf]| paths.iter().cloned().map(ListedPath::resolve).collect();
        Self {
            readable: resolve(&parts.config.bash.readable_paths),
            writable: resolve(&parts.config.bash.writable_paths),
            skills: parts.skills.iter().map(|(name, path)| (name.clone(), ListedPath::resolve(path.clone()))).collect(),
            config: parts.config.bash.clone(),
            launcher: parts.launcher.clone(),
            temporary: parts.temporary.clone(),
            environment,
            clock: parts.clock.clone(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command, for /bin/sh. It starts in the volume's root, with empty standard input.
    command: String,
    /// Timeout in seconds; default 30, up to the configured maximum (usually 300).
    #[schemars(range(min = 1))]
    timeout_seconds: Option<u32>,
    /// The volume to run in; defaults to the default volume.
    volume: Option<String>,
}

#[async_trait]
impl Tool for Bash {
    fn card(&self) -> ToolCard {
        let network = match self.config.network {
            BashNetwork::None => "It has no network access, only its own loopback interface.",
            BashNetwork::Host => "It has network access only if this agent's `hosts` is [\"*\"].",
        };
        let lost = self.launcher.confinement().map_or_else(|error| vec![error.to_string()], |found| found.lost());
        let lost = if lost.is_empty() { String::new() } else { format!(" On this machine: {}.", lost.join("; ")) };
        let description = format!(
            "Run a command with /bin/sh in a volume and return its output (stdout and stderr) and exit code; a \
             nonzero code counts as an error. Only the volume, $TMPDIR and /tmp are writable. {network} All \
             its processes are killed when it ends, so nothing can be left running. Long output is truncated \
             in the middle.{lost}"
        );
        ToolCard::new::<Input>("Bash", &description)
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        files::card_for(card, gates, &COMMAND_VOLUMES)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Outlives(self)
    }

    fn conditions(&self, context: &ToolContext) -> Option<String> {
        let confinement = self.launcher.confinement().ok()?;
        let network = match self.network(context) {
            Network::None => "no network",
            Network::Host => "host network",
        };
        Some(format!("{confinement}; {network}"))
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let seconds = input.timeout_seconds.unwrap_or(USUAL_SECONDS.min(self.config.max_timeout_seconds));
        if seconds == 0 || seconds > self.config.max_timeout_seconds {
            return Err(ToolError::Invalid(format!(
                "timeout_seconds must be 1 to {}, not {seconds}",
                self.config.max_timeout_seconds
            )));
        }
        if input.command.trim().is_empty() {
            return Err(ToolError::Invalid("command is empty".into()));
        }
        let command = self.command(context, &input, seconds)?;
        let span = tracing::debug_span!("command", run = %context.run.run, call = context.call, seconds);
        let finished =
            self.launcher.run(&command, self.clock.as_ref()).instrument(span.clone()).await.map_err(|error| {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                ToolError::Failed(format!("{error}{hint}"))
            })?;
        tracing::debug!(parent: &span, end = ?finished.end, left = finished.left, "command ended");
        if let Some(trouble) = &finished.trouble {
            tracing::warn!(run = %context.run.run, call = context.call, trouble, "cannot clean up after a command");
        }
        outcome::of(finished, &command, seconds).map(Step::done)
    }
}

#[async_trait]
impl Outlives for Bash {
    async fn until_over(&self, context: &ToolContext) -> Over {
        match until_gone(&self.temporary(context), OVER_WITHIN, self.clock.as_ref()).await {
            Remains::Nothing => Over::Yes,
            Remains::Running => Over::NotWithin(OVER_WITHIN),
        }
    }
}

impl Bash {
    /// A directory of this call alone: a call is made once, so the name is new.
    fn temporary(&self, context: &ToolContext) -> PathBuf {
        self.temporary.join(format!("bash-{}-{}", context.run.run, context.call))
    }

    /// The machine's network needs `network: host` and an agent that may reach every host: names cannot be checked.
    fn network(&self, context: &ToolContext) -> Network {
        match self.config.network {
            BashNetwork::Host if context.hosts.iter().any(|host| host == "*") => Network::Host,
            BashNetwork::Host | BashNetwork::None => Network::None,
        }
    }

    fn command(&self, context: &ToolContext, input: &Input, seconds: u32) -> Result<Command, ToolError> {
        let place = context.volumes.locate(context.holder(), input.volume.as_deref(), ".")?;
        let listed = |paths: &[PathBuf]| paths.iter().cloned().map(ListedPath::resolve).collect::<Vec<_>>();
        let readable = [self.readable(context), listed(&place.beside.readable)].concat();
        let writable = [self.writable.clone(), listed(&place.beside.writable)].concat();
        let used: Vec<&Path> = readable.iter().chain(&writable).map(|listed| listed.real().as_path()).collect();
        let guarded = guarded_in(&place, &used)
            .map_err(|error| ToolError::Failed(format!("cannot find the volume's path: {error}")))?;
        Ok(Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), input.command.clone()],
            directory: place.root,
            access: match place.mode {
                Mode::ReadOnly => Access::ReadOnly,
                Mode::ReadWrite => Access::ReadWrite,
            },
            readable,
            writable,
            guarded,
            network: self.network(context),
            environment: [&self.environment[..], &place.beside.environment].concat(),
            input: Stdin::Empty,
            output: Output::Together { most: MOST_OUTPUT },
            confined: Confined::Yes,
            home: None,
            temporary: self.temporary(context),
            limits: Limits {
                memory_bytes: Some(self.config.max_memory_bytes.unwrap_or_else(usual_memory)),
                file_bytes: self.config.max_file_bytes,
                processes: Some(self.config.max_processes),
                disk_bytes: Some(self.config.max_disk_bytes),
            },
            time_limit: Duration::from_secs(seconds.into()),
            grace: GRACE,
        })
    }

    /// What the operator lists, and the folders of the skills that the agent may load. One that is gone is left out: the tool
    /// `Skill` says so.
    fn readable(&self, context: &ToolContext) -> Vec<ListedPath> {
        let skills = context.definition.skills.keys().filter_map(|name| self.skills.get(name));
        let skills = skills.filter(|folder| folder.real().is_dir());
        self.readable.iter().chain(skills).cloned().collect()
    }
}

/// The usual limit on a command's memory, in bytes.
fn usual_memory() -> u64 {
    let memory = rustix::system::sysinfo();
    u64::from(memory.mem_unit) * (memory.totalram as u64) / 100 * MEMORY_PERCENT
}
