//! `list_artifacts`: what the agents of a run's tree wrote.

use drawloom_contract::{caller::Scope, failure::Failure, ids::RunKey, view::RunView};
use drawloom_substrate::artifacts::About;
use drawloom_wire::artifacts::{self, ArtifactPage, ReplacedArtifact, WrittenArtifact};

use crate::{
    operation::{Answer, Call, Card, Operation},
    operations::fitting,
};

pub(crate) struct ListArtifacts;

impl Operation for ListArtifacts {
    type Input = artifacts::ListArtifacts;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List the artifacts of a run and its child runs.", Scope::RunsRead)
            .toolset("artifacts")
            .advice("Use it when an answer names an artifact, or to see what the runs wrote. read_artifact reads one in parts.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ArtifactPage>, Failure> {
        let view = call.app.runs.glance(call.caller, input.run_id).await?;
        let (size, prefix) = (input.page_size() as usize, input.prefix.as_deref().unwrap_or_default());
        let limit = input.page_size().saturating_add(1);
        let found = call.app.artifacts.list(&tree(&view), prefix, input.after.as_deref(), limit).await;
        let mut rows: Vec<WrittenArtifact> =
            found.map_err(|error| Failure::of(&error))?.into_iter().map(written).collect();
        let fits = call.result_bytes.map_or(rows.len(), |most| fitting(rows.iter(), most));
        let more = rows.len() > size.min(fits);
        rows.truncate(size.min(fits));
        let next = rows.last().filter(|_| more).map(|row| row.name.clone());
        Ok(Answer::Value(ArtifactPage { artifacts: rows, next }))
    }
}

/// The tree that a run is part of.
pub(crate) fn tree(view: &RunView) -> RunKey {
    RunKey { tenant: view.tenant.clone(), run: view.root }
}

pub(crate) fn written(about: About) -> WrittenArtifact {
    WrittenArtifact {
        name: about.name,
        media_type: about.media_type,
        bytes: about.bytes,
        lines: about.lines,
        sha256: about.sha256.to_string(),
        run_id: about.run_id,
        agent: about.agent,
        call: about.call,
        at: about.at.to_rfc3339(),
        replaced: about
            .replaced
            .map(|replaced| ReplacedArtifact { sha256: replaced.sha256.to_string(), run_id: replaced.run_id }),
    }
}
