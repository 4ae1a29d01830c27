//! `drawloom artifacts ls`: the artifacts of a run's tree, by name.

use clap::Args;
use drawloom_wire::artifacts::{ListArtifacts, WrittenArtifact};

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text},
};

/// List the artifacts of a run's tree
#[derive(Debug, Args)]
pub struct List {
    /// A run of the tree: its id, or its handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Only names that begin with this
    #[arg(long)]
    prefix: Option<String>,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl List {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Self { run, prefix, .. } = self;
        let found = connect::with(session, "artifacts ls", Need::Journal, async |connection| {
            let run = run.resolve(connection).await?;
            let mut request = ListArtifacts { prefix: prefix.clone(), ..ListArtifacts::new(run) };
            let mut all: Vec<WrittenArtifact> = Vec::new();
            loop {
                let page = connection.backend.call(&request).await?;
                all.extend(page.artifacts);
                match page.next {
                    Some(next) => request.after = Some(next),
                    None => return Ok(all),
                }
            }
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&found),
            Format::Human if found.is_empty() => output.line("the agents of this tree wrote no artifacts"),
            Format::Human => output.table(
                [
                    Column::new("artifact"),
                    Column::new("bytes"),
                    Column::new("type").optional(2),
                    Column::new("agent").optional(1),
                    Column::new("written at").optional(3),
                ],
                found.iter().map(|artifact| {
                    [
                        Text::new(artifact.name.clone()).style(Style::Bold),
                        Text::new(artifact.bytes.to_string()),
                        Text::new(artifact.media_type.clone()),
                        Text::new(artifact.agent.to_string()),
                        Text::new(artifact.at.clone()),
                    ]
                }),
            ),
        }
        Ok(Exit::Done)
    }
}
