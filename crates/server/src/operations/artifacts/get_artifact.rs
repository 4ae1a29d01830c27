//! `get_artifact`: a text that an agent wrote, whole; over REST as a file.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    view::RunView,
};
use drawloom_substrate::artifacts::Artifact;
use drawloom_wire::artifacts::{self, WholeArtifact};

use super::list_artifacts::{tree, written};
use crate::operation::{Answer, Call, Card, Download, Operation};

pub(crate) struct GetArtifact;

impl Operation for GetArtifact {
    type Input = artifacts::GetArtifact;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Download an artifact that an agent wrote.", Scope::RunsRead)
            .toolset("artifacts")
            .advice("Use it for a short artifact. read_artifact reads a long one in parts.")
            .download(|answer| {
                let text =
                    |at: &str| answer.pointer(at).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
                Download { media_type: text("/artifact/media_type"), name: text("/artifact/name"), text: text("/text") }
            })
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<WholeArtifact>, Failure> {
        let view = call.app.runs.glance(call.caller, input.run_id).await?;
        let Artifact { about, text } = find(call, &view, &input.name).await?;
        if let Some(most) = call.result_bytes.filter(|most| about.bytes > *most) {
            let message =
                format!("artifact {} has {} bytes; the limit for this response is {most}", about.name, about.bytes);
            return Err(Failure::new(FailureKind::TooLarge, "artifact_too_large", message)
                .with_hint("read it in parts with read_artifact"));
        }
        Ok(Answer::Value(WholeArtifact { artifact: written(about), text }))
    }
}

/// An artifact of the run's tree, or `no_artifact`.
pub(crate) async fn find(call: &Call<'_>, view: &RunView, name: &str) -> Result<Artifact, Failure> {
    let found = call.app.artifacts.find(&tree(view), name).await.map_err(|error| Failure::of(&error))?;
    found.ok_or_else(|| {
        let message = format!("unknown artifact {name:?} in the tree of run {}", view.run);
        Failure::new(FailureKind::NotFound, "no_artifact", message).with_hint("list_artifacts lists the artifacts")
    })
}
