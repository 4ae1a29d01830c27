//! `drawloom artifacts show`: part of an artifact, or what a search finds in it.

use clap::Args;
use drawloom_wire::runs::{MAX_READ, ReadArtifact};

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Show or search an artifact
#[derive(Debug, Args)]
pub struct Show {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Artifact name, or `final_text` or `journal`
    #[arg(value_name = "NAME")]
    name: String,
    /// Start at this line; the first is 1
    #[arg(long, value_name = "LINE", conflicts_with = "grep")]
    from_line: Option<u64>,
    /// Show at most this many lines
    #[arg(long, value_name = "COUNT", conflicts_with = "grep")]
    lines: Option<u64>,
    /// Show only lines that match this regular expression, with line numbers
    #[arg(long, value_name = "PATTERN")]
    grep: Option<String>,
    /// Show this many lines around each match
    #[arg(long, value_name = "COUNT", requires = "grep")]
    context: Option<u32>,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Show {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let Self { run, name, from_line, lines, grep, context, .. } = self;
        let part = connect::with(session, "artifacts show", Need::Journal, async |connection| {
            let run = run.resolve(connection).await?;
            let request = ReadArtifact {
                name: Some(name.clone()),
                from_line,
                lines,
                grep: grep.clone(),
                context,
                max_bytes: Some(MAX_READ),
                ..ReadArtifact::new(run)
            };
            connection.backend.call(&request).await
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&part),
            Format::Human => {
                // A terminal would obey what an agent wrote.
                output.content(&part.text);
                if !part.text.is_empty() && !part.text.ends_with('\n') {
                    output.write("\n");
                }
                if part.truncated || (part.next_offset.is_some() && lines.is_none()) {
                    let whole = format!("showing {} of {} bytes", part.text.len(), part.bytes);
                    output.note(format!("{whole}; `drawloom artifacts get` downloads all of it"));
                }
            }
        }
        Ok(Exit::Done)
    }
}
