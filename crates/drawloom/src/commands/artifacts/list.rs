//! `drawloom artifacts list`: the artifacts of a run's tree, by name.

use clap::Args;
use drawloom_wire::artifacts::{ListArtifacts, WrittenArtifact};

use crate::{
    cli::{Look, Quiet},
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, bytes},
};

/// List the artifacts of a run and its child runs
#[derive(Debug, Args)]
pub struct List {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Show only names that start with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl List {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Self { run, prefix, ids, .. } = self;
        let found = connect::with(session, "artifacts list", Need::Journal, async |connection| {
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
        let (output, local) = (&session.output, session.local_time());
        match output.format() {
            Format::Json => output.json(&found),
            Format::Human if ids.quiet => output.ids(found.iter().map(|artifact| &artifact.name)),
            Format::Human if found.is_empty() => output.line("no artifacts"),
            Format::Human => output.table(
                [
                    Column::new("artifact").shrinks_to(16),
                    Column::new("size").right(),
                    Column::new("type").shrinks_to(8).optional(1),
                    Column::new("agent").shrinks_to(8),
                    Column::new(&format!("written {}", local.zone())),
                ],
                found.iter().map(|artifact| {
                    [
                        Text::new(artifact.name.clone()).style(Style::Bold),
                        Text::new(bytes(artifact.bytes)),
                        Text::new(artifact.media_type.clone()),
                        Text::new(artifact.agent.to_string()),
                        Text::new(local.brief_of(&artifact.at)),
                    ]
                }),
            ),
        }
        Ok(Exit::Done)
    }
}
