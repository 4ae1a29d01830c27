//! `cli_run`: one process of a coding CLI. Only the executor calls it.

mod order;

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    failure::Explain,
    ids::RunId,
    money::Cost,
    tool::{CallResult, MAX_RESULT_BYTES, Outlives, Over, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use drawloom_process::{End, Exceeded, Finished, Line, Remains, Resource, cut, until_gone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::Instrument as _;

use crate::{
    activity, directory,
    executor::Parts,
    input::Mode,
    known::{Cli, Clis},
    preset::{Ended, Reader},
    reply::{ProblemKind, Reply},
    seed,
    sessions::{self, Known},
    state,
};
use order::Order;
pub(crate) use order::find_program;

/// The tool's name.
pub(crate) const NAME: &str = "cli_run";

/// How long a resumed run waits for the end of a process that an earlier server started.
const OVER_WITHIN: Duration = Duration::from_secs(60);

/// How often the login of a running CLI is compared with the user's: a token that one of them renews ends that of the other.
const EXCHANGE_EVERY: Duration = Duration::from_secs(1);

/// Most bytes of an answer that are kept, so that the reply stays within what a call may answer.
const MOST_TEXT: usize = 700 * 1024;

/// What shells, interpreters and the C library say when the kernel refuses to start a process or thread.
const REFUSED: [&str; 5] = [
    "Resource temporarily unavailable",
    "EAGAIN",
    "annot fork",
    "can't start new thread",
    "failed to create new OS thread",
];

/// Maximum refused tool calls of a reply that is too long, and bytes of each.
const MAX_DENIALS: usize = 50;
const MAX_DENIAL: usize = 2 * 1024;

/// Makes one process of a CLI.
pub(crate) struct CliRun {
    pub(crate) parts: Parts,
    pub(crate) clis: Clis,
}

/// What the executor asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallInput {
    pub(crate) prompt: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) system: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_limit_seconds: Option<u32>,
    pub(crate) session: SessionPlan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_dir: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) environment: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) readable: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) writable: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) schema: Option<Value>,
}

/// Which session a call belongs to. `new` is the id of one that begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SessionPlan {
    New {
        new: String,
    },
    /// The run's own, which a call before began.
    Own {
        new: String,
    },
    /// That of another run of the same tree.
    Of {
        run: RunId,
        new: String,
    },
    /// The work goes on, but its session is gone.
    Fresh {
        new: String,
    },
}

/// The input as a model would be told; no model is.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Shown {
    prompt: String,
}

#[async_trait]
impl Tool for CliRun {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Shown>(NAME, "Run a coding CLI once.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Outlives(self)
    }

    fn most_cost(&self, context: &ToolContext, _: &Value) -> Option<Cost> {
        self.clis.find(&context.definition.provider).ok()?.max_cost()
    }

    fn conditions(&self, context: &ToolContext) -> Option<String> {
        match self.clis.find(&context.definition.provider).ok()?.is_confined() {
            true => Some(format!("{}; host network", self.parts.launcher.confinement().ok()?)),
            false => Some("unconfined".into()),
        }
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: CallInput = serde_json::from_value(input)?;
        let cli = self.clis.find(&context.definition.provider).map_err(|error| directory::refused(&error))?;
        let mut reply = self.run(context, cli, input).await?;
        // Before it is cut: a part of a secret would not be recognised. Each text alone, so that the reply stays JSON.
        context.redactor.mask(&mut reply.text);
        reply.text = cut(&reply.text, MOST_TEXT);
        for denial in &mut reply.permission_denials {
            context.redactor.mask(denial);
        }
        if let Some(problem) = &mut reply.problem {
            context.redactor.mask(&mut problem.message);
        }
        let (cost, usage) = (reply.cost, reply.usage);
        let text = within(reply)?;
        Ok(Step::Done(CallResult { text, cost, usage }))
    }
}

#[async_trait]
impl Outlives for CliRun {
    async fn until_over(&self, context: &ToolContext) -> Over {
        match until_gone(&self.temporary(context), OVER_WITHIN, self.parts.clock.as_ref()).await {
            Remains::Nothing => Over::Yes,
            Remains::Running => Over::NotWithin(OVER_WITHIN),
        }
    }
}

