//! `read_artifact`: part of a long text of a run, or what a search finds in it.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    runs::{Interest, Item},
    view::RunView,
};
use drawloom_wire::runs::{self, ArtifactName, ArtifactPart};
use futures::StreamExt;
use regex::RegexBuilder;

use crate::operation::{Answer, Call, Card, Operation, Verb};

pub(super) struct ReadArtifact;

/// The most memory that a compiled pattern may take.
const PATTERN_SIZE: usize = 1024 * 1024;

impl Operation for ReadArtifact {
    type Input = runs::ReadArtifact;
    type Output = ArtifactPart;

    fn card(&self) -> Card {
        Card::new("read_artifact", "Read part of a long text of a run, or search it.", Scope::RunsRead)
            .rest(Verb::Get, "/v1/runs/{run_id}/artifact")
            .toolset("core")
            .read_only()
            .advice(
                "Use it when a result has an artifact in place of final_text: the text is long, and the outline says what \
                 is where. Read only what you need, by lines, by bytes, or with grep.",
            )
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ArtifactPart>, Failure> {
        let view = call.app.runs.load(call.caller, input.run_id).await?;
        let text = text(call, &view, input.name.unwrap_or_default()).await?;
        Ok(Answer::Value(input.read(&text, search)?))
    }
}

/// A text of a run, whole.
pub(crate) async fn text(call: &Call<'_>, view: &RunView, name: ArtifactName) -> Result<String, Failure> {
    match name {
        ArtifactName::FinalText => view.final_text.clone().ok_or_else(|| {
            let message = format!("run {} is {} and has no final_text", view.run, view.status.as_str());
            Failure::new(FailureKind::NotFound, "no_artifact", message)
                .with_hint("wait for its end with get_run and wait_ms, or read its journal")
        }),
        ArtifactName::Journal => journal(call, view).await,
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

/// Which lines match.
fn search(pattern: &str, text: &str) -> Result<Vec<bool>, Failure> {
    let pattern = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().map_err(|error| {
        Failure::new(FailureKind::Invalid, "bad_pattern", format!("grep is not a regular expression: {error}"))
            .with_hint("escape characters such as ( [ * + ? with a backslash to find them as they are")
    })?;
    Ok(text.lines().map(|line| pattern.is_match(line)).collect())
}
