//! `read_artifact`: part of a long text of a run, or what a search finds in it.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::Tenant,
    runs::{Interest, Item},
    time::Clock,
    view::RunView,
};
use drawloom_wire::runs::{self, ArtifactName, ArtifactPart, Hits};
use futures::StreamExt;
use regex::RegexBuilder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct ReadArtifact;

/// The most bytes of a compiled pattern: a few `\w`, which are large, and far from what takes minutes.
pub(crate) const PATTERN_SIZE: usize = 256 * 1024;
/// The most bytes of what a search remembers while it runs.
const MEMORY: usize = 1024 * 1024;
/// How much of a line is searched.
pub(crate) const LINE: usize = 64 * 1024;
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
            .advice(
                "Use it when a result has an artifact in place of final_text: the text is long, and the outline says what \
                 is where. Read only what you need, by lines, by bytes, or with grep.",
            )
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ArtifactPart>, Failure> {
        let view = call.app.runs.load(call.caller, input.run_id).await?;
        let text = text(call, view, input.name.unwrap_or_default()).await?;
        let turn = match input.grep {
            Some(_) => Some(turn(call).await?),
            None => None,
        };
        let clock: Arc<dyn Clock> = call.app.clock.clone();
        let read = tokio::task::spawn_blocking(move || {
            // The turn ends with the work, not with whoever waits for it.
            let _turn = turn;
            input.read(&text, |pattern, text| search(pattern, text, &*clock))
        });
        match read.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(part) => part.map(Answer::Value),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => Err(Failure::new(FailureKind::Unavailable, "stopping", "the server is stopping")),
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
            let message = format!("{AT_ONCE} searches run already, and others wait");
            Err(Failure::new(FailureKind::Throttled, "too_many_searches", message).with_hint("search again later"))
        }
    }
}

/// A text of a run, whole.
pub(crate) async fn text(call: &Call<'_>, view: RunView, name: ArtifactName) -> Result<String, Failure> {
    match name {
        ArtifactName::FinalText => view.final_text.ok_or_else(|| {
            let message = format!("run {} is {} and has no final_text", view.run, view.status.as_str());
            Failure::new(FailureKind::NotFound, "no_artifact", message)
                .with_hint("wait for its end with get_run and wait_ms, or read its journal")
        }),
        ArtifactName::Journal => journal(call, &view).await,
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
            Item::Delta(_) => {}
            Item::Ended(_) => break,
        }
    }
    Ok(text)
}

/// Which lines match, as far as there is time to look.
fn search(pattern: &str, text: &str, clock: &dyn Clock) -> Result<Hits, Failure> {
    let until = clock.now().after(PATIENCE);
    let pattern =
        RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).dfa_size_limit(MEMORY).build().map_err(|error| {
            let (problem, hint) = match &error {
                regex::Error::CompiledTooBig(_) => (
                    "grep is too large a regular expression".to_owned(),
                    "repeat less, and use [a-z] in place of \\w: it knows every alphabet and is large",
                ),
                error => (
                    format!("grep is not a regular expression: {error}"),
                    "escape characters such as ( [ * + ? with a backslash to find them as they are",
                ),
            };
            Failure::new(FailureKind::Invalid, "bad_pattern", problem).with_hint(hint)
        })?;
    let mut hits = Hits::default();
    for (at, line) in text.lines().enumerate() {
        if clock.now() > until {
            hits.cut = true;
            break;
        }
        let looked_at = &line[..line.floor_char_boundary(LINE)];
        if pattern.is_match(looked_at) {
            hits.lines.push(at);
        } else if looked_at.len() < line.len() {
            hits.cut = true;
        }
    }
    Ok(hits)
}

#[cfg(test)]
mod tests;