impl CliRun {
    /// A directory of this call alone: a call is made once, so the name is new.
    fn temporary(&self, context: &ToolContext) -> PathBuf {
        self.parts.temporary.join(format!("cli-{}-{}", context.run.run, context.call))
    }

    async fn run(&self, context: &ToolContext, cli: &Cli, input: CallInput) -> Result<Reply, ToolError> {
        let (preset, parts) = (cli.preset(), &self.parts);
        let Some(program) = find_program(cli.program(), &parts.environment) else {
            let message = format!(
                "{} is not installed: no program {:?} in PATH; install it, or set `program` of the CLI {:?}",
                preset.title(),
                cli.program(),
                cli.name
            );
            return Ok(Reply::failed(ProblemKind::NotInstalled, message));
        };
        if let Some(reason) = preset.missing_login(&parts.home, &parts.environment) {
            return Ok(Reply::failed(ProblemKind::NotLoggedIn, reason));
        }
        let tree = directory::of_tree(&parts.checkouts, context);
        // The session to continue may be in a copy that a call left which was cancelled or killed.
        match &input.session {
            SessionPlan::New { .. } => {
                let (copies, clock) = (parts.copies.clone(), parts.clock.clone());
                tokio::spawn(async move { state::recover(&copies, clock.as_ref()).await });
            }
            SessionPlan::Own { .. } | SessionPlan::Of { .. } | SessionPlan::Fresh { .. } => {
                state::recover(&parts.copies, parts.clock.as_ref()).await;
            }
        }
        let workplace = directory::find(context, input.directory.as_deref(), input.mode, &parts.checkouts)?;
        let (keeps_session, place) = (input.directory.is_some(), workplace.path.clone());
        let known = match &input.session {
            SessionPlan::New { .. } | SessionPlan::Fresh { .. } => None,
            SessionPlan::Own { .. } => sessions::find(&tree, context.run.run, &cli.name),
            SessionPlan::Of { run, .. } => sessions::find(&tree, *run, &cli.name),
        };
        let mut order = Order::make(self, context, cli, (&program, workplace), input, known.as_ref())?;
        let mut reader = preset.reader();
        let mut seen = known.clone().map(|known| known.session);
        let mut reported = None;
        let run = context.run.run;
        let private = order.private.take();
        let finished = {
            let mut follow = |line: Line| {
                reader.line(&line);
                if let Some(now) = reader.activity().filter(|now| reported.as_ref() != Some(*now)) {
                    context.progress.report(activity::relative(now, &place));
                    reported = Some(now.clone());
                }
                if reader.session().is_some() && reader.session() != seen.as_deref() {
                    seen = reader.session().map(str::to_owned);
                    let session = seen.clone().unwrap_or_default();
                    if let Some(Err(error)) = private.as_ref().map(|private| private.name_session(&session)) {
                        tracing::warn!(%run, %error, "cannot record the session of a coding CLI");
                    }
                    let reported = known.clone().unwrap_or_default().reported;
                    if let Err(error) =
                        sessions::remember(&tree, run, &Known { cli: cli.name.clone(), session, reported })
                    {
                        tracing::warn!(%run, %error, "cannot remember the session of a coding CLI");
                    }
                }
            };
            let span = tracing::debug_span!("cli", %run, call = context.call, cli = %cli.name);
            let process = parts.launcher.follow(&order.command, parts.clock.as_ref(), &mut follow).instrument(span);
            tokio::pin!(process);
            loop {
                tokio::select! {
                    finished = &mut process => break finished,
                    () = parts.clock.sleep_awake_until(parts.clock.awake().after(EXCHANGE_EVERY)) => {
                        if let Some(Err(error)) = private.as_ref().map(|private| private.exchange(parts.clock.as_ref())) {
                            tracing::warn!(%run, %error, "cannot compare the login of a coding CLI with the user's");
                        }
                    }
                }
            }
        };
        if let Some(Err(error)) = private.map(|private| private.finish(parts.clock.as_ref())) {
            tracing::warn!(%run, %error, "cannot bring back the state of a coding CLI; the next start tries again");
        }
        seed::make(parts, cli, &program).await;
        let seconds = order.command.time_limit.as_secs();
        order.remove_files();
        let finished = finished.map_err(|error| {
            // The program is there, so that what is missing is what its first line names.
            let hint = match error.to_string().ends_with("No such file or directory (os error 2)") {
                true => Some(
                    "the interpreter of the program is hidden from it; add its directory to readable_paths of the CLI"
                        .into(),
                ),
                false => error.hint(),
            };
            let hint = hint.map(|hint: String| format!("; {hint}")).unwrap_or_default();
            ToolError::Failed(format!("{}: {error}{hint}", error.code()))
        })?;
        if let Some(trouble) = &finished.trouble {
            tracing::warn!(%run, call = context.call, trouble, "cannot clean up after a coding CLI");
        }
        let mut reply = read(reader, (preset.title(), &cli.name), finished, (seconds, cli.limits().processes));
        if preset.reports_sums() {
            let before = known.as_ref().filter(|_| order.resumed).map(|known| known.reported).unwrap_or_default();
            let reported = reply.usage;
            reply.usage = sessions::since(reported, before);
            if let Some(session) = reply.session.clone().filter(|_| reported != before) {
                let _ = sessions::remember(&tree, run, &Known { cli: cli.name.clone(), session, reported });
            }
        }
        let goes_on = reply.problem.as_ref().map(|problem| problem.kind);
        let goes_on =
            matches!(goes_on, Some(ProblemKind::RateLimited | ProblemKind::Overloaded | ProblemKind::Crashed));
        if !keeps_session && !goes_on {
            sessions::forget(&tree, run);
        }
        Ok(reply)
    }
}

