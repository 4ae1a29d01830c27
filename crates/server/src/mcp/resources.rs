//! Runs as resources: what an agent answered, and its journal.

use std::str::FromStr;

use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::RunId,
    journal::RunFilter,
    record::Status,
    runs::Interest,
};
use drawloom_wire::runs::{FINAL_TEXT, JOURNAL};
use rmcp::{
    ErrorData,
    model::{ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};

use crate::{mcp::table::Ask, operation::Call, operations::runs::read_artifact};

/// How many runs a list shows.
const LISTED: u32 = 50;
/// The most bytes of one read; the rest is for `read_artifact`.
pub(super) const MOST: usize = 1024 * 1024;

/// A text of a run, as a resource.
struct RunText {
    run: RunId,
    name: &'static str,
}

impl FromStr for RunText {
    type Err = ();

    fn from_str(uri: &str) -> Result<Self, ()> {
        let rest = uri.strip_prefix("drawloom://runs/").ok_or(())?;
        let (run, name) = rest.split_once('/').ok_or(())?;
        let name = match name {
            FINAL_TEXT => FINAL_TEXT,
            JOURNAL => JOURNAL,
            _ => return Err(()),
        };
        Ok(Self { run: run.parse().map_err(|_| ())?, name })
    }
}

/// The newest runs, each with its answer (once it has one) and its journal.
pub(super) async fn list(ask: &Ask) -> Result<Vec<Resource>, ErrorData> {
    let filter = RunFilter { limit: LISTED, ..RunFilter::default() };
    let views = ask.app.runs.list(&ask.view.caller, filter).await.map_err(|failure| explain(&failure))?;
    let mut resources = Vec::new();
    for view in views {
        let (run, agent, status) = (view.run, &view.agent, view.status.as_str());
        if view.status == Status::Completed {
            resources.push(
                Resource::new(format!("drawloom://runs/{run}/final_text"), format!("{run} final_text"))
                    .with_title(format!("What {agent} answered"))
                    .with_description(format!("The answer of run {run} ({status})."))
                    .with_mime_type("text/plain"),
            );
        }
        resources.push(
            Resource::new(format!("drawloom://runs/{run}/journal"), format!("{run} journal"))
                .with_title(format!("What {agent} did"))
                .with_description(format!("Every record of run {run} ({status}), one JSON object a line."))
                .with_mime_type("application/jsonl"),
        );
    }
    Ok(resources)
}

/// The two shapes.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new("drawloom://runs/{run_id}/final_text", "final_text")
            .with_title("What an agent answered")
            .with_description("The text of a run's last turn.")
            .with_mime_type("text/plain"),
        ResourceTemplate::new("drawloom://runs/{run_id}/journal", "journal")
            .with_title("What an agent did")
            .with_description("Every record of a run, one JSON object a line.")
            .with_mime_type("application/jsonl"),
    ]
}

/// A resource's text; nothing, when it is not one of ours.
pub(super) async fn read(ask: &Ask, uri: &str) -> Option<Result<ReadResourceResponse, ErrorData>> {
    let named: RunText = uri.parse().ok()?;
    Some(text(ask, uri, &named).await.map_err(|failure| explain(&failure)))
}

async fn text(ask: &Ask, uri: &str, named: &RunText) -> Result<ReadResourceResponse, Failure> {
    let view = ask.app.runs.load(&ask.view.caller, named.run).await?;
    let call = Call { app: &ask.app, caller: &ask.view.caller, interest: Interest::None, result_bytes: None };
    let mut text = read_artifact::text(&call, view, named.name).await?;
    if text.len() > MOST {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(MOST));
        text.push_str(&format!("\n[{} of {whole} bytes left out: read_artifact gives the rest]\n", whole - text.len()));
    }
    let kind = match named.name {
        JOURNAL => "application/jsonl",
        _ => "text/plain",
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(kind);
    Ok(ReadResourceResult::new(vec![contents]).into())
}

/// Whether the caller sees the run of a resource.
pub(super) async fn find(ask: &Ask, uri: &str) -> Option<Result<(), ErrorData>> {
    let named: RunText = uri.parse().ok()?;
    let seen = ask.app.runs.glance(&ask.view.caller, named.run).await;
    Some(seen.map(|_| ()).map_err(|failure| explain(&failure)))
}

/// Returns when the run has ended: from then on its texts do not change.
pub(super) async fn changed(ask: &Ask, uri: &str) -> Option<Result<(), ErrorData>> {
    let named: RunText = uri.parse().ok()?;
    let waited = ask.app.runs.wait(&ask.view.caller, named.run, None).await;
    Some(waited.map(|_| ()).map_err(|failure| explain(&failure)))
}

fn explain(failure: &Failure) -> ErrorData {
    match failure.kind {
        FailureKind::NotFound => ErrorData::resource_not_found(failure.message.clone(), None),
        FailureKind::Bug => ErrorData::internal_error("something went wrong on our side", None),
        _ => ErrorData::internal_error(failure.message.clone(), None),
    }
}
