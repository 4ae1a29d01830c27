//! `drawloom replay`: a run's journal, folded again; no model and no tool is called.

use clap::Args;
use drawloom_wire::runs::ReplayRun;

use crate::{
    cli::Look,
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text},
};

/// Re-run recorded decisions offline and report differences
///
/// No model and no tool is called.
#[derive(Debug, Args)]
pub struct Replay {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN")]
    run: Handle,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Replay {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let replay = connect::with(session, "replay", Need::Journal, async |connection| {
            let run = self.run.resolve(connection).await?;
            connection.backend.call(&ReplayRun { run_id: run }).await
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&replay),
            Format::Human => {
                output.table(
                    [
                        Column::new("record").right(),
                        Column::new("recorded").shrinks_to(12),
                        Column::new("now").shrinks_to(12),
                    ],
                    replay.steps.iter().map(|step| {
                        let today = match &step.today {
                            Some(today) => Text::new(today).style(Style::Bad),
                            None => Text::new("same").style(Style::Good),
                        };
                        [Text::new(step.seq.to_string()), Text::new(&step.recorded), today]
                    }),
                );
                let differing = replay.steps.iter().filter(|step| step.today.is_some()).count();
                output.line(format!(
                    "{} records, {} decisions, {differing} of them differ now",
                    replay.records,
                    replay.steps.len()
                ));
                if let Some(error) = &replay.fold_error {
                    output.line(format!("cannot replay the journal: {error}"));
                }
                if differing > 0 && !replay.same_version {
                    output.line("an older version wrote this journal, so differences are expected");
                }
            }
        }
        Ok(if replay.ok { Exit::Done } else { Exit::Failed })
    }
}
