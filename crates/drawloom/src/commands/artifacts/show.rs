//! `drawloom artifacts show`: part of an artifact, or what a search finds in it.

use clap::Args;
use drawloom_wire::runs::{MAX_READ, ReadArtifact};

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Format, shown},
};

/// Show part of an artifact, or search it
#[derive(Debug, Args)]
pub struct Show {
    /// A run of the tree: its id, or its handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// The artifact's name; also `final_text` and `journal`
    #[arg(value_name = "NAME")]
    name: String,
    /// The first line to show, from 1
    #[arg(long, value_name = "LINE", conflicts_with = "grep")]
    from_line: Option<u64>,
    /// Show at most this many lines
    #[arg(long, value_name = "COUNT", conflicts_with = "grep")]
    lines: Option<u64>,
    /// Show only lines that match this regular expression, with their numbers
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
                output.write(&if output.is_terminal() { shown(&part.text) } else { part.text.clone() });
                if !part.text.is_empty() && !part.text.ends_with('\n') {
                    output.write("\n");
                }
                if part.truncated || (part.next_offset.is_some() && lines.is_none()) {
                    let whole = format!("{} of {} bytes are shown", part.text.len(), part.bytes);
                    output.note(format!("{whole}; `drawloom artifacts get` downloads the whole artifact"));
                }
            }
        }
        Ok(Exit::Done)
    }
}