/// A reply as JSON that the journal keeps whole. Control characters take six bytes each there.
fn within(mut reply: Reply) -> Result<String, ToolError> {
    loop {
        let text = serde_json::to_string(&reply).map_err(|error| ToolError::Failed(error.to_string()))?;
        if text.len() <= MAX_RESULT_BYTES {
            return Ok(text);
        }
        reply.permission_denials.truncate(MAX_DENIALS);
        let most = reply.text.len() / 2;
        reply.text = cut(&reply.text, most);
        reply.permission_denials.iter_mut().for_each(|denial| *denial = cut(denial, most.min(MAX_DENIAL)));
        if let Some(problem) = &mut reply.problem {
            problem.message = cut(&problem.message, most.min(MOST_TEXT / 8));
        }
    }
}

/// What the process came to. `most` is how many processes and threads it could have.
fn read(
    reader: Box<dyn Reader>,
    (title, name): (&str, &str),
    finished: Finished,
    (seconds, most): (u64, Option<u64>),
) -> Reply {
    let Finished { end, output, errors, limited, peak, .. } = finished;
    let (output, errors) = (output.into_text(), errors.into_text());
    let refused = is_refused(&output) || is_refused(&errors);
    let end = match most.filter(|most| limited.is_none() && refused && peak > most / 2) {
        // The kernel refused further ones below the cap that it has beside the count.
        Some(most) => End::Exceeded(Exceeded { resource: Resource::Processes, used: peak, most }),
        None => end,
    };
    let ended = Ended { title, name, end, output: &output, errors: &errors, seconds };
    let mut reply = reader.finish(&ended);
    let Some(problem) = &mut reply.problem else { return reply };
    match (end, limited) {
        (End::TimedOut | End::Exceeded(_), _) => *problem = ended.problem(),
        // The kernel counted, and refused to start more.
        (_, Some(exceeded)) => *problem = Ended { end: End::Exceeded(exceeded), ..ended }.problem(),
        (_, None) if problem.kind == ProblemKind::Crashed && refused => {
            let most = most.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
            problem.message += &format!("; it was seen to have {peak} of {most} processes and threads");
        }
        (_, None) => {}
    }
    reply
}

/// Whether a text says that the kernel refused to start a process or thread.
fn is_refused(text: &str) -> bool {
    REFUSED.iter().any(|said| text.contains(said))
}

#[cfg(test)]
mod tests;
