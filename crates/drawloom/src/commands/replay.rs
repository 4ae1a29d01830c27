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

/// Fold a run's journal again and compare every decision with today's
#[derive(Debug, Args)]
pub struct Replay {
    /// The run, or the caller's handle of it
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
                        Column::new("decided then").shrinks_to(12),
                        Column::new("decided today").shrinks_to(12),
                    ],
                    replay.steps.iter().map(|step| {
                        let today = match &step.today {
                            Some(today) => Text::new(today).style(Style::Bad),
                            None => Text::new("the same").style(Style::Good),
                        };
                        [Text::new(step.seq.to_string()), Text::new(&step.recorded), today]
                    }),
                );
                let differing = replay.steps.iter().filter(|step| step.today.is_some()).count();
                output.line(format!(
                    "{} records folded, {} decisions, {differing} of them differ today",
                    replay.records,
                    replay.steps.len()
                ));
                if let Some(error) = &replay.fold_error {
                    output.line(format!("the fold failed: {error}"));
                }
                if differing > 0 && !replay.same_version {
                    output.line("older versions wrote to this journal, so differences are no fault");
                }
            }
        }
        Ok(if replay.ok { Exit::Done } else { Exit::Failed })
    }
}
