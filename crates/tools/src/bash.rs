//! `Bash`: runs a command inside a volume, behind walls, and leaves nothing behind.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    failure::Explain,
    time::Clock,
    tool::{Mode, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use drawloom_process::{Access, Command, End, Finished, Launcher, Limits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{builtin::Parts, config::BashConfig};

/// Most bytes of output that are kept.
const MOST_OUTPUT: usize = 1024 * 1024;

/// How long a command may take when the call does not say, in seconds.
const USUAL_SECONDS: u32 = 30;

/// How long processes have between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);

/// Where programs are looked for when the operator's environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) struct Bash {
    config: BashConfig,
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
        Self {
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
    /// How long it may take, in seconds; 30 when absent, at most what the operator allows (usually 300).
    #[schemars(range(min = 1))]
    timeout_seconds: Option<u32>,
    /// The volume to run in; the default one when absent.
    volume: Option<String>,
}

#[async_trait]
impl Tool for Bash {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Bash",
            "Run a command with /bin/sh in a volume and return what it prints, standard error included, and its exit code. \
             Only the volume and $TMPDIR can be changed; the network and local services are reached as this machine reaches \
             them. Everything that it starts ends with it, so nothing can be left \
             running. Of long output the beginning and the end are returned.",
        )
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Never
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let seconds = input.timeout_seconds.unwrap_or(USUAL_SECONDS.min(self.config.max_timeout_seconds));
        if seconds == 0 || seconds > self.config.max_timeout_seconds {
            return Err(ToolError::Invalid(format!(
                "timeout_seconds is {seconds}; at least 1 and at most {}",
                self.config.max_timeout_seconds
            )));
        }
        if input.command.trim().is_empty() {
            return Err(ToolError::Invalid("command is empty".into()));
        }
        let command = self.command(context, &input, seconds)?;
        let finished = self.launcher.run(&command, self.clock.as_ref()).await.map_err(|error| {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            ToolError::Failed(format!("{error}{hint}"))
        })?;
        Ok(Step::Done(said(finished, seconds)))
    }
}

impl Bash {
    fn command(&self, context: &ToolContext, input: &Input, seconds: u32) -> Result<Command, ToolError> {
        let place = context.volumes.locate(&context.definition, input.volume.as_deref(), ".")?;
        Ok(Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), input.command.clone()],
            directory: place.root,
            access: match place.mode {
                Mode::ReadOnly => Access::ReadOnly,
                Mode::ReadWrite => Access::ReadWrite,
            },
            readable: self.config.readable_paths.clone(),
            writable: self.config.writable_paths.clone(),
            environment: self.environment.clone(),
            // A call is made once, so the name is new.
            temporary: self.temporary.join(format!("bash-{}-{}", context.run.run, context.call)),
            limits: Limits {
                memory_bytes: self.config.max_memory_bytes,
                file_bytes: self.config.max_file_bytes,
                processes: self.config.max_processes,
                ..Limits::default()
            },
            time_limit: Duration::from_secs(seconds.into()),
            grace: GRACE,
            most_output: MOST_OUTPUT,
        })
    }
}

/// What the model is told: the output, then how it ended and all that is worth knowing.
fn said(finished: Finished, seconds: u32) -> String {
    let Finished { end, output, left, landlock, trouble } = finished;
    let mut text = output.into_text().replace('\0', "\u{fffd}");
    let lossy = text.contains('\u{fffd}');
    if text.is_empty() {
        text.push_str("[no output]");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut notices = vec![match end {
        End::Exited(code) => format!("[exit code {code}]"),
        End::Signalled(signal) => format!("[ended by signal {signal}]"),
        End::TimedOut => format!("[killed after {seconds} s: it took too long; ask for more with timeout_seconds]"),
        End::Lost => "[its supervisor was killed; how it ended is not known]".into(),
    }];
    if lossy {
        notices.push("[what is not text in the output is shown as \u{fffd}]".into());
    }
    match (left, end) {
        (0, _) | (_, End::TimedOut) => {}
        (1, _) => notices.push("[a process that it had left running was ended]".into()),
        (count, _) => notices.push(format!("[{count} processes that it had left running were ended]")),
    }
    notices.extend(landlock.notice().map(|notice| format!("[{notice}]")));
    notices.extend(trouble.map(|trouble| format!("[{trouble}]")));
    text + &notices.join("\n")
}
