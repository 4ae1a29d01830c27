//! `read_artifact`: part of a long text of a run, or what a search finds in it.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::{Digest, Tenant},
    runs::{Interest, Item},
    time::Clock,
    view::RunView,
};
use drawloom_substrate::excerpt::{self, Place, Shape};
use drawloom_wire::runs::{self, ArtifactPart, FINAL_TEXT, JOURNAL};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    operation::{Answer, Call, Card, Operation, Parameter, Told},
    operations::artifacts::get_artifact,
};

pub(crate) struct ReadArtifact;

const PARAMETERS: &[Parameter] = &[
    Parameter::needs("run_id", "The run."),
    Parameter::takes(
        "name",
        "final_text (default) is the answer, journal everything that happened, or the name of an artifact.",
    ),
    Parameter::takes("from_line", "First line, from 1."),
    Parameter::takes("lines", "Maximum number of lines."),
    Parameter::takes("offset", "First byte, from 0: next_offset of the previous part."),
    Parameter::takes("max_bytes", "Maximum bytes (default 16384)."),
    Parameter::takes("grep", "Regular expression: only matching lines, with line numbers."),
    Parameter::takes("context", "Lines around each match."),
];

/// How long a search may take; it is looked at between lines.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Searches cost time, so of one tenant only so many run at once; the others wait for their turn.
pub(crate) const AT_ONCE: usize = 2;
/// How long one waits for its turn.
const TURN: Duration = Duration::from_secs(10);
static SEARCHES: LazyLock<Mutex<HashMap<Tenant, Arc<Semaphore>>>> = LazyLock::new(Mutex::default);

impl Operation for ReadArtifact {
    type Input = runs::ReadArtifact;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read part of a long text of a run, or search it.", Scope::RunsRead)
            .toolset("core")
            .told(Told::Part)
            .parameters(PARAMETERS)
            .advice("Use it when an answer came as an outline. Read only what you need: by lines, or with grep.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ArtifactPart>, Failure> {
        let view = call.app.runs.load(call.caller, input.run_id).await?;
        let text = text(call, view, input.name.as_deref().unwrap_or(FINAL_TEXT)).await?;
        let turn = match input.grep {
            Some(_) => Some(turn(call).await?),
            None => None,
        };
        let clock: Arc<dyn Clock> = call.app.clock.clone();
        let read = tokio::task::spawn_blocking(move || {
            // The turn ends with the work, not with whoever waits for it.
            let _turn = turn;
            read(&input, &text, &*clock)
        });
        match read.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(part) => part.map(Answer::Value),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => Err(Failure::new(FailureKind::Unavailable, "stopping", "the server is shutting down")),
        }
    }
}

/// A search's turn among those of its tenant.
async fn turn(call: &Call<'_>) -> Result<OwnedSemaphorePermit, Failure> {
    let searches = {
        let mut searches = SEARCHES.lock().unwrap_or_else(PoisonError::into_inner);
        searches.entry(call.caller.tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone()
    };
    let clock = &call.app.clock;
    tokio::select! {
        turn = searches.acquire_owned() => Ok(turn.expect("it is never closed")),
        () = clock.sleep_until(clock.now().after(TURN)) => {
            let message = format!("too many searches: {AT_ONCE} are running and others are waiting");
            Err(Failure::new(FailureKind::Throttled, "too_many_searches", message).with_hint("retry later"))
        }
    }
}

/// A text of a run, whole.
pub(crate) async fn text(call: &Call<'_>, view: RunView, name: &str) -> Result<String, Failure> {
    match name {
        FINAL_TEXT => view.final_text.ok_or_else(|| {
            let message = format!("run {} is {} and has no final_text", view.run, view.status.as_str());
            Failure::new(FailureKind::NotFound, "no_artifact", message)
                .with_hint("wait for it to end with get_run and wait_ms, or read its journal")
        }),
        JOURNAL => journal(call, &view).await,
        written => get_artifact::find(call, &view, written).await.map(|artifact| artifact.text),
    }
}

/// The records so far, one JSON object a line.
async fn journal(call: &Call<'_>, view: &RunView) -> Result<String, Failure> {
    let mut items = call.app.runs.follow(call.caller, view.run, 0, Interest::Events).await?;
    let mut text = String::new();
    while let Some(item) = items.next().await {
        match item? {
            Item::Record(record) => {
                text.push_str(&serde_json::to_string(&*record).expect("records have only text keys"));
                text.push('\n');
                if record.seq >= view.seq {
                    break;
                }
            }
            Item::Delta(_) | Item::Activity(_) => {}
            Item::Ended(_) => break,
        }
    }
    Ok(text)
}

/// What the input asks of `text`.
fn read(input: &runs::ReadArtifact, text: &str, clock: &dyn Clock) -> Result<ArtifactPart, Failure> {
    let mut part = ArtifactPart {
        run_id: input.run_id,
        name: input.name.clone().unwrap_or_else(|| FINAL_TEXT.to_owned()),
        bytes: text.len() as u64,
        lines: text.lines().count() as u64,
        sha256: Digest::of(text.as_bytes()).to_string(),
        text: String::new(),
        from_line: 1,
        next_offset: None,
        matches: None,
        truncated: false,
    };
    let refuse = |code, message: String| Failure::new(FailureKind::Invalid, code, message);
    match &input.grep {
        Some(pattern) => {
            let until = clock.now().after(PATIENCE);
            let hits = excerpt::search(pattern, text, || clock.now() > until)
                .map_err(|error| refuse("bad_pattern", error.to_string()).with_hint(error.hint()))?;
            let shape = Shape {
                context: input.context.unwrap_or(0) as usize,
                max_matches: input.most_matches() as usize,
                max_bytes: usize::try_from(input.most()).unwrap_or(usize::MAX),
            };
            let shown = excerpt::show(text, &hits, shape);
            part.matches = Some(hits.lines.len() as u64);
            (part.text, part.from_line, part.truncated) = (shown.text, shown.from_line, shown.truncated);
        }
        None => {
            let runs::ReadArtifact { from_line, offset, lines, .. } = *input;
            let place = Place { from_line, offset, lines, max_bytes: input.most() };
            let cut = excerpt::cut(text, place).map_err(|error| refuse("bad_range", error.to_string()))?;
            (part.text, part.from_line, part.next_offset) = (cut.text, cut.from_line, cut.next_offset);
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests;
